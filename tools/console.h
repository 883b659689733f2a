// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/support/status.h"
#include "tools/cli_options.h"

#include <string>
#include <string_view>

namespace stepfuse::tools {

/// Messages to stderr: `error:`, `hint:` and `note:` lines. Results go to stdout, and not through here.
class Console {
 public:
  /// Reads --quiet, --verbose and --color; NO_COLOR and a stderr that is no terminal mean no colour.
  static Result<Console> create(const Arguments& arguments);
  Console();

  void error(const Status& status) const;
  void failure(std::string_view text) const;  // an error that others may follow
  void note(std::string_view text) const;     // not with --quiet
  /// What is going on just now, on a terminal, in the place of what was said so before; end_progress() takes it away.
  /// From one thread at a time.
  void progress(std::string_view text) const;
  void end_progress() const;
  void detail(std::string_view text) const;  // with --verbose only

 private:
  void line(std::string_view label, std::string_view color, std::string_view text) const;

  bool quiet_ = false;
  bool verbose_ = false;
  bool color_ = false;
  bool terminal_ = false;
};

}  // namespace stepfuse::tools
