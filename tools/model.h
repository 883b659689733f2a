// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/plan.h"
#include "ir/optimizers/recipe.h"
#include "tools/option_values.h"
#include "tools/routing.h"
#include "tools/shape_arg.h"

#include <string>
#include <vector>

namespace stepfuse::tools {

struct ModelParameter {
  std::string name;
  ir::ParameterSpec spec;
};

/// Where the parameters of inspect and explain come from: --shape or --params, with --dtype on top.
struct ModelSource {
  std::vector<ShapeArg> shapes;
  std::string params;
  ElementTypes types;

  bool empty() const { return shapes.empty() && params.empty(); }
};
Result<ModelSource> read_model_source(const Arguments& arguments);

/// Reads the header of the safetensors file or the manifest.
Result<std::vector<ModelParameter>> load_model(const ModelSource& source);

/// The element type that safetensors calls "F32" and so on; the error names the tensor.
Result<ir::DType> element_type_of(const std::string& path, const std::string& tensor, const std::string& dtype);

/// As the router takes them.
std::vector<runtime::RoutedParameter> to_route(const std::vector<ModelParameter>& model);

/// Each parameter with its rule's naive graph.
Result<std::vector<compiler::PlannedParameter>> plan_parameters(const RoutedModel& routed,
                                                                const std::vector<ModelParameter>& model);

}  // namespace stepfuse::tools
