// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include <fmt/format.h>

namespace stepfuse::codegen {

/// Lines of C-like text, indented by the braces around them.
class CodeWriter {
 public:
  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    text_.append(2 * depth_, ' ') += fmt::format(format, std::forward<Args>(args)...);
    text_ += '\n';
  }
  /// A line that ends in an open brace.
  template <class... Args>
  void open(fmt::format_string<Args...> format, Args&&... args) {
    line("{} {{", fmt::format(format, std::forward<Args>(args)...));
    ++depth_;
  }
  /// A block by itself: names in it are gone at its end.
  void open_scope() {
    line("{{");
    ++depth_;
  }
  /// The matching brace; `after` follows it ("else {" opens the next block).
  void close(std::string_view after = "") {
    --depth_;
    line("}}{}", after);
  }
  void close_and_open(std::string_view between) {
    --depth_;
    line("}} {} {{", between);
    ++depth_;
  }
  /// Preprocessor lines start at the margin.
  void directive(std::string_view text) { text_.append(text) += '\n'; }
  /// Lines that are complete in themselves, as they are.
  void verbatim(std::string_view text) { text_ += text; }
  void blank() { text_ += '\n'; }

  const std::string& text() const { return text_; }

 private:
  std::string text_;
  size_t depth_ = 0;
};

}  // namespace stepfuse::codegen
