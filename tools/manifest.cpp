// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tools/manifest.h"

#include "tools/shape_arg.h"
#include "tools/text_file.h"

#include <set>

#include <toml++/toml.h>

namespace stepfuse::tools {

namespace {

constexpr const char* kForm =
    R"(a manifest holds tensors = [ { name = "w", shape = [768, 3072], dtype = "f32" }, ... ])";

std::string place(const std::string& path, const toml::node& node) {
  return fmt::format("{}:{}", path, node.source().begin.line);
}

Result<ir::DType> read_dtype(const std::string& where, const toml::node& node) {
  const auto text = node.value<std::string>();
  const auto dtype = text ? ir::parse_dtype(*text) : std::nullopt;
  if (dtype && *dtype != ir::DType::Bool) return *dtype;
  return with_hint(
      fail(StatusCode::InvalidData, "{}: {} is not an element type of parameters", where, text.value_or("this")),
      "the element types are f32, bf16, f16, f64");
}

Result<std::vector<int64_t>> read_shape(const std::string& where, const toml::node* node) {
  const toml::array* extents = node == nullptr ? nullptr : node->as_array();
  if (extents == nullptr) return with_hint(fail(StatusCode::InvalidData, "{}: the tensor has no shape", where), kForm);
  std::vector<int64_t> shape;
  for (const toml::node& extent : *extents) {
    const auto* value = extent.as_integer();
    if (value == nullptr || value->get() < 0)
      return with_hint(fail(StatusCode::InvalidData, "{}: an extent is not a whole number from 0 on", where), kForm);
    shape.push_back(value->get());
  }
  if (auto checked = check_extents(where, shape); !checked)
    return fail(StatusCode::InvalidData, "{}", checked.error().message);
  return shape;
}

Outcome check_keys(const std::string& where, const toml::table& table, std::initializer_list<std::string_view> known) {
  for (const auto& [key, value] : table)
    if (std::find(known.begin(), known.end(), key.str()) == known.end())
      return with_hint(fail(StatusCode::InvalidData, "{}: unknown key '{}'", where, key.str()), kForm);
  return {};
}

Result<ManifestTensor> read_tensor(const std::string& path, const toml::node& node, ir::DType dtype) {
  const std::string where = place(path, node);
  const toml::table* table = node.as_table();
  const auto name = table == nullptr ? std::nullopt : (*table)["name"].value<std::string>();
  if (!name || name->empty())
    return with_hint(fail(StatusCode::InvalidData, "{}: a tensor without a name", where), kForm);
  STEPFUSE_TRY(check_keys(where, *table, {"name", "shape", "dtype"}));
  const std::string subject = fmt::format("{}: '{}'", where, *name);
  ManifestTensor tensor{*name, {}, dtype};
  STEPFUSE_ASSIGN(tensor.shape, read_shape(subject, table->get("shape")));
  if (const toml::node* own = table->get("dtype"); own != nullptr) {
    STEPFUSE_ASSIGN(tensor.dtype, read_dtype(subject, *own));
  }
  return tensor;
}

Result<toml::table> parse_toml(const std::string& path) {
  STEPFUSE_ASSIGN(const std::string text, read_text(path));
  try {
    return toml::parse(text, path);
  } catch (const toml::parse_error& error) {
    const auto& at = error.source().begin;
    return fail(StatusCode::InvalidData, "{}:{}:{}: {}", path, at.line, at.column, error.description());
  }
}

}  // namespace

Result<std::vector<ManifestTensor>> read_manifest(const std::string& path) {
  STEPFUSE_ASSIGN(const toml::table root, parse_toml(path));
  STEPFUSE_TRY(check_keys(path, root, {"dtype", "tensors"}));
  ir::DType dtype = ir::DType::F32;
  if (const toml::node* node = root.get("dtype"); node != nullptr) {
    STEPFUSE_ASSIGN(dtype, read_dtype(place(path, *node), *node));
  }
  const toml::array* list = root["tensors"].as_array();
  if (list == nullptr || list->empty()) return with_hint(fail(StatusCode::InvalidData, "{}: no tensors", path), kForm);
  std::vector<ManifestTensor> tensors;
  std::set<std::string> names;
  for (const toml::node& node : *list) {
    STEPFUSE_ASSIGN(ManifestTensor tensor, read_tensor(path, node, dtype));
    if (!names.insert(tensor.name).second)
      return fail(StatusCode::InvalidData, "{}: '{}' is listed twice", place(path, node), tensor.name);
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

}  // namespace stepfuse::tools
