// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codegen/cuda/values.h"

namespace stepfuse::codegen {

/// The lines that move a kernel's arguments. Those that vary from element to element are streams: NAME_at points to
/// what the chunk holds of them, NAME_vec are the neighbours that a thread has in registers.
class CudaStreams {
 public:
  CudaStreams(KernelText& text, CudaValues& values) : t_(text), values_(values) {}

  /// Once per chunk: the pointers and steps of streams and runs, and the values that a chunk has one of.
  void enter_chunk();
  /// One value per run (Level::Run), at row i1.
  void load_run();
  /// NAME_vec, for one vector or for the whole batch.
  void declare();
  void load();
  /// The values read at the current element.
  void name_elements();
  /// What the element stores, into NAME_vec, or straight to memory where there is none.
  void keep();
  void store();
  /// Pointers go on to the thread's next batch.
  void advance();
  /// The stores of values that a chunk or a run has one of, by the thread that owns them.
  void store_once(CudaLevel level);
  /// Whether a store at an element, or any arguments' addresses, need the matrix and row of Scheme::Rows.
  bool needs_row_indices() const;

 private:
  CudaLevel level(size_t arg) const { return cuda_level(t_.spec, t_.spec.args[arg].varies); }
  bool is_stream(size_t arg) const { return level(arg) == CudaLevel::Element; }
  std::string index(size_t d) const;
  std::string offset(size_t arg, size_t first, size_t last) const;
  void declare_pointer(size_t arg);
  std::string step(size_t arg) const;
  bool advances() const;
  std::string element_offset(size_t arg) const;
  std::string in_memory(size_t arg) const;
  std::string address(size_t arg) const;
  bool packed(size_t arg) const;
  std::string vec(size_t arg) const;
  std::string vec_type(size_t arg) const;
  std::string element(size_t arg) const;
  std::string owner(size_t arg, CudaLevel level) const;
  void load_vectors();
  void store_vectors(const std::vector<size_t>& args);

  KernelText& t_;
  CudaValues& values_;
};

}  // namespace stepfuse::codegen
