// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "ir/op.h"

#include <algorithm>
#include <array>

namespace stepfuse::ir {

namespace {
constexpr OpInfo kOps[] = {
#define STEPFUSE_OP(id, mnemonic, fam, lo, hi, flops, definition) \
  {Op::id, mnemonic, OpFamily::fam, lo, hi, flops, definition},
#include "ir/ops.def"
#undef STEPFUSE_OP
};
}  // namespace

std::span<const OpInfo> all_ops() { return kOps; }

const OpInfo& op_info(Op op) { return kOps[static_cast<size_t>(op)]; }

std::optional<Op> parse_op(std::string_view mnemonic) {
  const auto* it =
      std::find_if(std::begin(kOps), std::end(kOps), [&](const OpInfo& i) { return i.mnemonic == mnemonic; });
  return it == std::end(kOps) ? std::nullopt : std::optional(it->op);
}

bool is_compare(Op op) { return op >= Op::Lt && op <= Op::Ne; }

bool is_bool_logic(Op op) { return op == Op::And || op == Op::Or || op == Op::Not; }

bool is_commutative(Op op) {
  constexpr std::array kCommutative{Op::Add, Op::Mul, Op::Min, Op::Max, Op::Eq, Op::Ne, Op::And, Op::Or};
  return std::find(kCommutative.begin(), kCommutative.end(), op) != kCommutative.end();
}

}  // namespace stepfuse::ir
