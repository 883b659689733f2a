// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/cuda/prepared.h"
#include "runtime/cuda/tables.h"

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

/// Where everything that a step needs on the device lies, in one block: tables, scalars, sums, scratch. All sizes
/// follow from the plan; no pointer of the user's counts.
namespace stepfuse::runtime {

/// Offsets of one parameter's own pieces. Bytes from the start of the block.
struct CudaMember {
  uint32_t parameter = 0;
  uint32_t group = 0;
  int64_t elements = 0;
  std::vector<int64_t> lane_offsets;  // from scratch
  int64_t scratch = 0, scalars = 0, partials = 0, tickets = 0;
  int64_t sink = 0;  // where products write instead of the parameter while it has no gradient: scratch, if that will do
};

/// The tables of one launch that walks chunks and rows.
struct KernelTable {
  int64_t rows = 0;  // one per member; Concat: two
  int64_t row_bytes = 0;
  int64_t chunks = 0;
  int64_t chunk_count = 0;
  bool of_users = false;  // its rows hold users' pointers
  // As the tables were filled last (StepTables): which members the aligned kernel serves, whose chunks come first.
  std::vector<uint8_t> aligned;
  int64_t aligned_chunks = 0;
};

/// The pointer arrays of one product, an entry for each matrix of each member. Without arrays its operands are strided.
struct ProductTable {
  bool arrays = false;
  bool of_users = false;
  int64_t a = 0, b = 0, c = 0, d = 0;
  std::vector<uint8_t> aligned;  // members whose operands all lie at multiples of 16 bytes, as last filled
};

/// One launch over a batch, or one per phase.
struct StepTable {
  std::vector<KernelTable> kernels;  // one per phase; of moves one
  ProductTable product;
};

/// Members that run together, in scratch of one branch.
struct CudaBatch {
  uint32_t group = 0;
  std::vector<CudaMember> members;
  std::vector<StepTable> steps;  // by CudaGroup::steps
};

struct CudaBranch {
  std::vector<CudaBatch> batches;
  int64_t product_workspace = 0;        // offset
  int64_t product_workspace_bytes = 0;  // one product of a branch runs at a time
};

struct CudaProgramMemory {
  int64_t lines = 0, slots = 0;
};

struct StepMemory {
  std::vector<CudaBranch> branches;
  std::vector<CudaProgramMemory> programs;               // by group
  std::map<std::pair<double, bool>, int64_t> constants;  // value, and whether as f64: where it is kept for products

  int64_t program_table = 0, prologue_rows = 0;
  uint32_t prologue_row_count = 0;
  int64_t active = 0;  // unsigned by parameter: 0 without a gradient
  int64_t states = 0;  // CudaParameterState by parameter
  int64_t more = 0;    // hyperparameters, for the prologue to read where they do not come by value
  int64_t more_count = 0;
  int64_t one = 0;   // an unsigned 1: the flag of rows that must not store
  int64_t sink = 0;  // what products of parameters without a gradient read; nothing is written there
  int64_t tickets = 0, ticket_bytes = 0;

  int64_t user_bytes = 0;   // tables with users' pointers lie in front of all others
  int64_t table_bytes = 0;  // all tables: what the host fills
  int64_t total_bytes = 0;
};

/// `workspace` is what the products of each branch need.
StepMemory lay_out_step(const compiler::StepPlan& plan, const std::vector<CudaGroup>& groups,
                        const std::vector<compiler::PlannedParameter>& parameters,
                        const std::vector<int64_t>& workspace);

/// Whether a window lies in memory that a caller binds.
inline bool is_users(const compiler::Access& access) { return access.slot.kind == compiler::Slot::Kind::Input; }

/// Beta, which is 0 without C.
codegen::Factor beta_of(const codegen::LoweredProduct& product);

/// Whether the product's operands may be given as one address and a stride each: none of them is a user's.
bool is_strided_batch(const codegen::LoweredProduct& product, size_t members);

}  // namespace stepfuse::runtime
