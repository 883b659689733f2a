// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tools/check.h"

#include "ir/support/float16.h"
#include "tools/device_tensors.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace stepfuse::tools {

namespace {

constexpr double kElementwise = 2e-6;
constexpr double kProductsF32 = 5e-5;
constexpr double kProducts16 = 3e-2;

template <class T>
T load(const void* data, size_t index) {
  T value;
  std::memcpy(&value, static_cast<const std::byte*>(data) + index * sizeof(T), sizeof(T));
  return value;
}

double element(ir::DType dtype, const void* data, size_t index) {
  switch (dtype) {
    case ir::DType::F64:
      return load<double>(data, index);
    case ir::DType::F32:
      return static_cast<double>(load<float>(data, index));
    case ir::DType::F16:
      return static_cast<double>(f16_to_f32(load<uint16_t>(data, index)));
    case ir::DType::BF16:
      return static_cast<double>(bf16_to_f32(load<uint16_t>(data, index)));
    case ir::DType::Bool:
      return load<uint8_t>(data, index);
  }
  return 0;
}

/// u of the design's bound.
double unit_roundoff(ir::DType dtype) {
  switch (dtype) {
    case ir::DType::F64:
      return 0x1p-53;
    case ir::DType::F32:
      return 0x1p-24;
    case ir::DType::F16:
      return 0x1p-11;
    case ir::DType::BF16:
      return 0x1p-9;
    case ir::DType::Bool:
      return 0;
  }
  return 0;
}

bool same_value(double a, double b, bool bitwise) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b && (!bitwise || std::signbit(a) == std::signbit(b));
}

struct Tally {
  size_t compared = 0;
  size_t bad = 0;
};

void report(const Console& console, const std::string& name, const Verdict& verdict, bool bitwise, Tally& tally) {
  ++tally.compared;
  if (!verdict.ok) ++tally.bad;
  const std::string text =
      bitwise ? fmt::format("check: {}: {}", name, verdict.ok ? "bit-equal" : "not bit-equal")
              : fmt::format("check: {}: {}, off by {:.3g} of {:.3g} allowed", name,
                            verdict.ok ? "within tolerance" : "out of tolerance", verdict.error, verdict.allowed);
  verdict.ok ? console.note(text) : console.failure(text);
}

}  // namespace

Verdict compare(const Comparison& tensors, bool bitwise, double tolerance, int64_t steps) {
  double error = 0, size = 0, update = 0;
  bool equal = true;
  const size_t count = tensors.bytes / static_cast<size_t>(ir::dtype_bytes(tensors.dtype));
  for (size_t i = 0; i < count; ++i) {
    const double ours = element(tensors.dtype, tensors.ours, i);
    const double reference = element(tensors.dtype, tensors.reference, i);
    const double before = tensors.before == nullptr ? 0 : element(tensors.dtype, tensors.before, i);
    if (!same_value(ours, reference, bitwise)) {
      equal = false;
      error += (ours - reference) * (ours - reference);
    }
    if (!std::isfinite(reference) || !std::isfinite(before)) continue;
    size += reference * reference;
    update += (reference - before) * (reference - before);
  }
  Verdict verdict{std::sqrt(error), 0, equal};
  if (bitwise) return verdict;
  const double storage = 4 * unit_roundoff(tensors.dtype) * std::sqrt(static_cast<double>(steps));
  verdict.allowed = tolerance * std::sqrt(update) + storage * std::sqrt(size);
  verdict.ok = verdict.error <= verdict.allowed;  // false for NaN
  return verdict;
}

double update_tolerance(const ir::Graph& rule) {
  double tolerance = kElementwise;
  for (uint32_t i = 0; i < rule.size(); ++i) {
    const ir::Node& node = rule.node(ir::ValueId{i});
    if (node.op != ir::Op::Matmul) continue;
    const int64_t bytes = std::min(ir::dtype_bytes(rule.node(node.operands[0]).type.dtype),
                                   ir::dtype_bytes(rule.node(node.operands[1]).type.dtype));
    tolerance = std::max(tolerance, bytes == 2 ? kProducts16 : kProductsF32);
  }
  return tolerance;
}

Outcome check_against(const runtime::Optimizer& ours, const std::vector<RunTensor>& tensors,
                      const runtime::Optimizer& interpreter, const std::vector<RunTensor>& reference,
                      const std::vector<RunTensor>& before, bool bitwise, int64_t steps, const Console& console) {
  Tally tally;
  for (uint32_t i = 0; i < tensors.size(); ++i) {
    const RunTensor& tensor = tensors[i];
    const Comparison parameter{
        tensor.name,          tensor.dtype, tensor.data.size(), tensor.data.data(), reference[i].data.data(),
        before[i].data.data()};
    report(console, tensor.name, compare(parameter, bitwise, update_tolerance(ours.planned()[i].rule), steps), bitwise,
           tally);
    STEPFUSE_ASSIGN(const std::vector<runtime::StateView> states, ours.states(i));
    STEPFUSE_ASSIGN(const std::vector<runtime::StateView> expected, interpreter.states(i));
    for (size_t s = 0; s < states.size(); ++s) {
      STEPFUSE_ASSIGN(const std::vector<std::byte> got, state_bytes(ours, states[s]));
      STEPFUSE_ASSIGN(const std::vector<std::byte> want, state_bytes(interpreter, expected[s]));
      const Comparison state{
          tensor.name + "." + states[s].key, states[s].dtype, got.size(), got.data(), want.data(), nullptr};
      report(console, state.name, compare(state, bitwise, kElementwise, steps), bitwise, tally);
    }
  }
  if (tally.bad == 0) return {};
  return with_hint(fail(StatusCode::Failed, "{} of {} tensors differ from the interpreter by more than is allowed",
                        tally.bad, tally.compared),
                   bitwise
                       ? "strict promises equal bits: please report this with the files"
                       : "the bounds hold for well-conditioned gradients; --mode strict must agree bit for bit on any");
}

}  // namespace stepfuse::tools
