// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/vgpu/driver/objects.h"

#include <random>

namespace stepfuse::vgpu::driver {

/// Keeps queued operations and executes them as late, and in as odd an order, as their dependencies allow. What is not
/// ordered by a stream, an event or an edge comes in an order drawn from the seed.
class Scheduler {
 public:
  void seed(uint64_t seed) { random_.seed(seed); }
  uint64_t draw() { return random_(); }
  uint64_t below(uint64_t bound) { return random_() % bound; }

  /// Takes the operation. Those in op->after that are done already are dropped.
  void add(const std::shared_ptr<Op>& op);
  /// Executes what `op` depends on and `op`, and perhaps other operations that happen to be ready.
  void run_until(const std::shared_ptr<Op>& op);
  void run_all(const Context& context);
  /// A device that is not idle: executes up to `count` operations that are ready.
  void run_some(uint64_t count);
  void clear();

 private:
  std::shared_ptr<Op> pick(uint64_t mark);
  void mark_ancestors(Op& op, uint64_t mark);
  void make_ready(const std::shared_ptr<Op>& op);
  void expand(const std::shared_ptr<Op>& op);
  void execute(const std::shared_ptr<Op>& op);
  void finish(Op& op);

  std::mt19937_64 random_{0};
  std::map<uint64_t, std::shared_ptr<Op>> pending_;  // by number, so that a seed gives one order
  uint64_t next_number_ = 1;
  std::vector<std::shared_ptr<Op>> ready_;
  uint64_t mark_ = 0;
};

}  // namespace stepfuse::vgpu::driver
