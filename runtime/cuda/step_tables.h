// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/cuda/scalar_sets.h"
#include "runtime/cuda/step_memory.h"

#include <cstddef>
#include <span>
#include <vector>

namespace stepfuse::runtime {

/// Where a parameter's tensors lie now.
struct CudaPointers {
  std::vector<DeviceAddress> inputs;  // by Graph::inputs(); 0 for scalars
  bool active = false;
};

/// The member's pieces as addresses; `base` is where the block begins.
MemberPlace member_place(const StepMemory& memory, DeviceAddress base, const CudaMember& member,
                         const CudaPointers& pointers);

/// Bytes of the tables that differ from the device's.
struct TableRange {
  int64_t begin = 0, end = 0;
  bool empty() const { return begin >= end; }
};

/// The tables of a step as the host sees them: an image of the first StepMemory::table_bytes of the device's block.
class StepTables {
 public:
  StepTables(const std::vector<CudaGroup>& groups, StepMemory& memory, DeviceAddress base);

  /// Everything, and which members are aligned. `pointers` by parameter.
  void fill(const std::vector<CudaPointers>& pointers, const ScalarSets& sets);
  /// One parameter's rows and pointers. False, with nothing changed, when the launches do not fit them: it is aligned
  /// otherwise than at fill(), so that its chunks belong to another kernel.
  bool update(uint32_t parameter, const CudaPointers& pointers);
  /// Hyperparameters that do not come by value.
  void write_more(std::span<const double> values);

  const std::vector<std::byte>& image() const { return image_; }
  /// What update() has changed since the last call.
  TableRange take_changes();

 private:
  struct Place {
    CudaBatch* batch = nullptr;
    size_t member = 0;
  };

  MemberPlace place_of(const CudaMember& member, const CudaPointers& pointers) const {
    return member_place(memory_, base_, member, pointers);
  }
  template <class T>
  T* at(int64_t offset) {
    return reinterpret_cast<T*>(image_.data() + offset);
  }
  void changed(int64_t begin, int64_t bytes);

  void write_active(uint32_t parameter, bool active);
  void fill_programs();
  void fill_prologue_rows(const ScalarSets& sets);
  void fill_batch(CudaBatch& batch, const std::vector<CudaPointers>& pointers);
  void fill_phase_chunks(const CudaBatch& batch, const CudaPhase& phase, KernelTable& table);
  void fill_move_chunks(const CudaBatch& batch, const codegen::LoweredMove& move, KernelTable& table);
  /// Whether the launches are right for these pointers.
  bool keeps_launches(const Place& place, const CudaPointers& pointers) const;
  void write_member(CudaBatch& batch, size_t m, const CudaPointers& pointers, bool users_only);
  void write_phase_row(const CudaBatch& batch, size_t m, const CudaPhase& phase, const KernelTable& table,
                       const MemberPlace& place);
  void write_move_rows(const CudaBatch& batch, size_t m, const CudaStep& step, const KernelTable& table,
                       const MemberPlace& place);
  void write_product(const CudaBatch& batch, size_t m, const codegen::LoweredProduct& product,
                     const ProductTable& table, const MemberPlace& place, bool active);

  const std::vector<CudaGroup>& groups_;
  StepMemory& memory_;
  DeviceAddress base_;
  std::vector<std::byte> image_;
  std::vector<Place> places_;  // by parameter; null for those that the plan leaves out
  TableRange changes_;
};

/// Whether every operand of a user's lies at a multiple of 16 bytes; ours do.
bool is_aligned_product(const compiler::GroupPlan& group, const codegen::LoweredProduct& product,
                        const MemberPlace& place);

/// Where a factor is on the device, in the type that products take (LtProduct::scale_dtype).
DeviceAddress factor_address(const CudaGroup& group, const StepMemory& memory, DeviceAddress base,
                             const MemberPlace& place, const codegen::LoweredProduct& product,
                             const codegen::Factor& factor);

}  // namespace stepfuse::runtime
