// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "ir/hash.h"

#include <algorithm>
#include <bit>
#include <unordered_map>
#include <vector>

#include <fmt/format.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace stepfuse::ir {

namespace {

constexpr std::string_view kFormat = "stepfuse-graph-1";

class GraphWriter {
 public:
  explicit GraphWriter(const Graph& graph) : graph_(graph), number_(graph.size(), kUnnumbered) {}

  std::string run() {
    bytes_ = kFormat;
    put(graph_.inputs().size());
    for (const Input& input : graph_.inputs()) put_input(input);
    std::vector<Output> outputs = graph_.outputs();
    std::stable_sort(outputs.begin(), outputs.end(),
                     [](const Output& a, const Output& b) { return a.target < b.target; });
    for (const Output& output : outputs) put_tree(output.value);
    put(outputs.size());
    for (const Output& output : outputs) {
      put(number_[output.value.v]);
      put(number_[output.target.v]);
    }
    return std::move(bytes_);
  }

 private:
  static constexpr uint64_t kUnnumbered = UINT64_MAX;

  void put(uint64_t word) {
    for (int shift = 0; shift < 64; shift += 8) bytes_ += static_cast<char>(word >> shift & 0xff);
  }

  void put_text(std::string_view text) {
    put(text.size());
    bytes_ += text;
  }

  void put_input(const Input& input) {
    put(static_cast<uint64_t>(input.kind));
    put_text(input.key);
    put_type(input.type);
    number_[input.value.v] = next_++;
  }

  void put_type(const Type& type) {
    put((type.scalar ? 1u : 0u) | static_cast<uint64_t>(type.rate) << 8 | static_cast<uint64_t>(type.dtype) << 16 |
        static_cast<uint64_t>(type.shape.rank) << 24);
    for (size_t i = 0; i < type.shape.rank; ++i) put_extent(type.shape.dims[i]);
  }

  /// Symbols count by first appearance, not by name.
  void put_extent(Extent extent) {
    put(extent.is_symbol() ? 1 : 0);
    put(extent.is_symbol() ? symbols_.emplace(extent.symbol_index(), symbols_.size()).first->second
                           : static_cast<uint64_t>(extent.value()));
  }

  /// Operands first, each value once. A stack of our own: graphs may be deeper than the thread's.
  void put_tree(ValueId root) {
    std::vector<std::pair<ValueId, size_t>> stack{{root, 0}};
    while (!stack.empty()) {
      auto& [id, next_operand] = stack.back();
      const Node& node = graph_.node(id);
      if (number_[id.v] != kUnnumbered) {
        stack.pop_back();
      } else if (next_operand < node.num_operands) {
        const ValueId operand = node.operands[next_operand++];
        stack.emplace_back(operand, 0);
      } else {
        put_node(id);
        number_[id.v] = next_++;
        stack.pop_back();
      }
    }
  }

  void put_node(ValueId id) {
    const Node& node = graph_.node(id);
    put_text(op_info(node.op).mnemonic);
    put(node.num_operands);
    for (ValueId operand : node.args()) put(number_[operand.v]);
    put_type(node.type);
    put_attr(node.attr);
    if (node.type.scalar) return;
    const Placement placement = graph_.placement(id);
    put(static_cast<uint64_t>(int64_t{placement.cluster}));
    put(static_cast<uint64_t>(int64_t{placement.phase}));
  }

  void put_attr(const Attr& attr) {
    put(attr.index());
    if (const auto* constant = std::get_if<ConstAttr>(&attr)) put(std::bit_cast<uint64_t>(constant->value));
    if (const auto* reduce = std::get_if<ReduceAttr>(&attr)) put(static_cast<uint64_t>(reduce->axis));
    if (const auto* concat = std::get_if<ConcatAttr>(&attr)) put(concat->dim);
    if (const auto* matmul = std::get_if<MatmulAttr>(&attr))
      put((matmul->trans_a ? 1u : 0u) | (matmul->trans_b ? 2u : 0u) | (matmul->symmetric ? 4u : 0u));
    if (const auto* slice = std::get_if<SliceAttr>(&attr)) {
      put(slice->dim);
      put(static_cast<uint64_t>(slice->begin));
      put(static_cast<uint64_t>(slice->end));
    }
  }

  const Graph& graph_;
  std::vector<uint64_t> number_;
  uint64_t next_ = 0;
  std::unordered_map<uint32_t, uint64_t> symbols_;
  std::string bytes_;
};

}  // namespace

std::string Hash128::hex() const { return fmt::format("{:016x}{:016x}", high, low); }

Hash128 hash_bytes(std::string_view bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return Hash128{hash.high64, hash.low64};
}

Hash128 structural_hash(const Graph& graph) { return hash_bytes(GraphWriter(graph).run()); }

}  // namespace stepfuse::ir
