// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tools/state_io.h"

#include "ir/support/nearest.h"
#include "tools/model.h"

namespace stepfuse::tools {

namespace {

std::string shape_text(const std::vector<int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

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

}  // namespace stepfuse::tools
