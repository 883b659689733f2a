// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Stepfuse: fused optimizer steps for trainers written in C++17 and later. Header-only, over stepfuse.h, which says
/// more about each call.
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
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <stepfuse/stepfuse.h>

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
  Environment,      ///< something the machine lacks: a library, a CPU feature, a right
  Io,               ///< reading or writing failed
  Internal,         ///< a fault of Stepfuse itself
  Failed,           ///< a check that did not hold
  Busy,             ///< another thread is in a call on this optimizer; nothing was done
  OutOfMemory
};

class Error : public std::runtime_error {
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

/// Names and values as a person writes them, e.g. {"betas", "0.9,0.95"}, {"nesterov", "false"}.
using Options = std::vector<std::pair<std::string, std::string>>;

enum class Severity : std::uint8_t { Error, Warn, Info, Debug };

/// Memory for states and workspace, see stepfuse_allocate_function. Both functions or none.
struct Allocator {
  stepfuse_allocate_function allocate = nullptr;
  stepfuse_release_function release = nullptr;
  void* user = nullptr;
};

/// Memory on CUDA devices, see stepfuse_device_allocate_function. Both functions or none.
struct DeviceAllocator {
  stepfuse_device_allocate_function allocate = nullptr;
  stepfuse_device_release_function release = nullptr;
  void* user = nullptr;
};

struct ContextOptions {
  Options settings;         ///< {"target", "x86-64-v3"}, {"cache_dir", "/scratch"} ...; they go before the environment
  std::string config_path;  ///< a TOML file, of which the [settings] are read; empty: none
  /// Instead of stderr. Called by one thread at a time; must not call Stepfuse. What it throws is dropped.
  std::function<void(Severity, const std::string& message)> log;
  Allocator allocator;
  DeviceAllocator device_allocator;
};

/// The settings that most programs need. What is left open comes from the environment (STEPFUSE_TARGET ...), else from
/// the defaults: "default", "cpu", one thread per core this process may use, all passes.
struct Settings {
  std::optional<Numerics> numerics;
  std::optional<std::string> target;         ///< "cpu" (this host), "x86-64-v3", "x86-64-v4", "interp" or "cuda"
  std::optional<int> threads;                ///< 0: one per core this process may use
  std::vector<std::string> disabled_passes;  ///< names from `stepfuse list passes`
};

struct GroupId {
  std::uint32_t index;
};
struct ParameterId {
  std::uint32_t index;
};

/// The group of parameters that the config routes by name and shape.
inline constexpr GroupId kRouted{STEPFUSE_GROUP_ROUTED};

/// A tensor in memory owned by somebody else.
struct TensorView {
  void* data;
  ElementType dtype;
  std::vector<std::int64_t> shape;    ///< in elements
  std::vector<std::int64_t> strides;  ///< in elements, as many as extents
};

/// Strides in elements, as many as extents; empty: dense and row-major.
using Strides = std::vector<std::int64_t>;

/// A parameter as its owner holds it.
struct Parameter {
  std::string name;                 ///< unique; states are saved under it
  std::vector<std::int64_t> shape;  ///< in elements; an extent of 0 is legal and makes every step a no-op
  ElementType dtype = ElementType::F32;
  std::optional<ElementType> gradient_dtype, state_dtype;  ///< open: as dtype
  Strides strides, gradient_strides;
  bool caller_states = false;  ///< bind() brings the memory of every state; the optimizer allocates none
  std::vector<std::pair<std::string, Strides>> state_strides;  ///< of caller-owned states that are not dense
};

/// Memory for one parameter, laid out as add_parameter was told. Memory of different tensors must not overlap.
struct Binding {
  void* data = nullptr;
  const void* gradient = nullptr;                     ///< null: everything stays as it is until one is bound
  std::vector<std::pair<std::string, void*>> states;  ///< with caller_states all of them, else none
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
  std::int64_t compiled_kernels;      ///< kernels that were compiled, not found in a cache
  double compile_seconds;             ///< wall time of compiling and loading in prepare()
};

/// Counters of the kernel cache; the fields are documented with stepfuse_metrics.
using Metrics = stepfuse_metrics;

namespace detail {

inline ErrorCode error_code(stepfuse_status status) {
  switch (status) {
    case STEPFUSE_INVALID_ARGUMENT:
      return ErrorCode::InvalidArgument;
    case STEPFUSE_INVALID_DATA:
      return ErrorCode::InvalidData;
    case STEPFUSE_NOT_FOUND:
      return ErrorCode::NotFound;
    case STEPFUSE_UNSUPPORTED:
      return ErrorCode::Unsupported;
    case STEPFUSE_ENVIRONMENT:
      return ErrorCode::Environment;
    case STEPFUSE_IO:
      return ErrorCode::Io;
    case STEPFUSE_FAILED:
      return ErrorCode::Failed;
    case STEPFUSE_BUSY:
      return ErrorCode::Busy;
    case STEPFUSE_OUT_OF_MEMORY:
      return ErrorCode::OutOfMemory;
    default:
      return ErrorCode::Internal;
  }
}

inline void check(stepfuse_status status) {
  if (status != STEPFUSE_OK) throw Error(error_code(status), stepfuse_last_error(), stepfuse_last_hint());
}

inline stepfuse_dtype to_c(ElementType type) {
  switch (type) {
    case ElementType::F32:
      return stepfuse_f32();
    case ElementType::BF16:
      return stepfuse_bf16();
    case ElementType::F16:
      return stepfuse_f16();
    case ElementType::F64:
      return stepfuse_f64();
  }
  throw Error(ErrorCode::InvalidArgument, "unknown element type", "use F32, BF16, F16 or F64");
}

inline ElementType from_c(stepfuse_dtype dtype) {
  if (dtype.code == STEPFUSE_BFLOAT) return ElementType::BF16;
  return dtype.bits == 64 ? ElementType::F64 : dtype.bits == 16 ? ElementType::F16 : ElementType::F32;
}

/// The C form of options; valid as long as they are.
inline std::vector<stepfuse_option> to_c(const Options& options) {
  std::vector<stepfuse_option> list;
  list.reserve(options.size());
  for (const auto& option : options) list.push_back({option.first.c_str(), option.second.c_str()});
  return list;
}

inline const std::int64_t* to_c(const Strides& strides, std::size_t dimensions, const std::string& name) {
  if (strides.empty()) return nullptr;
  if (strides.size() == dimensions) return strides.data();
  throw Error(ErrorCode::InvalidArgument,
              "parameter '" + name + "': " + std::to_string(strides.size()) + " strides for " +
                  std::to_string(dimensions) + " dimensions",
              "give one per dimension, in elements, or none");
}

inline std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ",") + name;
  return text;
}

inline ContextOptions context_options(const Settings& settings) {
  ContextOptions out;
  Options& options = out.settings;
  if (settings.numerics) options.emplace_back("mode", *settings.numerics == Numerics::Strict ? "strict" : "default");
  if (settings.target) options.emplace_back("target", *settings.target);
  if (settings.threads) options.emplace_back("threads", std::to_string(*settings.threads));
  if (!settings.disabled_passes.empty()) options.emplace_back("disable", joined(settings.disabled_passes));
  return out;
}

/// A text from a function that fills a buffer.
template <class Fill>
std::string text_of(Fill fill) {
  std::size_t needed = 0;
  check(fill(nullptr, 0, &needed));
  std::string text(needed, '\0');
  check(fill(&text[0], needed, &needed));
  text.resize(needed - 1);
  return text;
}

/// A context with what its callbacks need; shared with the optimizers, because callbacks live as long as they do.
struct ContextState {
  stepfuse_context* handle = nullptr;
  std::function<void(Severity, const std::string&)> log;

  ContextState() = default;
  ContextState(const ContextState&) = delete;
  ContextState& operator=(const ContextState&) = delete;
  ~ContextState() { stepfuse_context_destroy(handle); }

  static void write_log(void* user, std::int32_t level, const char* message) noexcept {
    try {
      static_cast<ContextState*>(user)->log(static_cast<Severity>(level), message);
    } catch (...) {  // nowhere to go from here
    }
  }
};

/// A progress callback on its way through C; what it throws is kept and thrown when the call is over.
struct Progress {
  std::function<void(std::int64_t done, std::int64_t total, const std::string& what)> tell;
  std::exception_ptr thrown;

  static void call(void* user, std::int64_t done, std::int64_t total, const char* what) noexcept {
    auto* const self = static_cast<Progress*>(user);
    if (self->thrown) return;
    try {
      self->tell(done, total, what);
    } catch (...) {
      self->thrown = std::current_exception();
    }
  }
};

}  // namespace detail

/// Version of the library that runs.
inline std::string version() { return stepfuse_version(); }

/// What optimizers share: settings, log, memory, compiled kernels. Copies are the same context. Thread-safe.
class Context {
 public:
  explicit Context(const ContextOptions& options = {}) : state_(std::make_shared<detail::ContextState>()) {
    const std::vector<stepfuse_option> settings = detail::to_c(options.settings);
    stepfuse_context_options c = stepfuse_context_options_init();
    c.settings = settings.data();
    c.settings_count = settings.size();
    c.config_path = options.config_path.empty() ? nullptr : options.config_path.c_str();
    c.allocate = options.allocator.allocate;
    c.release = options.allocator.release;
    c.allocator_user = options.allocator.user;
    c.device_allocate = options.device_allocator.allocate;
    c.device_release = options.device_allocator.release;
    c.device_allocator_user = options.device_allocator.user;
    state_->log = options.log;
    if (options.log) {
      c.log = &detail::ContextState::write_log;
      c.log_user = state_.get();
    }
    detail::check(stepfuse_context_create(&c, &state_->handle));
  }
  explicit Context(const Settings& settings) : Context(detail::context_options(settings)) {}

  Metrics metrics() const {
    stepfuse_metrics metrics = stepfuse_metrics_init();
    detail::check(stepfuse_context_metrics(handle(), &metrics));
    return metrics;
  }

  /// The folder of the disk cache; empty where the cache is off.
  std::string cache_path() const {
    return detail::text_of([this](char* buffer, std::size_t size, std::size_t* needed) {
      return stepfuse_cache_path(handle(), buffer, size, needed);
    });
  }
  /// Both give the number of entries that were removed. `max_bytes` below 0: the setting cache_max_size.
  std::int64_t clear_cache() {
    std::int64_t removed = 0;
    detail::check(stepfuse_cache_clear(handle(), &removed));
    return removed;
  }
  std::int64_t prune_cache(std::int64_t max_bytes = -1) {
    std::int64_t removed = 0;
    detail::check(stepfuse_cache_prune(handle(), max_bytes, &removed));
    return removed;
  }

  stepfuse_context* handle() const { return state_->handle; }

 private:
  friend class Optimizer;
  std::shared_ptr<detail::ContextState> state_;
};

class Optimizer {
 public:
  explicit Optimizer(const Context& context) : context_(context.state_) {
    detail::check(stepfuse_optimizer_create(context.handle(), &handle_));
    detail::check(stepfuse_optimizer_device(handle_, &device_));
  }
  explicit Optimizer(const Settings& settings = {}) : Optimizer(Context(settings)) {}
  ~Optimizer() { stepfuse_optimizer_destroy(handle_); }
  Optimizer(Optimizer&& other) noexcept
      : context_(std::move(other.context_)),
        handle_(std::exchange(other.handle_, nullptr)),
        device_(other.device_),
        bound_(std::move(other.bound_)) {}
  Optimizer& operator=(Optimizer&& other) noexcept {
    std::swap(context_, other.context_);
    std::swap(handle_, other.handle_);
    std::swap(device_, other.device_);
    std::swap(bound_, other.bound_);
    return *this;
  }

  /// Opens a group of parameters that share a recipe ("muon", "adamw", "adam", "sgd", or the text of an IR file) and
  /// its options. Unknown options and values out of range are refused here.
  GroupId add_group(const std::string& recipe, const Options& options = {}) {
    const std::vector<stepfuse_option> list = detail::to_c(options);
    GroupId group{};
    detail::check(stepfuse_optimizer_add_group(handle_, recipe.c_str(), list.data(), list.size(), &group.index));
    return group;
  }

  /// Groups and rules from a TOML file or text; parameters added to kRouted then get their group by name and shape.
  void load_config(const std::string& path) { detail::check(stepfuse_optimizer_load_config(handle_, path.c_str())); }
  void load_config_text(const std::string& toml) {
    detail::check(stepfuse_optimizer_load_config_text(handle_, toml.c_str()));
  }

  /// Adds a parameter. `shape` in elements, row-major; an extent of 0 is legal and makes every step a no-op for it.
  /// States get the parameter's element type.
  ParameterId add_parameter(GroupId group, const std::string& name, const std::vector<std::int64_t>& shape,
                            ElementType dtype = ElementType::F32) {
    Parameter parameter;
    parameter.name = name;
    parameter.shape = shape;
    parameter.dtype = dtype;
    return add_parameter(group, parameter);
  }

  ParameterId add_parameter(GroupId group, const Parameter& parameter) {
    const std::size_t dimensions = parameter.shape.size();
    std::vector<stepfuse_state_layout> layouts;
    for (const auto& state : parameter.state_strides)
      layouts.push_back({state.first.c_str(), detail::to_c(state.second, dimensions, parameter.name)});
    stepfuse_parameter c = stepfuse_parameter_init();
    c.name = parameter.name.c_str();
    c.ndim = static_cast<std::int32_t>(dimensions);
    c.shape = parameter.shape.data();
    c.dtype = detail::to_c(parameter.dtype);
    if (parameter.gradient_dtype) c.grad_dtype = detail::to_c(*parameter.gradient_dtype);
    if (parameter.state_dtype) c.state_dtype = detail::to_c(*parameter.state_dtype);
    c.strides = detail::to_c(parameter.strides, dimensions, parameter.name);
    c.grad_strides = detail::to_c(parameter.gradient_strides, dimensions, parameter.name);
    c.flags = parameter.caller_states ? std::uint32_t{STEPFUSE_CALLER_STATES} : 0;
    c.state_layouts = layouts.data();
    c.state_layouts_count = layouts.size();
    bound_.push_back(parameter);
    ParameterId id{};
    const stepfuse_status status = stepfuse_optimizer_add_parameter(handle_, group.index, &c, &id.index);
    if (status != STEPFUSE_OK) bound_.pop_back();
    detail::check(status);
    return id;
  }

  /// Plans, compiles and allocates. Call once after the last add_parameter. `progress` is told of each kernel that is
  /// ready, by one thread at a time.
  void prepare(std::function<void(std::int64_t done, std::int64_t total, const std::string& what)> progress = {}) {
    detail::Progress told{std::move(progress), nullptr};
    stepfuse_prepare_options options = stepfuse_prepare_options_init();
    if (told.tell) {
      options.progress = &detail::Progress::call;
      options.progress_user = &told;
    }
    const stepfuse_status status = stepfuse_optimizer_prepare(handle_, &options);
    detail::check(status);
    if (told.thrown) std::rethrow_exception(told.thrown);
  }

  /// Gives the memory of a parameter and of its gradient, not overlapping any other bound memory. A null gradient means
  /// "no gradient": the parameter and its states stay as they are until a gradient is bound.
  void bind(ParameterId parameter, void* data, const void* gradient) { bind(parameter, Binding{data, gradient, {}}); }

  void bind(ParameterId parameter, const Binding& binding) {
    static const Parameter kNone{};
    const Parameter& added = parameter.index < bound_.size() ? bound_[parameter.index] : kNone;
    const stepfuse_tensor data = tensor(binding.data, added.dtype, added, added.strides);
    const stepfuse_tensor gradient = tensor(const_cast<void*>(binding.gradient),  // only read
                                            added.gradient_dtype.value_or(added.dtype), added, added.gradient_strides);
    std::vector<stepfuse_state_tensor> states;
    for (const auto& state : binding.states) {
      stepfuse_state_tensor c{state.first.c_str(), {}};
      detail::check(stepfuse_optimizer_state(handle_, parameter.index, c.key, &c.tensor));
      c.tensor.data = state.second;
      states.push_back(c);
    }
    stepfuse_binding c = stepfuse_binding_init();
    c.param = &data;
    c.grad = binding.gradient == nullptr ? nullptr : &gradient;
    c.states = states.data();
    c.states_count = states.size();
    detail::check(stepfuse_optimizer_bind(handle_, parameter.index, &c));
  }

  /// Runs one step over every parameter that has a gradient. Allocates nothing. On CUDA it is queued on `stream` (null:
  /// one of the optimizer's own), or becomes part of the graph that the stream is capturing: see
  /// stepfuse_optimizer_step.
  void step(void* stream = nullptr) {
    stepfuse_step_args args = stepfuse_step_args_init();
    args.stream = stream;
    detail::check(stepfuse_optimizer_step(handle_, &args));
  }

  /// Brings what bind() and set() have changed to a captured step before its next replay.
  void refresh(void* stream = nullptr) { detail::check(stepfuse_optimizer_refresh(handle_, stream)); }

  /// Where the tensors of this optimizer lie.
  stepfuse_device device() const noexcept { return device_; }

  /// Changes a hyperparameter (lr, weight_decay, momentum, beta1, beta2, eps ...) of all parameters of a group from the
  /// next step on, before or after prepare(). Same range checks as add_group; never recompiles.
  void set(GroupId group, const std::string& option, double value) {
    detail::check(stepfuse_optimizer_set(handle_, group.index, option.c_str(), value));
  }

  ParameterId find_parameter(const std::string& name) const {
    ParameterId id{};
    detail::check(stepfuse_optimizer_find_parameter(handle_, name.c_str(), &id.index));
    return id;
  }
  /// The name of a group that a config made, "" for one of add_group. A group of the config may become several, as
  /// stepfuse_optimizer_group_name says; a schedule sets them all.
  std::string group_name(GroupId group) const {
    const char* name = nullptr;
    detail::check(stepfuse_optimizer_group_name(handle_, group.index, &name));
    return name;
  }
  /// A group by that whole name, after prepare().
  GroupId find_group(const std::string& name) const {
    GroupId group{};
    detail::check(stepfuse_optimizer_find_group(handle_, name.c_str(), &group.index));
    return group;
  }
  /// The group of a parameter; of a routed one after prepare().
  GroupId group(ParameterId parameter) const {
    GroupId group{};
    detail::check(stepfuse_optimizer_parameter_group(handle_, parameter.index, &group.index));
    return group;
  }
  std::uint32_t parameter_count() const {
    std::uint32_t count = 0;
    detail::check(stepfuse_optimizer_parameter_count(handle_, &count));
    return count;
  }
  std::uint32_t group_count() const {
    std::uint32_t count = 0;
    detail::check(stepfuse_optimizer_group_count(handle_, &count));
    return count;
  }

  /// The state tensor `key` (torch's name: "exp_avg", "momentum_buffer" ...) of a parameter, after prepare().
  TensorView state(ParameterId parameter, const std::string& key) const {
    stepfuse_tensor c{};
    detail::check(stepfuse_optimizer_state(handle_, parameter.index, key.c_str(), &c));
    return {c.data, detail::from_c(c.dtype), {c.shape, c.shape + c.ndim}, {c.strides, c.strides + c.ndim}};
  }
  std::vector<std::string> state_keys(ParameterId parameter) const {
    std::uint32_t count = 0;
    detail::check(stepfuse_optimizer_state_count(handle_, parameter.index, &count));
    std::vector<std::string> keys;
    for (std::uint32_t i = 0; i < count; ++i) {
      const char* key = nullptr;
      detail::check(stepfuse_optimizer_state_key(handle_, parameter.index, i, &key));
      keys.emplace_back(key);
    }
    return keys;
  }

  /// Steps this parameter has taken, at most 2^53. Set it to resume, after filling its states: above 0 they count as
  /// written.
  std::int64_t steps(ParameterId parameter) const {
    std::int64_t steps = 0;
    detail::check(stepfuse_optimizer_steps(handle_, parameter.index, &steps));
    return steps;
  }
  void set_steps(ParameterId parameter, std::int64_t steps) {
    detail::check(stepfuse_optimizer_set_steps(handle_, parameter.index, steps));
  }

  /// States and step counts as safetensors, by parameter name and torch's keys; loading is all or nothing.
  void save_state(const std::string& path) const {
    detail::check(stepfuse_optimizer_state_save(handle_, path.c_str()));
  }
  void load_state(const std::string& path) { detail::check(stepfuse_optimizer_state_load(handle_, path.c_str())); }
  std::vector<std::byte> export_state() const {
    std::size_t needed = 0;
    detail::check(stepfuse_optimizer_state_export(handle_, nullptr, 0, &needed));
    std::vector<std::byte> bytes(needed);
    detail::check(stepfuse_optimizer_state_export(handle_, bytes.data(), bytes.size(), &needed));
    return bytes;
  }
  void import_state(const void* data, std::size_t size) {
    detail::check(stepfuse_optimizer_state_import(handle_, data, size));
  }
  void import_state(const std::vector<std::byte>& bytes) { import_state(bytes.data(), bytes.size()); }

  PlanSummary summary() const {
    stepfuse_summary c = stepfuse_summary_init();
    detail::check(stepfuse_optimizer_summary(handle_, &c));
    return {c.launches,   c.elementwise_launches, c.gemms,      c.aux_launches,     c.naive_launches, c.bytes_per_param,
            c.gemm_flops, c.workspace_bytes,      c.host_syncs, c.compiled_kernels, c.compile_seconds};
  }

  /// The plan with every decision and its reason, after prepare(); `format` is "text" or "json".
  std::string explain(const std::string& format = "text") const {
    return detail::text_of([&](char* buffer, std::size_t size, std::size_t* needed) {
      return stepfuse_optimizer_explain(handle_, format.c_str(), buffer, size, needed);
    });
  }

  /// The parameters as a manifest, after prepare(), for `stepfuse aot --params PATH`.
  void write_manifest(const std::string& path) const {
    detail::check(stepfuse_optimizer_write_manifest(handle_, path.c_str()));
  }

  stepfuse_optimizer* handle() const { return handle_; }

 private:
  stepfuse_tensor tensor(void* data, ElementType dtype, const Parameter& parameter, const Strides& strides) const {
    stepfuse_tensor tensor = stepfuse_cpu_tensor(
        data, detail::to_c(dtype), static_cast<std::int32_t>(parameter.shape.size()), parameter.shape.data());
    tensor.device = device_;
    if (!strides.empty()) tensor.strides = strides.data();
    return tensor;
  }

  std::shared_ptr<detail::ContextState> context_;
  stepfuse_optimizer* handle_ = nullptr;
  stepfuse_device device_{};
  std::vector<Parameter> bound_;  // by id: how memory must lie
};

}  // namespace stepfuse
