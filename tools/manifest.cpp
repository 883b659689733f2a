// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tools/manifest.h"

#include "ir/support/toml.h"
#include "tools/shape_arg.h"
#include "tools/text_file.h"

#include <set>
#include <span>

namespace stepfuse::tools {

namespace {

/// More is no model but a mistake.
constexpr int64_t kMostTensors = int64_t{1} << 20;
/// What repeat replaces in a name.
constexpr std::string_view kPlace = "{}";

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

/// The counts of `repeat`, a number or a list; none without it.
Result<std::vector<int64_t>> read_repeat(const std::string& where, const toml::node* node) {
  std::vector<int64_t> counts;
  const auto take = [&](const toml::node& value) {
    const auto* count = value.as_integer();
    const bool legal = count != nullptr && count->get() > 0 && count->get() <= kMostTensors;
    if (legal) counts.push_back(count->get());
    return legal;
  };
  bool legal = true;
  if (node != nullptr && node->is_array()) {
    for (const toml::node& value : *node->as_array()) legal = legal && take(value);
    legal = legal && !counts.empty();
  } else if (node != nullptr) {
    legal = take(*node);
  }
  if (legal) return counts;
  return with_hint(fail(StatusCode::InvalidData, "{}: repeat is no count from 1 to {}", where, kMostTensors),
                   R"(write it like { name = "h.{}.w", shape = [768, 768], repeat = 12 })");
}

/// The name with the numbers in the places of its "{}".
std::string numbered(std::string_view name, std::span<const int64_t> numbers) {
  std::string text;
  for (const int64_t number : numbers) {
    const size_t at = name.find(kPlace);
    text += fmt::format("{}{}", name.substr(0, at), number);
    name.remove_prefix(at + kPlace.size());
  }
  return text + std::string(name);
}

size_t places_in(std::string_view name) {
  size_t count = 0;
  for (size_t at = name.find(kPlace); at != std::string_view::npos; at = name.find(kPlace, at + kPlace.size())) ++count;
  return count;
}

/// One tensor for each combination of numbers, the last number fastest.
Result<std::vector<ManifestTensor>> repeated(const std::string& where, const ManifestTensor& tensor,
                                             const std::vector<int64_t>& counts) {
  if (counts.empty()) return std::vector{tensor};
  if (places_in(tensor.name) != counts.size())
    return with_hint(fail(StatusCode::InvalidData, "{}: the name has {} places and repeat has {} counts", where,
                          places_in(tensor.name), counts.size()),
                     "each count has its {} in the name, such as h.{}.w with repeat = 12");
  int64_t total = 1;
  for (const int64_t count : counts) {
    total *= count;
    if (total > kMostTensors)
      return fail(StatusCode::InvalidData, "{}: repeat gives more than {} tensors", where, kMostTensors);
  }
  std::vector<ManifestTensor> out(static_cast<size_t>(total), tensor);
  std::vector<int64_t> numbers(counts.size(), 0);
  for (ManifestTensor& one : out) {
    one.name = numbered(tensor.name, numbers);
    for (size_t i = counts.size(); i-- > 0;) {
      if (++numbers[i] < counts[i]) break;
      numbers[i] = 0;
    }
  }
  return out;
}

Result<ManifestTensor> read_tensor(const std::string& path, const toml::node& node, ir::DType dtype) {
  const std::string where = place(path, node);
  const toml::table* table = node.as_table();
  const auto name = table == nullptr ? std::nullopt : (*table)["name"].value<std::string>();
  if (!name || name->empty())
    return with_hint(fail(StatusCode::InvalidData, "{}: a tensor without a name", where), kForm);
  STEPFUSE_TRY(check_keys(where, *table, {"name", "shape", "dtype", "grad", "state", "repeat"}));
  const std::string subject = fmt::format("{}: '{}'", where, *name);
  ManifestTensor tensor{*name, {}, dtype, std::nullopt, std::nullopt};
  STEPFUSE_ASSIGN(tensor.shape, read_shape(subject, table->get("shape")));
  if (const toml::node* own = table->get("dtype"); own != nullptr) {
    STEPFUSE_ASSIGN(tensor.dtype, read_dtype(subject, *own));
  }
  if (const toml::node* own = table->get("grad"); own != nullptr) {
    STEPFUSE_ASSIGN(tensor.grad, read_dtype(subject, *own));
  }
  if (const toml::node* own = table->get("state"); own != nullptr) {
    STEPFUSE_ASSIGN(tensor.state, read_dtype(subject, *own));
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
  } catch (const std::invalid_argument& error) {
    return fail(StatusCode::InvalidData, "{}: {}", path, error.what());
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
    STEPFUSE_ASSIGN(const ManifestTensor tensor, read_tensor(path, node, dtype));
    const std::string subject = fmt::format("{}: '{}'", place(path, node), tensor.name);
    STEPFUSE_ASSIGN(const auto counts, read_repeat(subject, node.as_table()->get("repeat")));
    STEPFUSE_ASSIGN(std::vector<ManifestTensor> all, repeated(subject, tensor, counts));
    for (ManifestTensor& one : all) {
      if (!names.insert(one.name).second)
        return fail(StatusCode::InvalidData, "{}: '{}' is listed twice", place(path, node), one.name);
      tensors.push_back(std::move(one));
    }
    if (static_cast<int64_t>(tensors.size()) > kMostTensors)
      return fail(StatusCode::InvalidData, "{}: more than {} tensors", path, kMostTensors);
  }
  return tensors;
}

}  // namespace stepfuse::tools
