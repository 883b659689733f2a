// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/ptx/decode.h"
#include "tests/vgpu/ptx/interpreter.h"
#include "tests/vgpu/ptx/machine.h"
#include "tests/vgpu/ptx/races.h"

#include <algorithm>
#include <cstring>
#include <mutex>

namespace stepfuse::vgpu {
namespace {

class LoadedModule final : public Module {
 public:
  LoadedModule(std::string_view ptx, GlobalMemory& memory, const MachineOptions& options)
      : memory_(memory), options_(options), text_(parse(ptx, options.capability)) {
    try {
      load();
    } catch (...) {
      release();
      throw;
    }
  }
  ~LoadedModule() override { release(); }
  LoadedModule(const LoadedModule&) = delete;
  LoadedModule& operator=(const LoadedModule&) = delete;

  std::vector<std::string> kernels() const override {
    std::vector<std::string> names;
    names.reserve(programs_.size());
    for (const auto& [name, program] : programs_) names.push_back(name);
    return names;
  }

  const KernelInfo* find(std::string_view kernel) const override {
    const auto found = programs_.find(std::string(kernel));
    return found == programs_.end() ? nullptr : &found->second->info;
  }

  std::optional<std::pair<uint64_t, size_t>> variable(std::string_view name) const override {
    const Variable* found = text_->variable(name);
    const auto address = addresses_.find(found);
    if (!found || address == addresses_.end()) return std::nullopt;
    return std::pair(address->second, found->bytes);
  }

  void run(std::string_view kernel, const Launch& launch, const std::byte* parameters) override {
    const std::lock_guard lock(running_);
    LaunchState state;
    const auto found = programs_.find(std::string(kernel));
    if (found == programs_.end()) throw std::invalid_argument("no kernel " + std::string(kernel));
    state.program = found->second.get();
    state.memory = &memory_;
    state.launch = launch;
    state.parameters = parameters;
    state.read_only = read_only_;
    state.source = &text_->source;
    state.max_instructions = options_.max_instructions;
    std::optional<RaceDetector> races;
    if (options_.find_races) state.races = &races.emplace();
    if (launch.grid.x == 0 || launch.grid.y == 0 || launch.grid.z == 0 || launch.block.x == 0 || launch.block.y == 0 ||
        launch.block.z == 0) {
      throw std::invalid_argument("a launch of nothing");
    }
    run_grid(state);
  }

 private:
  void load() {
    for (const auto& variable : text_->variables) place(*variable);
    for (const auto& function : text_->functions) {
      for (const auto& variable : function->variables) place(*variable);
    }
    for (const auto& [variable, address] : addresses_) initialise(*variable, address);
    for (const auto& function : text_->functions) {
      if (function->entry && function->defined) programs_[function->name] = link(*text_, *function, addresses_);
    }
  }

  void release() {
    for (const auto& [variable, address] : addresses_) memory_.release(address);
    addresses_.clear();
  }

  void place(const Variable& variable) {
    if (variable.space != Space::Global && variable.space != Space::Const) return;
    const uint64_t address = memory_.allocate(variable.bytes, std::max<size_t>(variable.alignment, 16));
    addresses_[&variable] = address;
    if (variable.space == Space::Const) read_only_.emplace_back(address, address + variable.bytes);
  }

  void initialise(const Variable& variable, uint64_t address) {
    std::byte* bytes = memory_.resolve(address, variable.bytes, true);
    std::memset(bytes, 0, variable.bytes);
    if (!variable.initial.empty()) std::memcpy(bytes, variable.initial.data(), variable.bytes);
    for (const auto& relocation : variable.relocations) {
      const auto target = addresses_.find(text_->variable(relocation.symbol));
      if (target == addresses_.end()) {
        text_->source.fail(variable.line,
                           "the address of no variable in global or constant memory: " + relocation.symbol);
      }
      const uint64_t value = target->second + static_cast<uint64_t>(relocation.addend);
      std::memcpy(bytes + relocation.offset, &value, sizeof value);
    }
  }

  GlobalMemory& memory_;
  MachineOptions options_;
  std::unique_ptr<ModuleText> text_;
  Addresses addresses_;
  std::vector<std::pair<uint64_t, uint64_t>> read_only_;
  std::map<std::string, std::unique_ptr<Program>> programs_;
  std::mutex running_;
};

}  // namespace

std::unique_ptr<Module> Module::load(std::string_view ptx, GlobalMemory& memory, const MachineOptions& options) {
  return std::make_unique<LoadedModule>(ptx, memory, options);
}

}  // namespace stepfuse::vgpu
