// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tools/shape_arg.h"

#include <charconv>
#include <optional>

namespace stepfuse::tools {

namespace {

constexpr int64_t kMostElements = int64_t{1} << 44;
constexpr int64_t kMostParameters = 100'000;
constexpr size_t kMostDimensions = 8;

std::optional<int64_t> positive(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1) return std::nullopt;
  return value;
}

tl::unexpected<Status> bad_shape(std::string_view text) {
  return with_hint(
      fail(StatusCode::InvalidArgument, "--shape {} is not a shape", text),
      fmt::format("write extents from 1 on, joined by x, such as 768x3072 or 4096; 48@768x3072 means 48 of them "
                  "(at most {})",
                  kMostParameters));
}

}  // namespace

Outcome check_extents(std::string_view subject, const std::vector<int64_t>& shape) {
  int64_t elements = 1;
  for (int64_t extent : shape)
    if (extent < 0 || __builtin_mul_overflow(elements, extent, &elements) || elements > kMostElements)
      return fail(StatusCode::InvalidArgument, "{}: the shape has more elements than this machine can address",
                  subject);
  return {};
}

Result<ShapeArg> parse_shape(std::string_view text) {
  ShapeArg parsed;
  std::string_view rest = text;
  if (const size_t at = text.find('@'); at != std::string_view::npos) {
    const auto count = positive(text.substr(0, at));
    if (!count || *count > kMostParameters) return bad_shape(text);
    parsed.count = *count;
    rest = text.substr(at + 1);
  }
  while (true) {
    const size_t cut = rest.find('x');
    const auto extent = positive(rest.substr(0, cut));
    if (!extent || parsed.shape.size() == kMostDimensions) return bad_shape(text);
    parsed.shape.push_back(*extent);
    if (cut == std::string_view::npos) break;
    rest.remove_prefix(cut + 1);
  }
  STEPFUSE_TRY(check_extents(fmt::format("--shape {}", text), parsed.shape));
  return parsed;
}

}  // namespace stepfuse::tools
