// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/layout.h"
#include "ir/graph.h"
#include "ir/support/status.h"

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stepfuse::compiler {

/// What the compiler must know of a target to choose between equal plans.
struct TargetTraits {
  std::string name = "cpu";
  bool bf16_products = false;       // matrix units for bf16 operands
  bool symmetric_products = false;  // f32 products may compute one triangle (syrk)
  bool divides_in_cache = false;    // a second pass over a matrix costs next to nothing beside its products
  bool factors_in_memory = true;    // products read alpha and beta from memory; else the host must fetch them first
  bool launches_phases = false;     // each phase of a fused kernel is a launch of its own
  bool launches_scalars = false;    // the scalars of a step are a launch too
  bool captures_step = false;       // all launches of a step are one graph
  int64_t branches = 1;             // most batches that run at the same time
  int64_t row_bytes = 0;            // products want rows at multiples of this; 0: anywhere
};

/// One choice of the compiler, taken or not, with its reason; the raw material of `explain`.
struct Decision {
  std::string pass;
  std::string subject;  // the value or group it is about
  bool taken = false;
  std::string why;
  std::string saves;                      // what it saves, when taken
  std::vector<std::string> alternatives;  // the candidates that lost, each with its figure
};

struct PassContext {
  ir::Mode mode = ir::Mode::Default;
  TargetTraits target;
  int64_t members = 1;  // parameters that share the graph; above 1 the group runs in batches
  std::vector<Decision>* decisions = nullptr;
  std::vector<Strides> layouts = {};  // by Graph::inputs(); no list at all when every input is dense

  bool strict() const { return mode == ir::Mode::Strict; }
  void record(Decision decision) const {
    if (decisions != nullptr) decisions->push_back(std::move(decision));
  }
};

/// Recipe: works on the rule as written. Group: needs a signature (element types, extents of matrices). Plan: works on
/// the step plan; such passes stand in the table for `list` and `--disable` and are run by make_plan().
enum class PassLevel : uint8_t { Recipe, Group, Plan };
std::string_view level_name(PassLevel level);

struct PassInfo {
  std::string_view name;  // also the name on the command line
  PassLevel level;
  std::string_view summary;
  bool default_mode_only;                       // its rewrites are exact in real arithmetic only
  bool (*run)(ir::Graph&, const PassContext&);  // null for Plan
};

/// All passes in pipeline order.
std::span<const PassInfo> all_passes();
/// The error lists the names and the nearest one.
Result<const PassInfo*> find_pass(std::string_view name);

struct PassTiming {
  std::string_view pass;
  double seconds;
  bool changed;
};

struct RunnerOptions {
  std::vector<std::string> disabled;                                          // pass names
  std::vector<std::string> print_after;                                       // pass names, or "all"
  std::function<void(std::string_view pass, const std::string& text)> print;  // gets the graph, or "(unchanged)"
  std::vector<PassTiming>* timings = nullptr;

  bool is_disabled(std::string_view pass) const;
};

/// Runs the graph passes named in `passes` (empty: the whole pipeline) in the given order. After every pass that
/// changed something the graph is verified; a broken graph is an InternalError that names the pass.
Outcome run_passes(ir::Graph& graph, const PassContext& context, const RunnerOptions& options,
                   std::span<const std::string> passes = {});

}  // namespace stepfuse::compiler
