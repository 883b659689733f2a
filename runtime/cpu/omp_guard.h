// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <omp.h>

namespace stepfuse::runtime {

/// OpenMP regions entered from this thread run on this thread alone until the guard ends. The count is a variable of
/// the calling thread, not of the process. We link libgomp instead of looking it up by name because the call must reach
/// the very OpenMP runtime that oneDNN binds to, and the dynamic linker resolves both by the same rule.
class OmpSingleThread {
 public:
  OmpSingleThread() : before_(omp_get_max_threads()) { omp_set_num_threads(1); }
  ~OmpSingleThread() { omp_set_num_threads(before_); }
  OmpSingleThread(const OmpSingleThread&) = delete;
  OmpSingleThread& operator=(const OmpSingleThread&) = delete;

 private:
  int before_;
};

}  // namespace stepfuse::runtime
