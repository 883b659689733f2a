// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/state_io.h"

#include "ir/support/nearest.h"
#include "runtime/strided.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>

namespace stepfuse::runtime {

namespace {

constexpr double kMostSteps = 0x1p53;  // bias corrections are exact up to here

/// Where one tensor of a state file belongs.
struct StatePlace {
  uint32_t parameter = 0;
  bool is_step = false;
  StateView view;  // unless is_step
};
using StatePlaces = std::map<std::string, StatePlace>;

const std::string& name_of(const Optimizer& optimizer, uint32_t parameter) {
  return optimizer.planned()[parameter].name;
}

bool counts_steps(const Optimizer& optimizer, uint32_t parameter) {
  const auto& inputs = optimizer.planned()[parameter].rule.inputs();
  return std::any_of(inputs.begin(), inputs.end(),
                     [](const ir::Input& input) { return input.kind == ir::InputKind::Step; });
}

StridedTensor tensor_of(const StateView& view) {
  return {static_cast<std::byte*>(view.data), view.shape, view.strides, ir::dtype_bytes(view.dtype)};
}

/// The states of a parameter, all with memory.
Result<std::vector<StateView>> bound_states(const Optimizer& optimizer, uint32_t parameter) {
  STEPFUSE_ASSIGN(std::vector<StateView> views, optimizer.states(parameter));
  for (const StateView& view : views)
    if (view.data == nullptr && tensor_of(view).dense_bytes() > 0)
      return with_hint(fail(StatusCode::InvalidArgument, "state '{}' of '{}' is the caller's and is not bound",
                            view.key, name_of(optimizer, parameter)),
                       "bind the parameter and its states first");
  return views;
}

/// All tensors that a state file may hold, by name.
Result<StatePlaces> state_places(const Optimizer& optimizer) {
  StatePlaces places;
  for (uint32_t i = 0; i < optimizer.parameter_count(); ++i) {
    STEPFUSE_ASSIGN(const std::vector<StateView> views, bound_states(optimizer, i));
    std::vector<std::pair<std::string, StatePlace>> own;
    for (const StateView& view : views) own.push_back({view.key, {i, false, view}});
    if (counts_steps(optimizer, i)) own.push_back({"step", {i, true, {}}});
    for (auto& [key, place] : own)
      if (const std::string name = name_of(optimizer, i) + "." + key; !places.emplace(name, std::move(place)).second)
        return with_hint(fail(StatusCode::InvalidArgument, "two states would be called '{}'", name),
                         "rename one of the parameters");
  }
  return places;
}

/// torch's own files number the parameters: "0.exp_avg".
bool is_positional(const std::string& name) {
  const size_t dot = name.find('.');
  return dot != std::string::npos && dot > 0 && name.find_first_not_of("0123456789") == dot;
}

tl::unexpected<Status> unknown_state(const SafetensorsFile& file, const std::string& name, const StatePlaces& places) {
  std::vector<std::string> names;
  for (const auto& [known, place] : places) names.push_back(known);
  std::string hint = did_you_mean(name, names);
  if (names.empty()) {
    hint = "these rules keep no states";
  } else if (is_positional(name)) {
    hint = fmt::format("states belong to parameters by name, not by position; rename the tensors to names such as '{}'",
                       names.front());
  } else if (hint.empty()) {
    hint = fmt::format("states are named PARAMETER.KEY, such as '{}'", names.front());
  }
  return with_hint(fail(StatusCode::InvalidData, "{}: no parameter has a state '{}'", file.path(), name), hint);
}

std::string shape_text(const std::vector<int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

Outcome check_state(const SafetensorsFile& file, const TensorEntry& entry, const StatePlace& place) {
  const std::string_view dtype = place.is_step ? "F32" : safetensors_name(place.view.dtype);
  const std::vector<int64_t> shape = place.is_step ? std::vector<int64_t>() : place.view.shape;
  if (entry.dtype == dtype && entry.shape == shape) return {};
  return with_hint(fail(StatusCode::InvalidData, "{}: state '{}' is {} {}, expected {} {}", file.path(), entry.name,
                        entry.dtype, shape_text(entry.shape), dtype, shape_text(shape)),
                   "states have the shape and element type of their parameter");
}

Result<int64_t> read_step(const SafetensorsFile& file, const TensorEntry& entry) {
  float step = 0;
  std::memcpy(&step, file.data(entry), sizeof step);
  const auto value = static_cast<double>(step);
  if (std::isfinite(value) && value >= 1 && value <= kMostSteps && value == std::floor(value))
    return static_cast<int64_t>(value);
  return with_hint(fail(StatusCode::InvalidData, "{}: '{}' is {}", file.path(), entry.name, value),
                   "a step counter is a whole number from 1 on; leave all states of a parameter out to start afresh");
}

/// Checks every tensor, and that a parameter with one of its tensors has all. Gives the step counts that parameters
/// get: 0 for those that the file does not name.
Result<std::vector<int64_t>> checked_steps(const Optimizer& optimizer, const SafetensorsFile& file,
                                           const StatePlaces& places) {
  std::vector<int64_t> steps(optimizer.parameter_count(), 0);
  for (const TensorEntry& entry : file.tensors()) {
    const auto it = places.find(entry.name);
    if (it == places.end()) return unknown_state(file, entry.name, places);
    STEPFUSE_TRY(check_state(file, entry, it->second));
    int64_t& count = steps[it->second.parameter];
    // Without a counter in the file the states alone say that steps were taken.
    count = std::max(count, int64_t{1});
    if (it->second.is_step) {
      STEPFUSE_ASSIGN(count, read_step(file, entry));
    }
  }
  for (const auto& [name, place] : places)
    if (steps[place.parameter] > 0 && file.find(name) == nullptr)
      return with_hint(fail(StatusCode::InvalidData, "{}: '{}' is missing, though other states of '{}' are there",
                            file.path(), name, name_of(optimizer, place.parameter)),
                       "give all states of a parameter, or none");
  return steps;
}

/// Tensors to write, and what they point to besides the optimizer's own memory.
struct Export {
  std::vector<TensorToWrite> tensors;
  std::deque<std::vector<std::byte>> copies;  // of states that are not dense, or not in host memory
  std::deque<float> counters;

  Outcome add(const std::string& name, const StateView& view, const Device& device) {
    const void* data = view.data;
    if (!view.strides.empty() || !device.is_host()) {
      const StridedTensor tensor = tensor_of(view);
      std::vector<std::byte>& copy = copies.emplace_back(static_cast<size_t>(tensor.dense_bytes()));
      STEPFUSE_TRY(gather_from(device, tensor, copy.data()));
      data = copy.data();
    }
    tensors.push_back({name, std::string(safetensors_name(view.dtype)), view.shape, data});
    return {};
  }
};

/// The states of the parameters that have taken a step, here or before they were imported.
Result<Export> collect(const Optimizer& optimizer) {
  STEPFUSE_TRY(state_places(optimizer).map([](const StatePlaces&) {}));
  Export result;
  for (uint32_t i = 0; i < optimizer.parameter_count(); ++i) {
    STEPFUSE_ASSIGN(const int64_t steps, optimizer.steps(i));
    if (steps == 0) continue;
    STEPFUSE_ASSIGN(const std::vector<StateView> views, optimizer.states(i));
    for (const StateView& view : views)
      STEPFUSE_TRY(result.add(name_of(optimizer, i) + "." + view.key, view, optimizer.device()));
    if (!counts_steps(optimizer, i)) continue;
    result.counters.push_back(static_cast<float>(steps));
    result.tensors.push_back({name_of(optimizer, i) + ".step", "F32", {}, &result.counters.back()});
  }
  return result;
}

}  // namespace

Result<std::vector<std::byte>> export_state(const Optimizer& optimizer) {
  STEPFUSE_ASSIGN(const Export collected, collect(optimizer));
  return serialise_safetensors(collected.tensors);
}

Outcome save_state(const Optimizer& optimizer, const std::string& path,
                   const std::map<std::string, std::string>& metadata) {
  STEPFUSE_ASSIGN(const Export collected, collect(optimizer));
  return write_safetensors(path, collected.tensors, metadata);
}

Outcome import_state(Optimizer& optimizer, const SafetensorsFile& file) {
  STEPFUSE_ASSIGN(const StatePlaces places, state_places(optimizer));
  STEPFUSE_ASSIGN(const std::vector<int64_t> steps, checked_steps(optimizer, file, places));
  for (const TensorEntry& entry : file.tensors())
    if (const StatePlace& place = places.at(entry.name); !place.is_step)
      STEPFUSE_TRY(scatter_to(optimizer.device(), file.data(entry), tensor_of(place.view)));
  for (uint32_t i = 0; i < steps.size(); ++i) optimizer.set_steps(i, steps[i]);
  return {};
}

Outcome import_state(Optimizer& optimizer, std::span<const std::byte> bytes) {
  STEPFUSE_ASSIGN(const SafetensorsFile file, SafetensorsFile::from_memory(bytes, "<state>"));
  return import_state(optimizer, file);
}

Outcome load_state(Optimizer& optimizer, const std::string& path) {
  STEPFUSE_ASSIGN(const SafetensorsFile file, SafetensorsFile::open(path));
  return import_state(optimizer, file);
}

}  // namespace stepfuse::runtime
