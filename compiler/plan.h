// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/layout.h"
#include "compiler/pass.h"
#include "ir/graph.h"
#include "ir/optimizers/recipe.h"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace stepfuse::compiler {

/// Where a value's elements lie: in memory the caller bound to an input, or in a scratch buffer of the group.
struct Slot {
  enum class Kind : uint8_t { None, Input, Scratch };
  Kind kind = Kind::None;
  uint32_t index = 0;  // into Graph::inputs() or GroupPlan::buffers
  friend bool operator==(const Slot&, const Slot&) = default;
};

/// A value as a window on its slot, in elements, three dimensions (missing ones in front are 1). Symbolic values are
/// dense over the parameter's elements.
struct Access {
  Slot slot;
  bool symbolic = false;
  int64_t offset = 0;
  std::array<int64_t, 3> dims{1, 1, 1};
  std::array<int64_t, 3> strides{0, 0, 0};
};

/// A moment of a group's run: phases of one step are moments of their own.
struct Moment {
  int32_t step = 0;
  int32_t phase = 0;
  friend auto operator<=>(const Moment&, const Moment&) = default;
};

/// Scratch for one value, once per member. Buffers of one lane share memory; their lives do not overlap.
struct ScratchBuffer {
  ir::ValueId value;
  int64_t bytes = 0;  // of a member; bytes per element when the value is symbolic
  bool symbolic = false;
  Moment first, last;
  uint32_t lane = 0;
  int64_t pitch = 0;  // elements from row to row of a matrix; 0: as many as it has columns
};

enum class StepKind : uint8_t { Fused, Product, AddDiag, Concat, Copy };
std::string_view step_kind_name(StepKind kind);

/// One launch of a group: what runs for each member of a batch.
struct GroupStep {
  StepKind kind;
  std::string role;                              // "pre", "post", "update", "gram" ...: names the kernel
  std::vector<std::vector<ir::ValueId>> phases;  // Fused: the ops of each phase
  ir::ValueId node;                              // Product, AddDiag, Concat
  Access from;                                   // Copy
  Slot to;                                       // Copy: the whole slot
};

/// One rule with one signature and the parameters it serves.
struct GroupPlan {
  ir::Graph naive;
  ir::Graph graph;                // after the passes
  std::vector<uint32_t> members;  // indices of the program's parameters
  int64_t members_per_batch = 1;
  bool symbolic = false;         // element counts differ between members
  std::vector<Strides> layouts;  // by Graph::inputs(); no list at all when every input is dense
  std::vector<GroupStep> steps;
  std::vector<Slot> slots;         // by value of `graph`
  std::vector<std::string> names;  // by value of `graph`: unique, as dumps show them
  std::vector<ScratchBuffer> buffers;
  std::vector<int64_t> lane_bytes;  // per member; per element when symbolic
  ir::PeerLaunches peer;
  std::vector<Decision> decisions;

  int64_t batches() const {
    const auto count = static_cast<int64_t>(members.size());
    return (count + members_per_batch - 1) / members_per_batch;
  }
};

/// One launch of the step: a group's step over the members first .. first + count - 1 of it.
struct Launch {
  uint32_t group;
  uint32_t step;
  uint32_t first_member;
  uint32_t count;
};

/// Batches that run one after the other and share scratch. Different branches share nothing, so that they may run at
/// the same time.
struct Branch {
  std::vector<uint32_t> launches;  // the first launch of each batch
  int64_t workspace_bytes = 0;
};

struct StepPlan {
  ir::Mode mode = ir::Mode::Default;
  std::vector<std::string> disabled;  // passes left out by name
  TargetTraits target;
  std::vector<GroupPlan> groups;
  std::vector<Launch> launches;
  std::vector<Branch> branches;
  int64_t workspace_bytes = 0;  // of all branches
};

/// A parameter and the naive rule it gets.
struct PlannedParameter {
  std::string name;
  std::vector<int64_t> shape;
  ir::Graph rule;
  ir::PeerLaunches peer;
  std::vector<Strides> layouts = {};  // by Graph::inputs() of `rule`; no list at all when every tensor is dense
  // Parameters with the same number, unless it is 0, have equal rules, shapes and layouts: groups are formed by looking
  // at one of them.
  uint32_t alike = 0;

  Strides layout(size_t input) const { return layouts.empty() ? Strides() : layouts[input]; }
};

struct PlanOptions {
  ir::Mode mode = ir::Mode::Default;
  TargetTraits target;
  RunnerOptions runner;                      // disabled passes, printing
  int64_t batch_bytes = int64_t{256} << 20;  // most scratch that one batch of matrices may take
  int64_t branch_bytes = int64_t{1} << 30;   // most scratch for which a step is cut into several branches
};

/// The whole way from rules to launches: groups parameters by signature, runs the passes, schedules, plans memory and
/// verifies the result. Errors are the user's (a rule that does not fit its parameter); a plan that fails its own
/// verification is Internal.
Result<StepPlan> make_plan(const std::vector<PlannedParameter>& parameters, const PlanOptions& options);

/// The window `id` has on its slot; follows views.
Access access_of(const GroupPlan& group, ir::ValueId id);

/// A window of extents `dims` that covers all of `slot`.
Access slot_access(const GroupPlan& group, const std::array<int64_t, 3>& dims, Slot slot);

/// Elements of one member: the product of the parameter's extents.
int64_t element_count(const std::vector<int64_t>& shape);

/// Readable form: every group, its steps with their values and slots, lanes, launches.
std::string print_plan(const StepPlan& plan, const std::vector<PlannedParameter>& parameters);

}  // namespace stepfuse::compiler
