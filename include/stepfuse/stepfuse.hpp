// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Stepfuse: fused optimizer steps for trainers written in C++17 and later.
///
///   stepfuse::Optimizer opt;
///   auto muon  = opt.add_group("muon",  {{"lr", "0.02"}, {"weight_decay", "0.01"}});
///   auto adamw = opt.add_group("adamw", {{"lr", "3e-4"}});
///   auto w = opt.add_parameter(muon, "w", {768, 3072});
///   auto b = opt.add_parameter(adamw, "b", {3072});
///   opt.prepare();                       // compiles, allocates; everything that can fail on a plan fails here
///   opt.bind(w, w_data, w_grad);         // once, or again whenever a pointer changes
///   opt.bind(b, b_data, b_grad);
///   for (...) { compute_gradients(); opt.set(muon, "lr", schedule(i)); opt.step(); }
///
/// Every function reports trouble by throwing stepfuse::Error. An Optimizer is used by one thread at a time.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#if defined(__GNUC__)
#define STEPFUSE_API __attribute__((visibility("default")))
#else
#define STEPFUSE_API
#endif

namespace stepfuse {

/// Element type of a tensor in memory.
enum class ElementType : std::uint8_t { F32, BF16, F16, F64 };

/// How much freedom the compiler has. `Strict` rounds once per operation exactly as the recipe states, so a fused step
/// equals the unfused one bit for bit; `Default` may contract, keep intermediates wider and use faster products.
enum class Numerics : std::uint8_t { Default, Strict };

enum class ErrorCode : std::uint8_t {
  InvalidArgument,  ///< a name, value or call order that the caller can mend
  InvalidData,      ///< a file or text whose content is not what it claims to be
  NotFound,         ///< a file or name that does not exist
  Unsupported,      ///< legal, but not in this version
  Environment,      ///< something the machine lacks: a library, a CPU feature, memory
  Io,               ///< reading or writing failed
  Internal          ///< a fault of Stepfuse itself
};

class STEPFUSE_API Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message, std::string hint)
      : std::runtime_error(message), code_(code), hint_(std::move(hint)) {}
  ErrorCode code() const noexcept { return code_; }
  /// What to do about it; may be empty.
  const std::string& hint() const noexcept { return hint_; }

 private:
  ErrorCode code_;
  std::string hint_;
};

/// Option names and values as a person writes them, e.g. {"betas", "0.9,0.95"}, {"nesterov", "false"}.
using Options = std::vector<std::pair<std::string, std::string>>;

struct Settings {
  Numerics numerics = Numerics::Default;
  std::string target = "cpu";                ///< "cpu" (this host), "x86-64-v3", "x86-64-v4" or "interp"
  int threads = 0;                           ///< 0: one per core this process may use
  std::vector<std::string> disabled_passes;  ///< names from `stepfuse list passes`
};

struct GroupId {
  std::uint32_t index;
};
struct ParameterId {
  std::uint32_t index;
};

/// A contiguous row-major tensor in memory owned by somebody else.
struct TensorView {
  void* data;
  ElementType dtype;
  std::vector<std::int64_t> shape;  ///< in elements
};

/// What one step launches and moves, counted on the plan that runs.
struct PlanSummary {
  std::int64_t launches;              ///< sum of the three below
  std::int64_t elementwise_launches;  ///< fused kernels, reductions and casts included
  std::int64_t gemms;                 ///< matrix products; a batched product is one
  std::int64_t aux_launches;          ///< diagonal and copy launches
  std::int64_t naive_launches;        ///< what the recipes launch when nothing is fused
  double bytes_per_param;             ///< read + written by elementwise kernels, per parameter element
  double gemm_flops;                  ///< multiply and add count as two
  std::int64_t workspace_bytes;       ///< scratch shared by all parameters
  std::int64_t host_syncs;            ///< steps that wait for the device; 0 by construction
  std::int64_t compiled_kernels;      ///< kernels that were generated, not found in memory
  double compile_seconds;             ///< wall time of prepare()
};

class STEPFUSE_API Optimizer {
 public:
  explicit Optimizer(const Settings& settings = {});
  ~Optimizer();
  Optimizer(Optimizer&&) noexcept;
  Optimizer& operator=(Optimizer&&) noexcept;

  /// Opens a group of parameters that share a recipe ("muon", "adamw", "adam", "sgd", or the text of an IR file) and
  /// its options. Unknown options and values out of range are refused here.
  GroupId add_group(const std::string& recipe, const Options& options = {});

  /// Adds a parameter. `shape` in elements, row-major; an extent of 0 is legal and makes every step a no-op for it.
  /// States get the parameter's element type.
  ParameterId add_parameter(GroupId group, const std::string& name, const std::vector<std::int64_t>& shape,
                            ElementType dtype = ElementType::F32);

  /// Plans, compiles and allocates. Call once after the last add_parameter.
  void prepare();

  /// Gives the memory of a parameter and of its gradient; both contiguous, not overlapping any other bound memory.
  /// A null gradient means "no gradient": the parameter and its states stay as they are until a gradient is bound.
  void bind(ParameterId parameter, void* data, const void* gradient);

  /// Runs one step over every parameter that has a gradient. Allocates nothing.
  void step();

  /// Changes a hyperparameter (lr, weight_decay, momentum, beta1, beta2, eps ...) of all parameters of a group from the
  /// next step on; after prepare(). Same range checks as add_group; never recompiles.
  void set(GroupId group, const std::string& option, double value);

  /// The state tensor `key` (torch's name: "exp_avg", "momentum_buffer" ...) of a parameter, after prepare().
  TensorView state(ParameterId parameter, const std::string& key) const;
  std::vector<std::string> state_keys(ParameterId parameter) const;

  /// Steps this parameter has taken, at most 2^53. Set it to resume, after filling its states: above 0 they count as
  /// written.
  std::int64_t steps(ParameterId parameter) const;
  void set_steps(ParameterId parameter, std::int64_t steps);

  PlanSummary summary() const;
  /// The plan with every decision and its reason; `format` is "text" or "json".
  std::string explain(const std::string& format = "text") const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stepfuse
