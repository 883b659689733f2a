// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tools/state_io.h"

#include "ir/support/nearest.h"
#include "tools/model.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

namespace stepfuse::tools {

namespace {

constexpr double kMostSteps = 0x1p53;

std::string shape_text(const std::vector<int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

/// Where one tensor of a state file belongs.
struct StatePlace {
  uint32_t parameter = 0;
  bool is_step = false;
  runtime::StateView view;  // unless is_step
};

bool counts_steps(const runtime::Optimizer& optimizer, uint32_t parameter) {
  const auto& inputs = optimizer.planned()[parameter].rule.inputs();
  return std::any_of(inputs.begin(), inputs.end(),
                     [](const ir::Input& input) { return input.kind == ir::InputKind::Step; });
}

/// All tensors that a state file may hold, by name.
Result<std::map<std::string, StatePlace>> state_places(const runtime::Optimizer& optimizer,
                                                       const std::vector<RunTensor>& tensors) {
  std::map<std::string, StatePlace> places;
  for (uint32_t i = 0; i < tensors.size(); ++i) {
    STEPFUSE_ASSIGN(const std::vector<runtime::StateView> views, optimizer.states(i));
    std::vector<std::pair<std::string, StatePlace>> own;
    for (const runtime::StateView& view : views) own.push_back({view.key, {i, false, view}});
    if (counts_steps(optimizer, i)) own.push_back({"step", {i, true, {}}});
    for (auto& [key, place] : own)
      if (const std::string name = tensors[i].name + "." + key; !places.emplace(name, std::move(place)).second)
        return with_hint(fail(StatusCode::InvalidArgument, "two states would be called '{}'", name),
                         "rename one of the parameters");
  }
  return places;
}

tl::unexpected<Status> unknown_state(const runtime::SafetensorsFile& file, const std::string& name,
                                     const std::map<std::string, StatePlace>& places) {
  std::vector<std::string> names;
  for (const auto& [known, place] : places) names.push_back(known);
  std::string hint = did_you_mean(name, names);
  if (hint.empty())
    hint = names.empty() ? "this rule keeps no states"
                         : fmt::format("states are named PARAMETER.KEY, such as '{}'", names.front());
  return with_hint(fail(StatusCode::InvalidData, "{}: no parameter has a state '{}'", file.path(), name), hint);
}

Outcome check_state(const runtime::SafetensorsFile& file, const runtime::TensorEntry& entry, const StatePlace& place) {
  const std::string_view dtype = place.is_step ? "F32" : safetensors_name(place.view.dtype);
  const std::vector<int64_t> shape = place.is_step ? std::vector<int64_t>() : place.view.shape;
  if (entry.dtype == dtype && entry.shape == shape) return {};
  return with_hint(fail(StatusCode::InvalidData, "{}: state '{}' is {} {}, expected {} {}", file.path(), entry.name,
                        entry.dtype, shape_text(entry.shape), dtype, shape_text(shape)),
                   "states have the shape and element type of their parameter");
}

Result<int64_t> read_step(const runtime::SafetensorsFile& file, const runtime::TensorEntry& entry) {
  float step = 0;
  std::memcpy(&step, file.data(entry), sizeof step);
  const auto value = static_cast<double>(step);
  if (std::isfinite(value) && value >= 1 && value <= kMostSteps && value == std::floor(value))
    return static_cast<int64_t>(value);
  return with_hint(fail(StatusCode::InvalidData, "{}: '{}' is {}", file.path(), entry.name, value),
                   "a step counter is a whole number from 1 on; leave all states of a parameter out to start afresh");
}

/// Every parameter with one tensor in the file must have all of them.
Outcome check_complete(const runtime::SafetensorsFile& file, const std::map<std::string, StatePlace>& places,
                       const std::vector<char>& present, const std::vector<RunTensor>& tensors) {
  for (const auto& [name, place] : places)
    if (present[place.parameter] != 0 && file.find(name) == nullptr)
      return with_hint(fail(StatusCode::InvalidData, "{}: '{}' is missing, though other states of '{}' are there",
                            file.path(), name, tensors[place.parameter].name),
                       "give all states of a parameter, or none");
  return {};
}

std::vector<std::byte> copy_of(const runtime::SafetensorsFile& file, const runtime::TensorEntry& entry) {
  const std::byte* data = file.data(entry);
  return {data, data + entry.bytes};
}

Outcome check_gradient(const runtime::SafetensorsFile& grads, const runtime::TensorEntry& gradient,
                       const runtime::TensorEntry& parameter) {
  if (gradient.shape != parameter.shape)
    return with_hint(fail(StatusCode::InvalidData, "{}: the gradient of '{}' is {}, the parameter is {}", grads.path(),
                          gradient.name, shape_text(gradient.shape), shape_text(parameter.shape)),
                     "a gradient has the shape of its parameter");
  if (gradient.dtype != parameter.dtype)
    return with_hint(fail(StatusCode::InvalidData, "{}: the gradient of '{}' is {}, the parameter is {}", grads.path(),
                          gradient.name, gradient.dtype, parameter.dtype),
                     "convert one of the two files, as torch's optimizers ask for equal element types");
  return {};
}

Outcome check_gradient_names(const runtime::SafetensorsFile& params, const runtime::SafetensorsFile& grads) {
  std::vector<std::string> names;
  for (const runtime::TensorEntry& entry : params.tensors()) names.push_back(entry.name);
  for (const runtime::TensorEntry& entry : grads.tensors())
    if (params.find(entry.name) == nullptr) {
      std::string hint = did_you_mean(entry.name, names);
      if (hint.empty()) hint = fmt::format("{} has no tensor of that name", params.path());
      return with_hint(
          fail(StatusCode::InvalidData, "{}: gradient '{}' belongs to no parameter", grads.path(), entry.name), hint);
    }
  return {};
}

}  // namespace

Result<std::vector<RunTensor>> read_tensors(const runtime::SafetensorsFile& params,
                                            const runtime::SafetensorsFile& grads, std::vector<std::string>& missing) {
  if (params.tensors().empty()) return fail(StatusCode::InvalidData, "{}: the file has no tensors", params.path());
  STEPFUSE_TRY(check_gradient_names(params, grads));
  std::vector<RunTensor> tensors;
  for (const runtime::TensorEntry& entry : params.tensors()) {
    STEPFUSE_ASSIGN(const ir::DType dtype, element_type_of(params.path(), entry.name, entry.dtype));
    RunTensor tensor{entry.name, dtype, entry.shape, copy_of(params, entry), {}, false};
    if (const runtime::TensorEntry* gradient = grads.find(entry.name); gradient != nullptr) {
      STEPFUSE_TRY(check_gradient(grads, *gradient, entry));
      tensor.gradient = copy_of(grads, *gradient);
      tensor.has_gradient = true;
    } else {
      missing.push_back(entry.name);
    }
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

Outcome import_states(runtime::Optimizer& optimizer, const std::vector<RunTensor>& tensors,
                      const runtime::SafetensorsFile& file) {
  STEPFUSE_ASSIGN(const auto places, state_places(optimizer, tensors));
  std::vector<char> present(tensors.size());
  for (const runtime::TensorEntry& entry : file.tensors()) {
    const auto it = places.find(entry.name);
    if (it == places.end()) return unknown_state(file, entry.name, places);
    STEPFUSE_TRY(check_state(file, entry, it->second));
    if (it->second.is_step) STEPFUSE_TRY(read_step(file, entry).map([](int64_t) {}));
    present[it->second.parameter] = 1;
  }
  STEPFUSE_TRY(check_complete(file, places, present, tensors));
  for (const runtime::TensorEntry& entry : file.tensors()) {
    const StatePlace& place = places.at(entry.name);
    if (place.is_step) {
      STEPFUSE_ASSIGN(const int64_t steps, read_step(file, entry));
      optimizer.set_steps(place.parameter, steps);
    } else if (entry.bytes > 0) {
      std::memcpy(place.view.data, file.data(entry), entry.bytes);
    }
  }
  for (uint32_t i = 0; i < tensors.size(); ++i) {
    if (present[i] == 0) continue;
    optimizer.mark_states_present(i);
    // Without a counter in the file the states alone say that steps were taken.
    if (!counts_steps(optimizer, i)) optimizer.set_steps(i, 1);
  }
  return {};
}

Result<std::vector<runtime::TensorToWrite>> export_states(const runtime::Optimizer& optimizer,
                                                          const std::vector<RunTensor>& tensors,
                                                          std::vector<float>& counters) {
  STEPFUSE_ASSIGN(const auto places, state_places(optimizer, tensors));
  counters.reserve(tensors.size());  // pointers into it are handed out
  std::vector<runtime::TensorToWrite> result;
  for (uint32_t i = 0; i < tensors.size(); ++i) {
    if (optimizer.steps(i) == 0) continue;
    STEPFUSE_ASSIGN(const std::vector<runtime::StateView> views, optimizer.states(i));
    for (const runtime::StateView& view : views)
      result.push_back(
          {tensors[i].name + "." + view.key, std::string(safetensors_name(view.dtype)), view.shape, view.data});
    if (!counts_steps(optimizer, i)) continue;
    counters.push_back(static_cast<float>(optimizer.steps(i)));
    result.push_back({tensors[i].name + ".step", "F32", {}, &counters.back()});
  }
  return result;
}

}  // namespace stepfuse::tools
