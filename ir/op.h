// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace stepfuse::ir {

enum class Op : uint8_t {
#define STEPFUSE_OP(id, ...) id,
#include "ir/ops.def"
#undef STEPFUSE_OP
};

enum class OpFamily : uint8_t { Source, Elementwise, ScalarOnly, View, Move, Reduce, Product };

struct OpInfo {
  Op op;
  std::string_view mnemonic;
  OpFamily family;
  int arity_min, arity_max;
  int flops;
  std::string_view definition;
};

std::span<const OpInfo> all_ops();
const OpInfo& op_info(Op op);
std::optional<Op> parse_op(std::string_view mnemonic);

inline OpFamily family(Op op) { return op_info(op).family; }
inline bool is_elementwise(Op op) { return family(op) == OpFamily::Elementwise; }
inline bool is_reduce(Op op) { return family(op) == OpFamily::Reduce; }
inline bool is_view(Op op) { return family(op) == OpFamily::View; }
bool is_compare(Op op);      // lt le gt ge eq ne
bool is_bool_logic(Op op);   // and or not
bool is_commutative(Op op);  // exactly, NaN payloads aside

}  // namespace stepfuse::ir
