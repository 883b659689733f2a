// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "codegen/cuda/streams.h"

#include <algorithm>
#include <array>
#include <map>

namespace stepfuse::codegen {

namespace {

/// "a + b": what is not empty, or `none`.
std::string joined(const std::vector<std::string>& terms, std::string_view between, std::string_view none) {
  std::string out;
  for (const std::string& term : terms) {
    if (!term.empty()) out += (out.empty() ? "" : std::string(between)) + term;
  }
  return out.empty() ? std::string(none) : out;
}

}  // namespace

/// What the text calls an index of the current chunk. Along the dimension that a chunk walks, 0 stands for its begin.
std::string CudaStreams::index(size_t d) const {
  switch (t_.spec.scheme) {
    case Scheme::Linear:
      return std::array{"chunk.unit", "i1", "i2"}[d];
    case Scheme::Rows:
      return std::array{"i0", "i1", "begin"}[d];
    case Scheme::Cols:
      return std::array{"chunk.unit", "begin", "column"}[d];
  }
  throw_internal(__FILE__, __LINE__, "unknown scheme");
}

/// Elements from an argument's first to that of dimensions first .. last - 1 of the current position.
std::string CudaStreams::offset(size_t arg, size_t first, size_t last) const {
  std::vector<std::string> terms;
  for (size_t d = first; d < last; ++d) {
    if (!t_.spec.args[arg].varies[d]) continue;
    const bool neighbours = d == 2 && t_.variant.aligned;
    const std::string stride = cuda_contiguous(t_.spec) ? "" : fmt::format("row.{}_stride[{}]", t_.names.args[arg], d);
    terms.push_back(neighbours || stride.empty() ? index(d) : fmt::format("{} * {}", index(d), stride));
  }
  return joined(terms, " + ", "0");
}

/// The variable that holds the distance of neighbours along the walked dimension; empty where that is 1.
std::string CudaStreams::step(size_t arg) const {
  const bool neighbours = cuda_contiguous(t_.spec) || (t_.variant.aligned && t_.spec.scheme != Scheme::Cols);
  return neighbours ? "" : t_.names.args[arg] + "_step";
}

/// Pointers to streams move with the thread, so that no address outlives an access.
bool CudaStreams::advances() const { return !cuda_walks_rows(t_.spec); }

void CudaStreams::declare_pointer(size_t arg) {
  const KernelArg& info = t_.spec.args[arg];
  const std::string& name = t_.names.args[arg];
  const bool cols = t_.spec.scheme == Scheme::Cols;
  if (cuda_walks_rows(t_.spec) && info.varies[1])
    t_.out.line("const long long {0}_row_step = row.{0}_stride[1];", name);
  if (is_stream(arg) && !step(arg).empty())
    t_.out.line("const long long {} = row.{}_stride[{}];", step(arg), name, cols ? 1 : 2);
  std::vector<std::string> terms{fmt::format("global(row.{})", name)};
  terms.push_back(cuda_contiguous(t_.spec) ? "origin" : offset(arg, 0, advances() ? 3 : 1));
  if (advances()) terms.push_back(joined({cols ? "y" : "lane", step(arg)}, " * ", ""));
  t_.helpers.use(CudaHelper::Global);
  t_.out.line("{}{}* {}{}_at = {};", info.written ? "" : "const ", cuda_memory_type(info.dtype),
              advances() ? "" : "const ", name, joined(terms, " + ", ""));
}

void CudaStreams::advance() {
  if (!advances()) return;
  const unsigned distance = t_.spacing() * t_.geometry.batch;
  for (size_t k = 0; k < t_.spec.args.size(); ++k) {
    if (is_stream(k))
      t_.out.line("{}_at += {};", t_.names.args[k], joined({std::to_string(distance), step(k)}, " * ", ""));
  }
}

void CudaStreams::enter_chunk() {
  for (size_t k = 0; k < t_.spec.args.size(); ++k) {
    const KernelArg& arg = t_.spec.args[k];
    if (level(k) != CudaLevel::Chunk) {
      declare_pointer(k);
    } else if (arg.read) {
      t_.helpers.use(CudaHelper::Global);
      t_.out.line("const {} {} = {};", cuda_value_type(arg.dtype), t_.names.elements[k],
                  values_.widened(fmt::format("global(row.{})[{}]", t_.names.args[k], offset(k, 0, 3)), arg.dtype));
    }
  }
}

void CudaStreams::load_run() {
  for (size_t k = 0; k < t_.spec.args.size(); ++k) {
    const KernelArg& arg = t_.spec.args[k];
    if (level(k) != CudaLevel::Run || !arg.read) continue;
    t_.out.line("const {} {} = {};", cuda_value_type(arg.dtype), t_.names.elements[k],
                values_.widened(fmt::format("{0}_at[i1 * {0}_row_step]", t_.names.args[k]), arg.dtype));
  }
}

/// From NAME_at to the current element or vector; empty where it is there.
std::string CudaStreams::element_offset(size_t arg) const {
  if (advances()) {
    return t_.loops_over_batch() ? joined({std::to_string(t_.spacing()), "b", step(arg)}, " * ", "") : "";
  }
  const KernelArg& info = t_.spec.args[arg];
  return joined({info.varies[1] ? fmt::format("i1 * {}_row_step", t_.names.args[arg]) : "",
                 info.varies[2] ? joined({"i2", step(arg)}, " * ", "") : ""},
                " + ", "");
}

std::string CudaStreams::address(size_t arg) const {
  return joined({t_.names.args[arg] + "_at", element_offset(arg)}, " + ", "");
}

std::string CudaStreams::in_memory(size_t arg) const {
  const std::string offset = element_offset(arg);
  return offset.empty() ? fmt::format("*{}_at", t_.names.args[arg])
                        : fmt::format("{}_at[{}]", t_.names.args[arg], offset);
}

std::string CudaStreams::vec(size_t arg) const {
  return t_.names.args[arg] + (t_.staged() && t_.loops_over_batch() ? "_vec[b]" : "_vec");
}

/// One element of an argument: of its vector, or where it lies.
std::string CudaStreams::element(size_t arg) const {
  if (packed(arg)) return fmt::format("unpack({}, k)", vec(arg));
  if (t_.vectors()) return vec(arg) + ".at[k]";
  return t_.staged() ? vec(arg) : in_memory(arg);
}

/// Two 16-bit elements share a register: arrays of them would take one each.
bool CudaStreams::packed(size_t arg) const { return t_.vectors() && ir::dtype_bytes(t_.spec.args[arg].dtype) == 2; }

std::string CudaStreams::vec_type(size_t arg) const {
  const std::string_view type = cuda_memory_type(t_.spec.args[arg].dtype);
  return fmt::format("{}<{}>", packed(arg) ? "Packed" : "Vec", type);
}

void CudaStreams::declare() {
  if (!t_.vectors() && !t_.staged()) return;
  const std::string array = t_.staged() && t_.loops_over_batch() ? fmt::format("[{}]", t_.geometry.batch) : "";
  std::map<std::string, std::vector<std::string>> by_type;
  std::vector<std::string> order;
  for (size_t k = 0; k < t_.spec.args.size(); ++k) {
    if (!is_stream(k)) continue;
    const std::string type = t_.vectors() ? vec_type(k) : std::string(cuda_memory_type(t_.spec.args[k].dtype));
    if (!by_type.contains(type)) order.push_back(type);
    const bool halves_come_later = packed(k) && !t_.spec.args[k].read;
    by_type[type].push_back(t_.names.args[k] + "_vec" + array + (halves_come_later ? " = {}" : ""));
    if (t_.vectors()) t_.helpers.use(packed(k) ? CudaHelper::Packed : CudaHelper::Vec);
  }
  for (const std::string& type : order) t_.out.line("{} {};", type, joined(by_type[type], ", ", ""));
}

void CudaStreams::load_vectors() {
  t_.out.open("if (j + {} <= count)", t_.geometry.vector);
  for (size_t k = 0; k < t_.spec.args.size(); ++k) {
    if (!is_stream(k) || !t_.spec.args[k].read) continue;
    t_.out.line("{} = *reinterpret_cast<const {}*>({});", vec(k), vec_type(k), address(k));
  }
  t_.out.close_and_open("else");
  for (size_t k = 0; k < t_.spec.args.size(); ++k) {
    if (!is_stream(k) || !t_.spec.args[k].read) continue;
    t_.helpers.use(packed(k) ? CudaHelper::LoadPackedPart : CudaHelper::LoadPart);
    t_.out.line("load_part({}, {}, j, count);", vec(k), address(k));
  }
  t_.out.close();
}

void CudaStreams::load() {
  const bool any = std::any_of(t_.spec.args.begin(), t_.spec.args.end(), [&](const KernelArg& arg) {
    return arg.read && cuda_level(t_.spec, arg.varies) == CudaLevel::Element;
  });
  if (!any) return;
  if (t_.vectors()) return load_vectors();
  if (!t_.staged()) return;
  for (size_t k = 0; k < t_.spec.args.size(); ++k) {
    if (!is_stream(k) || !t_.spec.args[k].read) continue;
    const ir::DType dtype = t_.spec.args[k].dtype;
    const std::string zero = dtype == ir::DType::Bool ? "0" : fmt::format("{}()", cuda_memory_type(dtype));
    t_.out.line("{} = j < count ? {} : {};", vec(k), in_memory(k), zero);
  }
}

void CudaStreams::name_elements() {
  for (size_t k = 0; k < t_.spec.args.size(); ++k) {
    const KernelArg& arg = t_.spec.args[k];
    if (!is_stream(k) || !arg.read) continue;
    t_.out.line("const {} {} = {};", cuda_value_type(arg.dtype), t_.names.elements[k],
                values_.widened(element(k), arg.dtype));
  }
}

void CudaStreams::keep() {
  for (const Store& store : t_.spec.stores) {
    if (!is_stream(store.arg)) continue;
    if (packed(store.arg)) {
      t_.out.line("pack({}, k, {});", vec(store.arg), values_.memory_form(store));
      continue;
    }
    const std::string condition = t_.vectors() || t_.staged() ? "" : owner(store.arg, CudaLevel::Element);
    t_.out.line("{}{} = {};", condition.empty() ? "" : fmt::format("if ({}) ", condition), element(store.arg),
                values_.memory_form(store));
  }
}

void CudaStreams::store_vectors(const std::vector<size_t>& args) {
  t_.out.open("if (j + {} <= count)", t_.geometry.vector);
  for (const size_t k : args) {
    t_.out.line("*reinterpret_cast<{}*>({}) = {};", vec_type(k), address(k), vec(k));
  }
  t_.out.close_and_open("else");
  for (const size_t k : args) {
    t_.helpers.use(packed(k) ? CudaHelper::StorePackedPart : CudaHelper::StorePart);
    t_.out.line("store_part({}, {}, j, count);", address(k), vec(k));
  }
  t_.out.close();
}

void CudaStreams::store() {
  std::vector<std::pair<std::string, std::vector<size_t>>> by_owner;
  for (size_t k = 0; k < t_.spec.args.size(); ++k) {
    if (!is_stream(k) || !t_.spec.args[k].written) continue;
    const std::string condition = owner(k, CudaLevel::Element);
    if (by_owner.empty() || by_owner.back().first != condition) by_owner.push_back({condition, {}});
    by_owner.back().second.push_back(k);
  }
  for (const auto& [condition, args] : by_owner) {
    if (!t_.vectors() && !t_.staged()) continue;  // stored where it was computed
    if (!condition.empty()) t_.out.open("if ({})", condition);
    if (t_.vectors()) store_vectors(args);
    if (!t_.vectors()) {
      for (const size_t k : args) t_.out.line("if (j < count) {} = {};", in_memory(k), vec(k));
    }
    if (!condition.empty()) t_.out.close();
  }
}

/// The thread and chunk that store a value which repeats along some dimensions: those of index 0 there.
std::string CudaStreams::owner(size_t arg, CudaLevel level) const {
  const Varies& varies = t_.spec.args[arg].varies;
  std::vector<std::string> conditions;
  if (level == CudaLevel::Chunk) {
    const bool cols = t_.spec.scheme == Scheme::Cols;
    conditions.emplace_back(cols ? "chunk.part == 0 && y == 0 && inside" : "chunk.index == 0 && lane == 0");
    // An empty chunk stands for the results of no element; rows without elements have values all the same.
    if (!cols && t_.reduces()) conditions.emplace_back(t_.spec.scheme == Scheme::Linear ? "count > 0" : "live");
  }
  if (level == CudaLevel::Run) conditions.emplace_back("i2 == 0");
  const bool dense = cuda_contiguous(t_.spec) && level == CudaLevel::Element;
  const size_t walked = t_.spec.scheme == Scheme::Cols ? 1 : 2;
  for (size_t d = 0; d < 3; ++d) {
    if (varies[d] || dense || d == walked) continue;
    const bool has_index = d == 0 || t_.spec.scheme != Scheme::Linear || level != CudaLevel::Chunk;
    if (has_index) conditions.push_back(index(d) + " == 0");
  }
  return joined(conditions, " && ", "");
}

void CudaStreams::store_once(CudaLevel which) {
  for (const Store& store : t_.spec.stores) {
    if (level(store.arg) != which) continue;
    const std::string& name = t_.names.args[store.arg];
    const std::string place = which == CudaLevel::Run
                                  ? fmt::format("{0}_at[i1 * {0}_row_step]", name)
                                  : fmt::format("global(row.{})[{}]", name, offset(store.arg, 0, 3));
    if (which == CudaLevel::Chunk) t_.helpers.use(CudaHelper::Global);
    t_.out.line("if ({}) {} = {};", owner(store.arg, which), place, values_.memory_form(store));
  }
}

bool CudaStreams::needs_row_indices() const {
  return std::any_of(t_.spec.args.begin(), t_.spec.args.end(),
                     [](const KernelArg& arg) { return arg.varies[0] || arg.varies[1] || arg.written; });
}

}  // namespace stepfuse::codegen
