// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "ir/optimizers/emerging.h"

namespace stepfuse::ir {

OptionInfo fp32_matmul_prec_option(std::string_view name, std::string_view default_text) {
  return {name,
          OptionKind::Choice,
          default_text,
          {},
          {"highest", "high", "medium"},
          {},
          "the least precision of its f32 products; ours are f32, which serves each",
          kEmerging};
}

Outcome check_matrix(std::string_view recipe, const ParameterSpec& spec) {
  if (spec.shape.size() == 2) return {};
  return with_hint(fail(StatusCode::InvalidArgument, "{} takes matrices (2 dimensions); this parameter has {}", recipe,
                        spec.shape.size()),
                   "give parameters that are not matrices to another recipe, such as adamw");
}

}  // namespace stepfuse::ir
