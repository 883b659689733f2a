// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

/// A machine that executes PTX exactly, on host memory. It shares no code with the compiler under test: what an
/// instruction does is taken from "Parallel Thread Execution ISA", cited by section where it is implemented.
namespace stepfuse::vgpu {

/// The PTX is not what the ISA allows, or holds something this machine does not know. Says the line and the text.
struct PtxError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A running kernel did what a device would answer with a sticky error, or what the ISA leaves undefined.
struct KernelFault : std::runtime_error {
  enum class Kind : uint8_t {
    IllegalAddress,      // outside of every allocation, freed, or a write to read-only memory
    MisalignedAddress,   // not a multiple of the access's size
    IllegalInstruction,  // trap, or an operation on a state the ISA leaves undefined
    Deadlock,            // a barrier or a shuffle that can never complete
    Race,                // two threads on one address without a barrier between them, when asked to look
    Timeout,             // more instructions than allowed
  };
  KernelFault(Kind reason, const std::string& what) : std::runtime_error(what), kind(reason) {}
  Kind kind;
};

/// Global memory as its owner sees it. `address` is a device address; the result is where the bytes lie on the host.
/// Throws KernelFault for an address that a kernel must not touch.
class GlobalMemory {
 public:
  virtual ~GlobalMemory() = default;
  virtual std::byte* resolve(uint64_t address, size_t bytes, bool write) = 0;
  /// Memory for a module's variables, alive until release().
  virtual uint64_t allocate(size_t bytes, size_t alignment) = 0;
  virtual void release(uint64_t address) = 0;
};

struct Dim3 {
  uint32_t x = 1, y = 1, z = 1;
};

struct Launch {
  Dim3 grid, block;
  uint32_t dynamic_shared_bytes = 0;
  bool cooperative = false;  // all blocks are resident at once: a block may wait for another
  uint64_t seed = 0;         // the order of blocks and warps follows from it
};

struct KernelParameter {
  std::string name;
  size_t offset = 0;  // in the parameter block
  size_t bytes = 0;
  size_t alignment = 1;
};

/// What a kernel's text says about it.
struct KernelInfo {
  std::string name;
  std::vector<KernelParameter> parameters;
  size_t parameter_bytes = 0;
  size_t static_shared_bytes = 0;
  size_t local_bytes = 0;
  std::optional<Dim3> max_threads;       // .maxntid
  std::optional<Dim3> required_threads;  // .reqntid
  std::optional<uint32_t> min_blocks;    // .minnctapersm
  uint32_t registers = 0;  // 32-bit registers a thread needs if every value lives to its last use, an estimate
};

struct MachineOptions {
  int capability = 129;                        // major * 10 + minor
  uint64_t max_instructions = 20'000'000'000;  // of all threads of a launch
  bool find_races = false;                     // in shared memory and between blocks in global memory
};

/// One module: parsed, checked and decoded. Thread-safe after loading, but launches of one module take turns.
class Module {
 public:
  /// Refuses text whose .version or .target this machine has not.
  static std::unique_ptr<Module> load(std::string_view ptx, GlobalMemory& memory, const MachineOptions& options);
  virtual ~Module() = default;

  virtual std::vector<std::string> kernels() const = 0;
  virtual const KernelInfo* find(std::string_view kernel) const = 0;  // null if there is none
  /// A module variable in global or constant memory: its address and size.
  virtual std::optional<std::pair<uint64_t, size_t>> variable(std::string_view name) const = 0;

  /// Runs the whole grid. `parameters` is the parameter block, KernelInfo::parameter_bytes long. Deterministic for a
  /// seed. Throws KernelFault.
  virtual void run(std::string_view kernel, const Launch& launch, const std::byte* parameters) = 0;
};

/// GlobalMemory of its own for tests without a driver: allocations with unmapped pages on both sides, poisoned with
/// 0xFF bytes when they are made and when they are freed.
class TestMemory final : public GlobalMemory {
 public:
  TestMemory();
  ~TestMemory() override;
  std::byte* resolve(uint64_t address, size_t bytes, bool write) override;
  uint64_t allocate(size_t bytes, size_t alignment) override;
  void release(uint64_t address) override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stepfuse::vgpu
