// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/ptx/interpreter.h"
#include "tests/vgpu/ptx/races.h"

#include <algorithm>
#include <cfenv>
#include <numeric>

namespace stepfuse::vgpu {
namespace {

constexpr size_t kMostResident = 4;  // blocks at once, unless the launch needs all
// Of a warp before another has its turn, so that a loop which waits for another warp ends.
constexpr uint32_t kTurnInstructions = 4096;

class Grid {
 public:
  explicit Grid(LaunchState& state) : state_(state), random_(state.launch.seed), runner_(state, random_) {
    const Dim3& grid = state.launch.grid;
    order_.resize(size_t{grid.x} * grid.y * grid.z);
    std::iota(order_.begin(), order_.end(), uint64_t{0});
    if (state.launch.seed != 0) shuffle();
    const size_t wanted = state.launch.cooperative ? order_.size() : 1 + random_.below(kMostResident);
    resident_.resize(std::min(wanted, order_.size()));
  }

  void run(uint64_t max_instructions) {
    for (auto& block : resident_) start(block);
    while (!resident_.empty()) {
      const size_t chosen = random_.below(resident_.size());
      if (!turn(*resident_[chosen])) other_turn(chosen);
      if (state_.instructions > max_instructions) {
        throw KernelFault(KernelFault::Kind::Timeout, "kernel " + state_.program->info.name + " ran more than " +
                                                          std::to_string(max_instructions) + " instructions");
      }
      retire();
    }
  }

 private:
  void shuffle() {
    for (size_t i = order_.size(); i > 1; --i) std::swap(order_[i - 1], order_[random_.below(i)]);
  }

  void start(std::unique_ptr<Block>& slot) {
    if (!slot) slot = std::make_unique<Block>();
    Block& block = *slot;
    const Launch& launch = state_.launch;
    block.state = &state_;
    block.linear = order_[started_++];
    block.id = {static_cast<uint32_t>(block.linear % launch.grid.x),
                static_cast<uint32_t>(block.linear / launch.grid.x % launch.grid.y),
                static_cast<uint32_t>(block.linear / launch.grid.x / launch.grid.y)};
    const uint32_t threads = launch.block.x * launch.block.y * launch.block.z;
    const uint32_t warps = (threads + kLanes - 1) / kLanes;
    const Program& program = *state_.program;
    const size_t dynamic = launch.dynamic_shared_bytes;
    const size_t shared = dynamic == 0 ? program.info.static_shared_bytes : program.static_shared_bytes + dynamic;
    block.shared.assign(shared, std::byte{0xff});
    block.local.assign(program.local_bytes * warps * kLanes, std::byte{0xff});
    block.registers.resize(program.image.size() * warps + 64);
    block.barriers = {};
    block.warps.assign(warps, {});
    for (uint32_t i = 0; i < warps; ++i) start_warp(block, i, std::min(threads - i * kLanes, kLanes));
    if (state_.races) state_.races->start_block(block);
  }

  void start_warp(Block& block, uint32_t index, uint32_t threads) {
    Warp& warp = block.warps[index];
    const Program& program = *state_.program;
    warp.block = &block;
    warp.state = &state_;
    warp.index = index;
    const auto base = (reinterpret_cast<uintptr_t>(block.registers.data()) + 63) / 64 * 64;
    warp.registers = reinterpret_cast<std::byte*>(base) + program.image.size() * index;
    warp.alive = threads == kLanes ? kAllLanes : (1U << threads) - 1;
    warp.pc.fill(program.entry);
    std::memcpy(warp.registers, program.image.data(), program.image.size());
    for (const SpecialValue& special : program.specials) write_special(warp, special);
  }

  static void write_special(Warp& warp, const SpecialValue& special) {
    uint64_t value = special.value(warp, 0);
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      if (!special.uniform) value = special.value(warp, lane);
      std::memcpy(warp.registers + special.offset + lane * special.bytes, &value, special.bytes);
    }
  }

  // One warp of the block has its turn. False: none could do anything.
  bool turn(Block& block) {
    const auto count = static_cast<uint32_t>(block.warps.size());
    const uint32_t first = random_.below(count);
    for (uint32_t i = 0; i < count; ++i) {
      Warp& warp = block.warps[(first + i) % count];
      if (warp.alive == 0) continue;
      const uint64_t before = state_.instructions;
      const uint32_t waiting = warp.at_sync;
      run_turn(warp);
      release_barriers(block);
      if (state_.instructions != before || warp.at_sync != waiting) return true;
    }
    return release_barriers(block);
  }

  void run_turn(Warp& warp) {
    // Half of the turns are long; the others end at one of the next accesses that others can see.
    const bool is_short = state_.launch.seed != 0 && random_.below(2) == 0;
    const uint32_t switches = is_short ? 1 + random_.below(8) : kTurnInstructions;
    try {
      runner_.run(warp, {kTurnInstructions, switches + 1});
    } catch (const KernelFault& found) {
      throw KernelFault(found.kind, std::string(found.what()) + " [" + where(warp) + "]");
    }
  }

  void other_turn(size_t stuck) {
    for (size_t i = 0; i < resident_.size(); ++i) {
      if (i != stuck && turn(*resident_[i])) return;
    }
    if (std::any_of(resident_.begin(), resident_.end(), [](const auto& block) { return !ended(*block); })) deadlock();
  }

  static bool ended(const Block& block) {
    return std::all_of(block.warps.begin(), block.warps.end(), [](const Warp& warp) { return warp.alive == 0; });
  }

  [[noreturn]] void deadlock() {
    for (const auto& block : resident_) {
      for (Warp& warp : block->warps) {
        if (warp.alive == 0) continue;
        warp.lane = static_cast<uint32_t>(std::countr_zero(warp.alive));
        throw KernelFault(KernelFault::Kind::Deadlock,
                          "every thread waits for one that never comes [" + where(warp) + "]");
      }
    }
    throw KernelFault(KernelFault::Kind::Deadlock, "nothing can run");
  }

  void retire() {
    for (size_t i = 0; i < resident_.size();) {
      if (!ended(*resident_[i])) {
        ++i;
      } else if (started_ < order_.size()) {
        start(resident_[i]);
      } else {
        resident_.erase(resident_.begin() + static_cast<ptrdiff_t>(i));
      }
    }
  }

  LaunchState& state_;
  Random random_;
  WarpRunner runner_;
  std::vector<uint64_t> order_;
  size_t started_ = 0;
  std::vector<std::unique_ptr<Block>> resident_;
};

// The caller may flush subnormals or round in another direction.
class FloatingPointState {
 public:
  FloatingPointState() {
    std::fegetenv(&saved_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~FloatingPointState() { std::fesetenv(&saved_); }
  FloatingPointState(const FloatingPointState&) = delete;
  FloatingPointState& operator=(const FloatingPointState&) = delete;

 private:
  std::fenv_t saved_{};
};

}  // namespace

void run_grid(LaunchState& state) {
  const FloatingPointState exact;
  Grid(state).run(state.max_instructions);
}

std::string where(const Warp& warp) {
  const Dim3& block = warp.block->id;
  const Dim3 thread = thread_id(warp, warp.lane);
  const auto text = [](const Dim3& d) {
    std::string result = "(";
    result += std::to_string(d.x) + ',' + std::to_string(d.y) + ',' + std::to_string(d.z) + ')';
    return result;
  };
  const uint32_t pc = warp.pc[warp.lane];
  const uint32_t line = pc < warp.state->program->ops.size() ? warp.state->program->ops[pc].line : 0;
  return "kernel " + warp.state->program->info.name + ", block " + text(block) + ", thread " + text(thread) +
         ", at or after " + warp.state->source->describe(line);
}

void fault(const Warp& warp, KernelFault::Kind kind, const std::string& what) {
  static_cast<void>(warp);
  throw KernelFault(kind, what);
}

}  // namespace stepfuse::vgpu
