// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/new_parameter.h"

#include "ir/support/nearest.h"

#include <algorithm>

namespace stepfuse::runtime {

using compiler::Strides;
using ir::Input;
using ir::InputKind;

namespace {

std::vector<std::string_view> state_keys(const ir::Graph& rule) {
  std::vector<std::string_view> keys;
  for (const Input& input : rule.inputs())
    if (input.kind == InputKind::State) keys.push_back(input.key);
  return keys;
}

tl::unexpected<Status> unknown_key(const std::string& parameter, const ir::Graph& rule, const std::string& key) {
  const std::vector<std::string_view> keys = state_keys(rule);
  const std::string list = keys.empty() ? fmt::format("rule {} keeps no states", rule.name)
                                        : fmt::format("its states are {}", fmt::join(keys, ", "));
  return with_hint(fail(StatusCode::InvalidArgument, "parameter '{}' has no state '{}'", parameter, key),
                   suggestion(key, keys, list));
}

/// Every key names a state of the rule, and no two the same.
template <class Value>
Outcome check_keys(const std::string& parameter, const ir::Graph& rule,
                   const std::vector<std::pair<std::string, Value>>& given) {
  const std::vector<std::string_view> keys = state_keys(rule);
  for (size_t i = 0; i < given.size(); ++i) {
    if (std::find(keys.begin(), keys.end(), given[i].first) == keys.end())
      return unknown_key(parameter, rule, given[i].first);
    for (size_t j = 0; j < i; ++j)
      if (given[j].first == given[i].first)
        return with_hint(
            fail(StatusCode::InvalidArgument, "parameter '{}': state '{}' is given twice", parameter, given[i].first),
            "give each state once");
  }
  return {};
}

template <class Value>
const Value* find_key(const std::vector<std::pair<std::string, Value>>& given, const std::string& key) {
  const auto it = std::find_if(given.begin(), given.end(), [&](const auto& pair) { return pair.first == key; });
  return it == given.end() ? nullptr : &it->second;
}

Strides given_strides(const NewParameter& parameter, const Input& input) {
  switch (input.kind) {
    case InputKind::Param:
      return parameter.param_strides;
    case InputKind::Grad:
      return parameter.grad_strides;
    case InputKind::State: {
      const Strides* strides = find_key(parameter.state_strides, input.key);
      return strides == nullptr ? Strides() : *strides;
    }
    case InputKind::Step:
    case InputKind::Hyper:
      break;
  }
  return {};
}

}  // namespace

Result<int64_t> checked_elements(const NewParameter& parameter) {
  const std::vector<int64_t>& shape = parameter.spec.shape;
  int64_t elements = 1;
  for (int64_t extent : shape) {
    if (extent < 0)
      return with_hint(
          fail(StatusCode::InvalidArgument, "parameter '{}': extent {} is negative", parameter.name, extent),
          "extents are 0 or more");
    int64_t bytes = 0;
    if (__builtin_mul_overflow(elements, extent, &elements) || __builtin_mul_overflow(elements, int64_t{16}, &bytes))
      return with_hint(fail(StatusCode::InvalidArgument, "parameter '{}': [{}] has more elements than memory can hold",
                            parameter.name, fmt::join(shape, ", ")),
                       "give the shape in elements, not in bytes");
  }
  return elements;
}

std::string tensor_label(const std::string& parameter, const Input& input) {
  if (input.kind == InputKind::Grad) return fmt::format("the gradient of '{}'", parameter);
  if (input.kind == InputKind::State) return fmt::format("state '{}' of '{}'", input.key, parameter);
  return fmt::format("parameter '{}'", parameter);
}

Result<std::vector<Strides>> checked_layouts(const NewParameter& parameter, const ir::Graph& rule) {
  STEPFUSE_TRY(check_keys(parameter.name, rule, parameter.state_strides));
  std::vector<Strides> layouts;
  for (const Input& input : rule.inputs()) {
    layouts.emplace_back();
    if (input.type.scalar) continue;
    const Strides strides = given_strides(parameter, input);
    const std::vector<int64_t> shape = compiler::input_shape(input, parameter.spec.shape);
    STEPFUSE_TRY(compiler::check_strides(tensor_label(parameter.name, input), shape, strides,
                                         ir::dtype_bytes(input.type.dtype)));
    layouts.back() = compiler::normalise_strides(shape, strides);
  }
  if (std::all_of(layouts.begin(), layouts.end(), [](const Strides& strides) { return strides.empty(); }))
    layouts.clear();
  return layouts;
}

Outcome sort_pointers(const compiler::PlannedParameter& parameter, bool caller_states, const MemoryBinding& memory,
                      std::vector<void*>& pointers) {
  if (!caller_states && !memory.states.empty())
    return with_hint(fail(StatusCode::InvalidArgument, "parameter '{}' is bound with states, which the optimizer owns",
                          parameter.name),
                     "say that they are the caller's when the parameter is added, or bind without them");
  if (caller_states) STEPFUSE_TRY(check_keys(parameter.name, parameter.rule, memory.states));
  pointers.assign(parameter.rule.inputs().size(), nullptr);
  for (size_t i = 0; i < pointers.size(); ++i) {
    const Input& input = parameter.rule.inputs()[i];
    if (input.kind == InputKind::Param) pointers[i] = memory.data;
    // Gradients are only read; the bindings hold one kind of pointer.
    if (input.kind == InputKind::Grad) pointers[i] = const_cast<void*>(memory.gradient);
    if (input.kind != InputKind::State || !caller_states) continue;
    void* const* state = find_key(memory.states, input.key);
    if (state == nullptr)
      return with_hint(fail(StatusCode::InvalidArgument, "parameter '{}' is bound without memory for its state '{}'",
                            parameter.name, input.key),
                       "the caller owns the states of this parameter: bind all of them each time");
    pointers[i] = *state;
  }
  return {};
}

}  // namespace stepfuse::runtime
