// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "ir/parser.h"
#include "ir/support/nearest.h"

#include <algorithm>
#include <array>

namespace stepfuse::ir {

Result<Attr> Parser::parse_attr(const Token& at, Op op) {
  const Token& open = peek();
  STEPFUSE_ASSIGN(const std::vector<AttrItem> items, parse_attr_items());
  if (op == Op::Matmul) return matmul_attr(items);
  if (is_reduce(op)) return reduce_attr(at, items);
  if (op == Op::Slice) return slice_attr(at, items);
  if (op == Op::Concat) return concat_attr(at, items);
  if (open.is('{')) return error_at(open, fmt::format("{} has no attributes; expected no '{{'", at.text));
  return Attr{};
}

Result<std::vector<Parser::AttrItem>> Parser::parse_attr_items() {
  std::vector<AttrItem> items;
  if (!take_if('{')) return items;
  do {
    if (peek().kind != TokenKind::Identifier) return unexpected("an attribute");
    AttrItem item{&take(), std::nullopt};
    const auto same = [&](const AttrItem& other) { return other.key->text == item.key->text; };
    if (std::any_of(items.begin(), items.end(), same))
      return error_at(*item.key, fmt::format("attribute {} is given twice; expected it once", describe(*item.key)));
    if (take_if('=')) {
      STEPFUSE_ASSIGN(item.value, integer_value(peek()));
      take();
    }
    items.push_back(item);
  } while (take_if(','));
  STEPFUSE_TRY(expect('}'));
  return items;
}

Result<Attr> Parser::matmul_attr(const std::vector<AttrItem>& items) const {
  MatmulAttr attr;
  for (const AttrItem& item : items) {
    bool* const flag = item.value                ? nullptr
                       : item.key->text == "ta"  ? &attr.trans_a
                       : item.key->text == "tb"  ? &attr.trans_b
                       : item.key->text == "sym" ? &attr.symmetric
                                                 : nullptr;
    if (flag == nullptr)
      return error_at(*item.key, fmt::format("unknown attribute {}; expected ta, tb or sym", describe(*item.key)));
    *flag = true;
  }
  return Attr{attr};
}

Result<Attr> Parser::reduce_attr(const Token& at, const std::vector<AttrItem>& items) const {
  constexpr std::array<std::string_view, 4> kAxes{"all", "matrix", "rows", "cols"};
  if (items.size() != 1 || items[0].value)
    return error_at(at, fmt::format("{} needs an axis; expected {{all}}, {{matrix}}, {{rows}} or {{cols}}", at.text));
  const std::optional<Axis> axis = parse_axis(items[0].key->text);
  if (axis) return Attr{ReduceAttr{*axis}};
  return with_hint(error_at(*items[0].key, fmt::format("unknown axis {}; expected all, matrix, rows or cols",
                                                       describe(*items[0].key))),
                   did_you_mean(items[0].key->text, kAxes));
}

/// The values of exactly these keys, in their order; none may be negative.
Result<std::vector<int64_t>> Parser::keyed_integers(const Token& at, const std::vector<AttrItem>& items,
                                                    std::span<const std::string_view> keys) const {
  std::vector<int64_t> values;
  for (std::string_view key : keys) {
    const auto it = std::find_if(items.begin(), items.end(), [&](const AttrItem& i) { return i.key->text == key; });
    if (it == items.end() || !it->value)
      return error_at(at, fmt::format("{} without '{}'; expected {{{}=...}}", at.text, key, fmt::join(keys, "=..., ")));
    values.push_back(*it->value);
  }
  for (const AttrItem& item : items)
    if (std::find(keys.begin(), keys.end(), item.key->text) == keys.end())
      return error_at(*item.key,
                      fmt::format("unknown attribute {}; expected {}", describe(*item.key), fmt::join(keys, ", ")));
  return values;
}

Result<Attr> Parser::slice_attr(const Token& at, const std::vector<AttrItem>& items) const {
  constexpr std::array<std::string_view, 3> kKeys{"dim", "begin", "end"};
  STEPFUSE_ASSIGN(const std::vector<int64_t> values, keyed_integers(at, items, kKeys));
  // A dimension that no tensor has is reported by infer_type.
  const auto dim = static_cast<uint8_t>(std::min<int64_t>(values[0], kMaxRank));
  return Attr{SliceAttr{dim, values[1], values[2]}};
}

Result<Attr> Parser::concat_attr(const Token& at, const std::vector<AttrItem>& items) const {
  constexpr std::array<std::string_view, 1> kKeys{"dim"};
  STEPFUSE_ASSIGN(const std::vector<int64_t> values, keyed_integers(at, items, kKeys));
  return Attr{ConcatAttr{static_cast<uint8_t>(std::min<int64_t>(values[0], kMaxRank))}};
}

}  // namespace stepfuse::ir
