// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/fresh_states.h"

#include <algorithm>

namespace stepfuse::runtime {

namespace {

constexpr int64_t kPieceBytes = int64_t{1} << 20;  // long beside the cost of handing out a task

void append_pieces(StridedTensor tensor, std::vector<StridedTensor>& pieces) {
  if (!tensor.strides.empty()) {
    pieces.push_back(std::move(tensor));
    return;
  }
  const int64_t bytes = tensor.dense_bytes();
  for (int64_t at = 0; at < bytes; at += kPieceBytes)
    pieces.push_back({tensor.data + at, {std::min(kPieceBytes, bytes - at)}, {}, 1});
}

}  // namespace

void append_state_pieces(const compiler::PlannedParameter& parameter, const MemberBinding& binding,
                         std::vector<StridedTensor>& pieces) {
  for (size_t i = 0; i < parameter.rule.inputs().size(); ++i) {
    const ir::Input& input = parameter.rule.inputs()[i];
    if (input.kind != ir::InputKind::State) continue;
    append_pieces({static_cast<std::byte*>(binding.inputs[i]), compiler::input_shape(input, parameter.shape),
                   parameter.layout(i), ir::dtype_bytes(input.type.dtype)},
                  pieces);
  }
}

std::vector<StridedTensor> states_to_clear(const std::vector<compiler::PlannedParameter>& parameters,
                                           std::span<const MemberBinding> bindings) {
  std::vector<StridedTensor> pieces;
  for (size_t p = 0; p < parameters.size(); ++p)
    if (bindings[p].active && bindings[p].clear_states) append_state_pieces(parameters[p], bindings[p], pieces);
  return pieces;
}

}  // namespace stepfuse::runtime
