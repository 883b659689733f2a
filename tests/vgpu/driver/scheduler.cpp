// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/driver/scheduler.h"

#include "tests/vgpu/driver/driver.h"

#include <algorithm>
#include <chrono>

namespace stepfuse::vgpu::driver {
namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

CUresult result_of(KernelFault::Kind kind) {
  switch (kind) {
    case KernelFault::Kind::IllegalAddress:
      return CUDA_ERROR_ILLEGAL_ADDRESS;
    case KernelFault::Kind::MisalignedAddress:
      return CUDA_ERROR_MISALIGNED_ADDRESS;
    case KernelFault::Kind::IllegalInstruction:
      return CUDA_ERROR_ILLEGAL_INSTRUCTION;
    case KernelFault::Kind::Deadlock:
    case KernelFault::Kind::Timeout:
      return CUDA_ERROR_LAUNCH_TIMEOUT;
    case KernelFault::Kind::Race:
      return CUDA_ERROR_LAUNCH_FAILED;
  }
  return CUDA_ERROR_UNKNOWN;
}

}  // namespace

void Scheduler::add(const std::shared_ptr<Op>& op) {
  std::erase_if(op->after, [](const auto& before) { return !before || before->done; });
  for (const auto& before : op->after) before->then.push_back(op.get());
  op->waiting = op->after.size();
  op->number = next_number_++;
  pending_.emplace(op->number, op);
  if (op->waiting == 0) make_ready(op);
}

void Scheduler::make_ready(const std::shared_ptr<Op>& op) {
  if (op->plan && !op->expanded) {
    expand(op);
  } else {
    ready_.push_back(op);
  }
}

/// Puts a graph's nodes before the operation that stands for its launch.
void Scheduler::expand(const std::shared_ptr<Op>& op) {
  op->expanded = true;
  const std::shared_ptr<const GraphPlan> plan = op->plan;
  std::vector<std::shared_ptr<Op>> ops;
  for (const GraphPlan::Node& node : plan->nodes) {
    auto made = std::make_shared<Op>();
    made->context = op->context;
    made->work = node.work;
    made->bias = draw();
    made->wanted = op->wanted;
    ops.push_back(std::move(made));
  }
  for (size_t i = 0; i < ops.size(); ++i) {
    for (size_t before : plan->nodes[i].after) ops[i]->after.push_back(ops[before]);
    ops[i]->then.push_back(op.get());
  }
  op->after = ops;
  op->waiting = ops.size();
  for (const auto& made : ops) {
    for (const auto& before : made->after) before->then.push_back(made.get());
    made->waiting = made->after.size();
    made->number = next_number_++;
    pending_.emplace(made->number, made);
  }
  for (const auto& made : ops) {
    if (made->waiting == 0) make_ready(made);
  }
  if (ops.empty()) ready_.push_back(op);
}

void Scheduler::mark_ancestors(Op& op, uint64_t mark) {
  std::vector<Op*> open{&op};
  while (!open.empty()) {
    Op* next = open.back();
    open.pop_back();
    if (next->wanted == mark || next->done) continue;
    next->wanted = mark;
    for (const auto& before : next->after) open.push_back(before.get());
  }
}

/// A ready operation with the mark (any, if the mark is 0): mostly the one of the highest bias, so that one stream runs
/// far ahead of the others, sometimes another.
std::shared_ptr<Op> Scheduler::pick(uint64_t mark) {
  std::vector<size_t> candidates;
  for (size_t i = 0; i < ready_.size(); ++i) {
    if (mark == 0 || ready_[i]->wanted == mark) candidates.push_back(i);
  }
  if (candidates.empty()) return nullptr;
  size_t chosen = candidates[below(candidates.size())];
  if (below(4) != 0) {
    chosen = *std::max_element(candidates.begin(), candidates.end(),
                               [&](size_t a, size_t b) { return ready_[a]->bias < ready_[b]->bias; });
  }
  auto op = ready_[chosen];
  ready_[chosen] = ready_.back();
  ready_.pop_back();
  return op;
}

void Scheduler::run_until(const std::shared_ptr<Op>& op) {
  if (op->done) return;
  const uint64_t mark = ++mark_;
  mark_ancestors(*op, mark);
  const bool lazy = below(2) == 0;  // nothing that need not be done; else whatever is ready may come before
  while (!op->done) {
    auto next = pick(lazy ? mark : 0);
    if (!next) next = pick(0);
    if (!next) {
      driver().unknown("the scheduler has nothing left to execute, but an operation that is waited for is not done");
      return;
    }
    execute(next);
  }
}

void Scheduler::run_all(const Context& context) {
  while (true) {
    std::shared_ptr<Op> open;
    for (const auto& [number, op] : pending_) {
      if (op->context.get() == &context) open = op;
    }
    if (!open) return;
    run_until(open);
  }
}

void Scheduler::run_some(uint64_t count) {
  for (; count > 0; --count) {
    auto next = pick(0);
    if (!next) return;
    execute(next);
  }
}

void Scheduler::execute(const std::shared_ptr<Op>& op) {
  Context& context = *op->context;
  if (op->work && op->work->run && context.sticky == CUDA_SUCCESS) {
    executing_context() = &context;
    try {
      op->work->run(context);
    } catch (const KernelFault& fault) {
      driver().fault(context, result_of(fault.kind), op->work->label + ": " + fault.what());
    } catch (const WorkFault& fault) {
      driver().fault(context, fault.result, op->work->label + ": " + fault.what());
    }
    executing_context() = nullptr;
  }
  finish(*op);
}

void Scheduler::finish(Op& op) {
  op.done = true;
  op.done_at = now();
  op.after.clear();
  for (Op* next : op.then) {
    if (--next->waiting == 0) make_ready(pending_.at(next->number));
  }
  op.then.clear();
  op.work.reset();
  op.plan.reset();
  pending_.erase(op.number);
}

void Scheduler::clear() {
  // Link by link, not one inside the other's destructor: a chain may be long.
  for (auto& [number, op] : pending_) op->after.clear();
  pending_.clear();
  ready_.clear();
}

}  // namespace stepfuse::vgpu::driver
