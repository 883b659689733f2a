// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/optimizer.h"
#include "tests/support/temporary_folder.h"

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace stepfuse::test {

/// A temporary folder and its text files.
class TempFolder {
 public:
  std::string path(const std::string& name = {}) const {
    return name.empty() ? folder_.path().string() : folder_ / name;
  }
  std::string read(const std::string& name) const;
  void write(const std::string& name, const std::string& text) const;
  std::vector<std::string> files() const;  // sorted

 private:
  tests::TemporaryFolder folder_;
};

/// A context over this process's environment, and what it said.
struct LoggedContext {
  std::shared_ptr<std::vector<std::string>> messages;  // "warn: ..."
  std::shared_ptr<const runtime::Context> context;

  int count(std::string_view part) const;  // messages that hold it
};
LoggedContext make_context(const std::vector<std::pair<std::string, std::string>>& settings);

using Values = std::vector<float>;

/// The parameter after two steps of a rule, f32, from values that are the same every time.
Result<Values> run_steps(const LoggedContext& context, const std::string& rule, const std::vector<int64_t>& shape,
                         const ir::OptionList& options = {}, const std::string& target = "cpu");
Values start_values(const std::vector<int64_t>& shape);

}  // namespace stepfuse::test
