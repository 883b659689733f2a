// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/manifest.h"

#include "ir/support/version.h"
#include "runtime/pending_file.h"

#include <algorithm>
#include <optional>

#include <nlohmann/json.hpp>

namespace stepfuse::runtime {

namespace {

/// A JSON string is one of TOML too, but for the one control character that JSON leaves as it is.
Result<std::string> quoted(const std::string& name) {
  std::string text;
  try {
    text = nlohmann::json(name).dump();
  } catch (const nlohmann::json::type_error&) {
    return with_hint(fail(StatusCode::InvalidArgument,
                          "the name of a parameter is not UTF-8, so that no manifest holds "
                          "it"),
                     "rename the parameter");
  }
  for (size_t at = text.find('\x7f'); at != std::string::npos; at = text.find('\x7f', at))
    text.replace(at, 1, "\\u007F");
  return text;
}

/// The element type of the first tensor of a kind.
std::optional<ir::DType> type_of(const ir::Graph& rule, ir::InputKind kind) {
  for (const ir::Input& input : rule.inputs())
    if (input.kind == kind && !input.type.scalar) return input.type.dtype;
  return std::nullopt;
}

Result<std::string> line_of(const compiler::PlannedParameter& parameter) {
  const auto strided = [](const Strides& strides) { return !strides.empty(); };
  if (std::any_of(parameter.layouts.begin(), parameter.layouts.end(), strided))
    return with_hint(fail(StatusCode::Unsupported,
                          "parameter '{}': a tensor of it has strides, and a manifest holds "
                          "dense tensors only",
                          parameter.name),
                     "what it needs is compiled at its first prepare, and then comes from the cache");
  STEPFUSE_ASSIGN(const std::string name, quoted(parameter.name));
  std::string line = fmt::format("  {{ name = {}, shape = [{}]", name, fmt::join(parameter.shape, ", "));
  const auto add = [&](const char* key, ir::InputKind kind) {
    if (const auto type = type_of(parameter.rule, kind))
      line += fmt::format(", {} = \"{}\"", key, ir::dtype_name(*type));
  };
  add("dtype", ir::InputKind::Param);
  add("grad", ir::InputKind::Grad);
  add("state", ir::InputKind::State);
  return line + " },\n";
}

}  // namespace

Result<std::string> manifest_text(const std::vector<compiler::PlannedParameter>& parameters) {
  std::string text = fmt::format("# The parameters of an optimizer, written by stepfuse {}.\ntensors = [\n", kVersion);
  for (const compiler::PlannedParameter& parameter : parameters) {
    STEPFUSE_ASSIGN(const std::string line, line_of(parameter));
    text += line;
  }
  return text + "]\n";
}

Outcome write_manifest(const Optimizer& optimizer, const std::string& path) {
  STEPFUSE_ASSIGN(const std::string text, manifest_text(optimizer.planned()));
  PendingFile file(path);
  STEPFUSE_TRY(file.create(0666));
  STEPFUSE_TRY(file.write(text));
  return file.publish(false);
}

}  // namespace stepfuse::runtime
