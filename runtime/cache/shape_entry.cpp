// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cache/shape_entry.h"

#include "compiler/memory.h"
#include "ir/print.h"
#include "runtime/kernel_cache.h"

#include <algorithm>
#include <cstring>
#include <ctime>

#include <nlohmann/json.hpp>

namespace stepfuse::runtime {

namespace {

using Json = nlohmann::ordered_json;

/// The rule as people read it, with every default at 0: they are values, and values are not baked in.
std::string rule_text(const ir::Graph& rule) {
  ir::Graph valueless = rule;
  for (const ir::Input& input : rule.inputs())
    if (input.kind == ir::InputKind::Hyper) valueless.set_default(input.value, 0);
  return ir::print(valueless);
}

std::string dtypes_text(const ir::Graph& rule) {
  std::string text;
  for (const ir::Input& input : rule.inputs()) {
    if (input.type.scalar) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ",", input.name, ir::dtype_name(input.type.dtype));
  }
  return text;
}

/// How a parameter's tensors lie in memory.
std::string layout_text(const compiler::GroupPlan& group) {
  std::string text;
  for (size_t i = 0; i < group.layouts.size(); ++i)
    if (!group.layouts[i].empty())
      text += fmt::format("{}{} [{}]", text.empty() ? "" : ", ", group.naive.inputs()[i].name,
                          fmt::join(group.layouts[i], ", "));
  return text.empty() ? "row-major" : text;
}

Json product_json(const codegen::LoweredProduct& product, const std::string& by) {
  const codegen::GemmShape& shape = product.shape;
  Json json = {{"m", shape.m},
               {"n", shape.n},
               {"k", shape.k},
               {"a", ir::dtype_name(shape.ab)},
               {"c", shape.has_c ? ir::dtype_name(shape.c) : ""},
               {"d", ir::dtype_name(shape.d)},
               {"batch", product.batch}};
  if (!by.empty()) json["by"] = by;
  return json;
}

Json launch_json(const ShapeLaunch& launch) {
  Json json = {{"kind", compiler::step_kind_name(launch.kind)}, {"role", launch.role}};
  if (launch.product != nullptr) {
    json["product"] = product_json(*launch.product, launch.by);
  } else {
    json["dims"] = launch.dims;
  }
  return json;
}

std::vector<std::byte> bytes_of(const std::string& text) {
  std::vector<std::byte> bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

}  // namespace

std::string shape_text(const std::vector<int64_t>& shape) {
  return shape.empty() ? "scalar" : fmt::format("{}", fmt::join(shape, "x"));
}

KeyFields shape_fields(const compiler::StepPlan& plan, const compiler::GroupPlan& group,
                       const std::vector<int64_t>& shape, const KeyFields& target) {
  std::vector<std::string> disabled = plan.disabled;
  std::sort(disabled.begin(), disabled.end());
  KeyFields fields{{"library", library_build()}};
  fields.insert(fields.end(), target.begin(), target.end());
  const KeyFields rest{{"mode", plan.mode == ir::Mode::Strict ? "strict" : "default"},
                       {"disabled", fmt::format("{}", fmt::join(disabled, ","))},
                       {"shape", shape_text(shape)},
                       {"dtypes", dtypes_text(group.naive)},
                       {"layout", layout_text(group)},
                       {"rule", rule_text(group.naive)}};
  fields.insert(fields.end(), rest.begin(), rest.end());
  return fields;
}

std::array<int64_t, 3> move_dims(const codegen::LoweredMove& move, int64_t elements) {
  return move.target.symbolic ? std::array<int64_t, 3>{1, 1, elements} : move.target.dims;
}

Entry shape_entry(const Key& key, const compiler::GroupPlan& group, const GroupShape& shape,
                  std::span<const ShapeKernel> kernels, std::span<const ShapeLaunch> launches) {
  Json payload = {{"kernels", Json::array()}, {"launches", Json::array()}};
  for (const ShapeKernel& kernel : kernels)
    payload["kernels"].push_back({{"name", kernel.name}, {"hash", kernel.hash}});
  for (const ShapeLaunch& launch : launches) payload["launches"].push_back(launch_json(launch));
  payload["workspace_bytes_per_member"] = compiler::member_bytes(group, compiler::element_count(shape.shape));
  const Json metadata = {{"name", group.naive.name}, {"library", library_build()}, {"members", shape.members}};
  return {EntryKind::Shape, key.preimage, metadata.dump(), bytes_of(payload.dump())};
}

std::vector<GroupShape> shapes_of(const compiler::GroupPlan& group,
                                  const std::vector<compiler::PlannedParameter>& parameters) {
  std::vector<GroupShape> shapes;
  for (const uint32_t member : group.members) {
    const std::vector<int64_t>& shape = parameters[member].shape;
    auto it = std::find_if(shapes.begin(), shapes.end(), [&](const GroupShape& s) { return s.shape == shape; });
    if (it == shapes.end()) it = shapes.insert(it, {shape, member, 0});
    ++it->members;
  }
  return shapes;
}

void stamp_created(Entry& entry) {
  auto metadata = nlohmann::ordered_json::parse(entry.metadata);
  metadata["created"] = static_cast<int64_t>(::time(nullptr));
  entry.metadata = metadata.dump();
}

}  // namespace stepfuse::runtime
