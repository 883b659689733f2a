// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tools/console.h"

#include <cstdio>
#include <cstdlib>

#include <unistd.h>

namespace stepfuse::tools {

namespace {

constexpr std::string_view kRed = "\033[1;31m";
constexpr std::string_view kCyan = "\033[36m";
constexpr std::string_view kPlain = "\033[0m";

bool color_by_default() {
  const char* no_color = std::getenv("NO_COLOR");
  return (no_color == nullptr || *no_color == '\0') && isatty(STDERR_FILENO) != 0;
}

}  // namespace

Console::Console() : color_(color_by_default()), terminal_(isatty(STDERR_FILENO) != 0) {}

Result<Console> Console::create(const Arguments& arguments) {
  Console console;
  const std::string color = arguments.get("color", "auto");
  if (color != "auto" && color != "always" && color != "never")
    return with_hint(fail(StatusCode::InvalidArgument, "--color {} is not legal", color),
                     "--color takes auto, always or never");
  if (color != "auto") console.color_ = color == "always";
  console.quiet_ = arguments.has("quiet");
  console.verbose_ = arguments.has("verbose");
  if (console.quiet_ && console.verbose_)
    return fail(StatusCode::InvalidArgument, "--quiet and --verbose exclude each other");
  return console;
}

void Console::line(std::string_view label, std::string_view color, std::string_view text) const {
  if (color_) {
    fmt::print(stderr, "{}{}:{} {}\n", color, label, kPlain, text);
  } else {
    fmt::print(stderr, "{}: {}\n", label, text);
  }
}

void Console::error(const Status& status) const {
  line("error", kRed, status.message);
  if (!status.hint.empty()) line("hint", kCyan, status.hint);
}

void Console::failure(std::string_view text) const { line("error", kRed, text); }

void Console::note(std::string_view text) const {
  if (!quiet_) line("note", kCyan, text);
}

void Console::progress(std::string_view text) const {
  if (terminal_ && !quiet_) fmt::print(stderr, "\r\033[K{}", text);
}

void Console::end_progress() const {
  if (terminal_ && !quiet_) fmt::print(stderr, "\r\033[K");
}

void Console::detail(std::string_view text) const {
  if (verbose_) line("note", kCyan, text);
}

}  // namespace stepfuse::tools
