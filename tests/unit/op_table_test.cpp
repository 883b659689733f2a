// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "ir/op_table.h"

#include "ir/op.h"

#include <fstream>
#include <iterator>

#include <gtest/gtest.h>

namespace stepfuse::ir {
namespace {

TEST(OpTable, ShowsEveryOp) {
  const std::string table = ops_markdown();
  for (const OpInfo& info : all_ops())
    EXPECT_NE(table.find("| `" + std::string(info.mnemonic) + "` |"), std::string::npos) << info.mnemonic;
}

TEST(OpTable, DocumentHoldsExactlyThisTable) {
  std::ifstream file(STEPFUSE_SOURCE_DIR "/docs/ir.md");
  const std::string document{std::istreambuf_iterator<char>(file), {}};
  EXPECT_NE(document.find("\n\n" + ops_markdown() + "\n"), std::string::npos)
      << "docs/ir.md should hold this table between blank lines:\n\n"
      << ops_markdown();
}

}  // namespace
}  // namespace stepfuse::ir
