// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "ir/parse.h"

#include "ir/namer.h"
#include "ir/parser.h"
#include "ir/print.h"
#include "ir/verify.h"

#include <algorithm>

namespace stepfuse::ir {

namespace {

constexpr size_t kMaxTextBytes = size_t{1} << 20;

/// The first comment that starts with "stepfuse-ir" must be the version line; only blank lines and other comments may
/// stand above it.
Outcome check_version(const SourceText& source) {
  size_t at = 0;
  while (at < source.text.size()) {
    const size_t end = std::min(source.text.find('\n', at), source.text.size());
    std::string_view line = source.text.substr(at, end - at);
    const size_t first = line.find_first_not_of(" \t\r");
    const size_t last = line.find_last_not_of(" \t\r");
    line = first == std::string_view::npos ? std::string_view() : line.substr(first, last + 1 - first);
    if (line == fmt::format("// {}", kTextVersion)) return {};
    if (line.starts_with("// stepfuse-ir"))
      return source.error(at, fmt::format("'{}' is not a version this build reads; expected '// {}'",
                                          line.substr(0, 40), kTextVersion));
    if (!line.empty() && !line.starts_with("//")) break;
    at = end + 1;
  }
  return with_hint(source.error(std::min(at, source.text.size()),
                                fmt::format("no version line; expected '// {}' before the recipe", kTextVersion)),
                   "IR files start with the version line; is this another kind of file?");
}

}  // namespace

Result<Graph> parse(std::string_view text, std::string_view file_name) {
  const SourceText source{text, file_name};
  if (text.size() > kMaxTextBytes)
    return fail(StatusCode::InvalidData, "{}: {} bytes of IR text; expected at most {}", file_name, text.size(),
                kMaxTextBytes);
  STEPFUSE_TRY(check_version(source));
  STEPFUSE_ASSIGN(const std::vector<Token> tokens, tokenize(source));
  STEPFUSE_ASSIGN(Graph graph, Parser(source, tokens).run());
  if (auto checked = check(graph); !checked) {
    Status status = std::move(checked.error());
    status.message = fmt::format("{}: {}", file_name, status.message);
    return fail(std::move(status));
  }
  return graph;
}

}  // namespace stepfuse::ir
