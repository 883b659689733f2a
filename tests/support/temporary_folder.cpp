// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/support/temporary_folder.h"

#include <cstdlib>
#include <stdexcept>

#include <unistd.h>

namespace stepfuse::tests {

namespace fs = std::filesystem;

TemporaryFolder::TemporaryFolder() {
  // mkdtemp puts six letters of its own in the place of the X's.
  std::string pattern = (fs::temp_directory_path() / "stepfuse-test-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("cannot make a folder like " + pattern);
  path_ = fs::canonical(pattern);
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace stepfuse::tests
