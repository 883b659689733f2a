// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace stepfuse::runtime {

/// A backend's code, loaded and ready to run; it goes with the last pointer to it.
class Kernel {
 public:
  virtual ~Kernel() = default;
};

}  // namespace stepfuse::runtime
