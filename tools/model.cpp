// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tools/model.h"

#include "runtime/safetensors.h"
#include "tools/manifest.h"

#include <algorithm>
#include <array>
#include <utility>

namespace stepfuse::tools {

namespace {

constexpr std::array<std::pair<std::string_view, ir::DType>, 4> kElementTypes{
    {{"F32", ir::DType::F32}, {"BF16", ir::DType::BF16}, {"F16", ir::DType::F16}, {"F64", ir::DType::F64}}};

/// Gradients and states follow the parameter unless --dtype or a manifest tells otherwise.
ir::ParameterSpec make_spec(const std::vector<int64_t>& shape, ir::DType own, const ElementTypes& types,
                            std::optional<ir::DType> grad = {}, std::optional<ir::DType> state = {}) {
  const ir::DType param = types.param.value_or(own);
  return {shape, param, types.grad.value_or(grad.value_or(param)), types.state.value_or(state.value_or(param))};
}

std::vector<ModelParameter> from_shapes(const ModelSource& source) {
  std::vector<ModelParameter> model;
  for (const ShapeArg& arg : source.shapes)
    for (int64_t i = 0; i < arg.count; ++i)
      model.push_back({fmt::format("p{}", model.size()), make_spec(arg.shape, ir::DType::F32, source.types)});
  return model;
}

Result<std::vector<ModelParameter>> from_manifest(const ModelSource& source) {
  STEPFUSE_ASSIGN(const auto tensors, read_manifest(source.params));
  std::vector<ModelParameter> model;
  for (const ManifestTensor& tensor : tensors)
    model.push_back({tensor.name, make_spec(tensor.shape, tensor.dtype, source.types, tensor.grad, tensor.state)});
  return model;
}

Result<std::vector<ModelParameter>> from_safetensors(const ModelSource& source) {
  STEPFUSE_ASSIGN(const auto file, runtime::SafetensorsFile::open_header(source.params));
  std::vector<ModelParameter> model;
  for (const runtime::TensorEntry& entry : file.tensors()) {
    STEPFUSE_ASSIGN(const ir::DType dtype, element_type_of(source.params, entry.name, entry.dtype));
    model.push_back({entry.name, make_spec(entry.shape, dtype, source.types)});
  }
  if (model.empty()) return fail(StatusCode::InvalidData, "{}: the file has no tensors", source.params);
  return model;
}

}  // namespace

Result<ModelSource> read_model_source(const Arguments& arguments) {
  ModelSource source;
  for (const std::string& text : arguments.all("shape")) {
    STEPFUSE_ASSIGN(ShapeArg shape, parse_shape(text));
    source.shapes.push_back(std::move(shape));
  }
  source.params = arguments.get("params");
  if (!source.shapes.empty() && !source.params.empty())
    return with_hint(fail(StatusCode::InvalidArgument, "--shape and --params exclude each other"),
                     "give one of the two");
  STEPFUSE_ASSIGN(source.types, read_dtypes(arguments));
  return source;
}

Result<std::vector<ModelParameter>> load_model(const ModelSource& source) {
  if (source.params.empty()) return from_shapes(source);
  return source.params.ends_with(".toml") ? from_manifest(source) : from_safetensors(source);
}

Result<ir::DType> element_type_of(const std::string& path, const std::string& tensor, const std::string& dtype) {
  for (const auto& [name, type] : kElementTypes)
    if (name == dtype) return type;
  return with_hint(fail(StatusCode::InvalidData, "{}: tensor '{}' is {}, which is no element type of parameters", path,
                        tensor, dtype),
                   "parameters are F32, BF16, F16 or F64; leave other tensors out of the file");
}

std::vector<runtime::RoutedParameter> to_route(const std::vector<ModelParameter>& model) {
  std::vector<runtime::RoutedParameter> parameters;
  for (const ModelParameter& parameter : model)
    parameters.push_back({parameter.name, parameter.spec.shape, parameter.spec.param});
  return parameters;
}

Result<std::vector<compiler::PlannedParameter>> plan_parameters(const RoutedModel& routed,
                                                                const std::vector<ModelParameter>& model) {
  std::vector<compiler::PlannedParameter> planned;
  for (size_t i = 0; i < model.size(); ++i) {
    const ModelParameter& parameter = model[i];
    const runtime::Rule& rule = routed.rules[routed.rule_of[i]].rule;
    auto graph = rule.instantiate(parameter.spec);
    if (!graph) {
      Status status = std::move(graph.error());
      status.message =
          fmt::format("parameter '{}' [{}]: {}", parameter.name, fmt::join(parameter.spec.shape, ", "), status.message);
      return fail(std::move(status));
    }
    planned.push_back({parameter.name, parameter.spec.shape, std::move(*graph), rule.peer()});
  }
  return planned;
}

}  // namespace stepfuse::tools
