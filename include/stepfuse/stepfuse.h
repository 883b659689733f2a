/* SPDX-FileCopyrightText: The Stepfuse authors
 * SPDX-License-Identifier: Apache-2.0
 *
 * Stepfuse: fused optimizer steps, for programs in C99, C++ and everything that can call C.
 *
 *   stepfuse_context* context;
 *   stepfuse_optimizer* optimizer;
 *   stepfuse_context_create(NULL, &context);
 *   stepfuse_optimizer_create(context, &optimizer);
 *   stepfuse_optimizer_add_group(optimizer, "adamw", options, 1, &group);
 *   stepfuse_optimizer_add_parameter(optimizer, group, &parameter, &id);
 *   stepfuse_optimizer_prepare(optimizer, NULL);      plans, compiles, allocates
 *   stepfuse_optimizer_bind(optimizer, id, &binding); once, or whenever a pointer changes
 *   for (;;) { ...gradients...; stepfuse_optimizer_step(optimizer, NULL); }
 *   stepfuse_optimizer_destroy(optimizer);
 *   stepfuse_context_destroy(context);
 *
 * Errors. Every function that can fail returns a status and never throws, aborts or prints. After a status other than
 * STEPFUSE_OK, stepfuse_last_error() and stepfuse_last_hint() of the same thread say what is wrong and how to mend it;
 * the object is as it was before the call, and what `out` arguments point to is not written (but for `needed`).
 * A handle that was destroyed, is of the wrong kind or never was one is told apart from a good one and answered with
 * STEPFUSE_INVALID_ARGUMENT; a handle is a number in disguise and points to nothing.
 *
 * Ownership. Texts and arrays that go in are copied; they may be freed after the call. Exceptions are the memory that
 * stepfuse_optimizer_bind is given, which must stay valid until it is bound anew or the optimizer is destroyed, and the
 * callbacks with their `user` pointers, which must stay valid until the context and all its optimizers are destroyed.
 * Texts and tensors that come out belong to the object they were asked from and live as long as it does.
 *
 * Threads. A context may be used by any number of threads. An optimizer is used by one thread at a time: while one
 * thread is in a call, a call of another thread on the same optimizer returns STEPFUSE_BUSY at once and does nothing.
 * Different optimizers, of one context too, may be used by different threads. Destroying an object during a call of
 * another thread is safe: that call ends as usual. After fork() of a process with a single thread in Stepfuse, parent
 * and child may both go on.
 *
 * Growth. A structure that begins with `struct_size` is made by its stepfuse_..._init() function. Later versions append
 * fields whose zero means "as before", so a program runs with a newer library unchanged; an older library refuses a
 * field that it does not know unless it is zero. The other structures never change.
 */
#ifndef STEPFUSE_STEPFUSE_H_
#define STEPFUSE_STEPFUSE_H_

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define STEPFUSE_API __attribute__((visibility("default")))
#else
#define STEPFUSE_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Version, status, last error. */

/* The C interface this header describes. It grows only by additions; the number changes when something is removed. */
#define STEPFUSE_ABI_VERSION 1

typedef int32_t stepfuse_status;

enum {
  STEPFUSE_OK = 0,
  STEPFUSE_INVALID_ARGUMENT = 1, /* a name, value, handle or call order that the caller can mend */
  STEPFUSE_INVALID_DATA = 2,     /* a file or text whose content is not what it claims to be */
  STEPFUSE_NOT_FOUND = 3,        /* a file or name that does not exist */
  STEPFUSE_UNSUPPORTED = 4,      /* legal, but not in this version */
  STEPFUSE_ENVIRONMENT = 5,      /* something the machine lacks: a library, a CPU feature, a right */
  STEPFUSE_IO = 6,               /* reading or writing failed */
  STEPFUSE_FAILED = 7,           /* a check that did not hold */
  STEPFUSE_INTERNAL = 8,         /* a fault of Stepfuse itself; please report it */
  STEPFUSE_BUSY = 9,             /* another thread is in a call on this optimizer; nothing was done */
  STEPFUSE_OUT_OF_MEMORY = 10,
  STEPFUSE_BUFFER_TOO_SMALL = 11 /* nothing was written; `needed` says how many bytes it takes */
};

/* "0.1.0", of the library that runs. */
STEPFUSE_API const char* stepfuse_version(void);
/* STEPFUSE_ABI_VERSION of the library that runs; compare it with that of the header you compiled with. */
STEPFUSE_API int32_t stepfuse_abi_version(void);
/* "invalid argument" for STEPFUSE_INVALID_ARGUMENT and so on; "unknown status" for other numbers. Never null. */
STEPFUSE_API const char* stepfuse_status_name(stepfuse_status status);
/* The message of this thread's last call that failed, "" if none has. Never null; valid until the next call that fails
 * on this thread. A call that succeeds leaves it as it is. */
STEPFUSE_API const char* stepfuse_last_error(void);
/* What to do about it; may be "". As valid as stepfuse_last_error(). */
STEPFUSE_API const char* stepfuse_last_hint(void);

/* Plain structures. */

/* Field by field DLPack's DLDataType, DLDevice and DLTensor: a DLTensor* may be passed as a stepfuse_tensor*. */

typedef struct stepfuse_dtype {
  uint8_t code; /* STEPFUSE_FLOAT or STEPFUSE_BFLOAT */
  uint8_t bits;
  uint16_t lanes; /* 1 */
} stepfuse_dtype;

enum { STEPFUSE_FLOAT = 2, STEPFUSE_BFLOAT = 4 };

typedef struct stepfuse_device {
  int32_t type; /* one of the numbers below, which are DLPack's */
  int32_t id;   /* of a CPU 0 */
} stepfuse_device;

enum { STEPFUSE_DEVICE_CPU = 1, STEPFUSE_DEVICE_CUDA = 2 };

typedef struct stepfuse_tensor {
  void* data;
  stepfuse_device device;
  int32_t ndim;
  stepfuse_dtype dtype;
  const int64_t* shape;   /* `ndim` extents, in elements; may be null if ndim is 0 */
  const int64_t* strides; /* `ndim` strides, in elements; null: dense and row-major */
  uint64_t byte_offset;   /* from `data` to the first element */
} stepfuse_tensor;

/* Names and values as a person writes them: {"betas", "0.9,0.95"}, {"nesterov", "false"}. */
typedef struct stepfuse_option {
  const char* key;
  const char* value;
} stepfuse_option;

/* A state of a parameter by the key that torch's optimizers use: "exp_avg", "exp_avg_sq", "momentum_buffer". */
typedef struct stepfuse_state_layout {
  const char* key;
  const int64_t* strides; /* as many as the parameter has dimensions, in elements; null: dense and row-major */
} stepfuse_state_layout;

typedef struct stepfuse_state_tensor {
  const char* key;
  stepfuse_tensor tensor;
} stepfuse_state_tensor;

/* A hyperparameter of a group: {group, "lr", 3e-4}. */
typedef struct stepfuse_scalar {
  uint32_t group;
  const char* key;
  double value;
} stepfuse_scalar;

/* Context. */

/* Handles. They are compared and passed on, never looked into. */
typedef struct stepfuse_context stepfuse_context;
typedef struct stepfuse_optimizer stepfuse_optimizer;

/* `level`: one of the numbers below. `message` without a newline, valid during the call only. Called by one thread at a
 * time, by any thread that uses the context; it must not call Stepfuse and must not throw. */
typedef void (*stepfuse_log_function)(void* user, int32_t level, const char* message);

enum { STEPFUSE_LOG_ERROR = 0, STEPFUSE_LOG_WARN = 1, STEPFUSE_LOG_INFO = 2, STEPFUSE_LOG_DEBUG = 3 };

/* Memory of states and workspace. At least `bytes` (> 0) at a multiple of `alignment` (a power of two), null if there
 * is none; `release` gets the same number of bytes back. Both may be called by several threads at once; they must not
 * call Stepfuse and must not throw. */
typedef void* (*stepfuse_allocate_function)(void* user, size_t bytes, size_t alignment);
typedef void (*stepfuse_release_function)(void* user, void* memory, size_t bytes);

/* The same for memory on CUDA devices: states, tables and workspace of target "cuda", from a framework's own pool. The
 * memory is at a multiple of 256. It is used by work of any stream until `release`, which is called when no work uses
 * it any more; `stream` is one of the device that the library itself queues copies on. */
typedef void* (*stepfuse_device_allocate_function)(void* user, size_t bytes, int32_t device, void* stream);
typedef void (*stepfuse_device_release_function)(void* user, void* memory, size_t bytes, int32_t device, void* stream);

typedef struct stepfuse_context_options {
  size_t struct_size;
  /* Settings of the library: "target", "mode", "threads", "cache", "cache_dir" and what else `stepfuse doctor` lists.
   * They go before the environment (STEPFUSE_TARGET and so on), which goes before the file. */
  const stepfuse_option* settings;
  size_t settings_count;
  const char* config_path;   /* a TOML file, of which the [settings] are read; null: none */
  stepfuse_log_function log; /* null: messages go to stderr. The setting "log" says how much is said. */
  void* log_user;
  stepfuse_allocate_function allocate; /* null, and `release` too: the C library's memory */
  stepfuse_release_function release;
  void* allocator_user;
  stepfuse_device_allocate_function device_allocate; /* null, and `device_release` too: the driver's memory */
  stepfuse_device_release_function device_release;
  void* device_allocator_user;
} stepfuse_context_options;

/* What optimizers share: settings, log, memory, compiled kernels. `options` may be null: the environment, else the
 * defaults. Unknown settings, also in variables that begin with STEPFUSE_, and values out of range are refused. */
STEPFUSE_API stepfuse_status stepfuse_context_create(const stepfuse_context_options* options, stepfuse_context** out);
/* Null is legal. Optimizers of the context go on working; what they share is freed with the last of them. */
STEPFUSE_API stepfuse_status stepfuse_context_destroy(stepfuse_context* context);

/* Counters of the context's kernel cache, which contexts with equal settings share, since the process started. */
typedef struct stepfuse_metrics {
  size_t struct_size;
  int64_t memory_hits;    /* kernels found in the process */
  int64_t disk_hits;      /* ... in the cache folder */
  int64_t layer_hits;     /* ... in a read-only folder below it */
  int64_t misses;         /* ... nowhere */
  int64_t compiled;       /* kernels that were compiled */
  int64_t published;      /* entries written to the cache folder */
  int64_t damaged;        /* entries that were not what they claim to be, and were thrown away */
  int64_t io_errors;      /* reads and writes that failed, and were done without */
  int64_t evicted;        /* entries removed to stay within cache_max_size */
  int64_t bytes_read;     /* from cache folders */
  int64_t bytes_written;  /* to the cache folder */
  double compile_seconds; /* summed over threads */
  double load_seconds;    /* summed over threads */
} stepfuse_metrics;

/* `out->struct_size` must be set. */
STEPFUSE_API stepfuse_status stepfuse_context_metrics(stepfuse_context* context, stepfuse_metrics* out);

/* The functions that write into a `buffer` of `size` bytes take a null buffer with size 0 to ask for the size.
 * `*needed` (if not null) is set, also with STEPFUSE_BUFFER_TOO_SMALL, to the bytes it takes, for texts with the final
 * 0. */

/* The folder of the context's disk cache as a path; "" where the cache is off. */
STEPFUSE_API stepfuse_status stepfuse_cache_path(stepfuse_context* context, char* buffer, size_t size, size_t* needed);
/* Removes every entry of the cache folder. `removed` (if not null) gets their number. */
STEPFUSE_API stepfuse_status stepfuse_cache_clear(stepfuse_context* context, int64_t* removed);
/* Removes the entries used least recently until the folder takes at most `max_bytes`; below 0: cache_max_size. */
STEPFUSE_API stepfuse_status stepfuse_cache_prune(stepfuse_context* context, int64_t max_bytes, int64_t* removed);

/* Optimizer: groups and parameters. */

/* Call order: add_group or load_config, add_parameter, prepare, bind, step. A call out of order is refused. */

STEPFUSE_API stepfuse_status stepfuse_optimizer_create(stepfuse_context* context, stepfuse_optimizer** out);
/* Null is legal. Frees states and workspace, of the program's memory nothing. */
STEPFUSE_API stepfuse_status stepfuse_optimizer_destroy(stepfuse_optimizer* optimizer);
/* Where the tensors of this optimizer lie: on the CPU, or with the setting "target" = "cuda" on the CUDA device that
 * the setting "device" names. */
STEPFUSE_API stepfuse_status stepfuse_optimizer_device(stepfuse_optimizer* optimizer, stepfuse_device* device);

/* Opens a group of parameters that share a recipe and its options. `recipe`: "adamw", "muon" and what else
 * `stepfuse list recipes` shows, the path of an IR file (*.sfir), or the text of one. Unknown options, with the nearest
 * name, and values out of range are refused here. */
STEPFUSE_API stepfuse_status stepfuse_optimizer_add_group(stepfuse_optimizer* optimizer, const char* recipe,
                                                          const stepfuse_option* options, size_t options_count,
                                                          uint32_t* group);

/* Reads groups and rules from a TOML file or text; at most once. Parameters added to STEPFUSE_GROUP_ROUTED get their
 * group by name and shape in prepare. Its [settings] concern contexts, see stepfuse_context_options. */
STEPFUSE_API stepfuse_status stepfuse_optimizer_load_config(stepfuse_optimizer* optimizer, const char* path);
STEPFUSE_API stepfuse_status stepfuse_optimizer_load_config_text(stepfuse_optimizer* optimizer, const char* toml);

#define STEPFUSE_GROUP_ROUTED UINT32_MAX

enum { STEPFUSE_CALLER_STATES = 1 }; /* bind brings the memory of every state; the optimizer allocates none */

typedef struct stepfuse_parameter {
  size_t struct_size;
  const char* name; /* unique within the optimizer; states are saved under it */
  int32_t ndim;
  const int64_t* shape;                       /* `ndim` extents, in elements; 0 is legal and makes every step a no-op */
  stepfuse_dtype dtype;                       /* all zero: f32 */
  stepfuse_dtype grad_dtype;                  /* all zero: as dtype */
  stepfuse_dtype state_dtype;                 /* all zero: as dtype */
  const int64_t* strides;                     /* of the parameter, in elements; null: dense and row-major */
  const int64_t* grad_strides;                /* of the gradient; null: dense and row-major */
  uint32_t flags;                             /* 0 or STEPFUSE_CALLER_STATES */
  stepfuse_dtype master_dtype;                /* all zero: no master copy; others are not yet supported */
  const stepfuse_state_layout* state_layouts; /* of the states that are not dense; with STEPFUSE_CALLER_STATES */
  size_t state_layouts_count;
} stepfuse_parameter;

/* Adds a parameter to a group, or to STEPFUSE_GROUP_ROUTED after load_config. A tied parameter is added once. `id`
 * counts from 0 in the order of the calls. */
STEPFUSE_API stepfuse_status stepfuse_optimizer_add_parameter(stepfuse_optimizer* optimizer, uint32_t group,
                                                              const stepfuse_parameter* parameter, uint32_t* id);

STEPFUSE_API stepfuse_status stepfuse_optimizer_parameter_count(stepfuse_optimizer* optimizer, uint32_t* count);
STEPFUSE_API stepfuse_status stepfuse_optimizer_group_count(stepfuse_optimizer* optimizer, uint32_t* count);
/* The parameter of that name; STEPFUSE_NOT_FOUND, with the nearest name, if there is none. */
STEPFUSE_API stepfuse_status stepfuse_optimizer_find_parameter(stepfuse_optimizer* optimizer, const char* name,
                                                               uint32_t* id);
/* The name of a group that a config made, "" for one of add_group. A group of the config may become several: "NAME", or
 * "NAME/muon" and "NAME/adamw" where the built-in rules choose the optimizer, and one with "/no-decay" behind it for
 * its parameters without weight decay. A schedule sets them all: loop over group_count. Lives as long as the optimizer.
 */
STEPFUSE_API stepfuse_status stepfuse_optimizer_group_name(stepfuse_optimizer* optimizer, uint32_t group,
                                                           const char** name);
/* A group by that whole name, after prepare; STEPFUSE_NOT_FOUND, with the nearest name, if no parameter was
 * routed to such a one. Where a config scales or bounds the learning rate of a group, it does so whenever "lr" is set.
 */
STEPFUSE_API stepfuse_status stepfuse_optimizer_find_group(stepfuse_optimizer* optimizer, const char* name,
                                                           uint32_t* group);
/* The group of a parameter; of a routed one after prepare. */
STEPFUSE_API stepfuse_status stepfuse_optimizer_parameter_group(stepfuse_optimizer* optimizer, uint32_t id,
                                                                uint32_t* group);

/* Optimizer: prepare, bind, step. */

/* `done` of `total` kernels are ready, the last of them `what` (valid during the call only). Called by one thread at a
 * time, not always the one that called prepare. It must not throw; calls on the same optimizer return STEPFUSE_BUSY. */
typedef void (*stepfuse_progress_function)(void* user, int64_t done, int64_t total, const char* what);

typedef struct stepfuse_prepare_options {
  size_t struct_size;
  stepfuse_progress_function progress; /* may be null */
  void* progress_user;
} stepfuse_prepare_options;

/* Plans, compiles in parallel and allocates: all that can fail on a plan fails here. Once, after the last parameter was
 * added; after a failure it may be called again. `options` may be null. */
STEPFUSE_API stepfuse_status stepfuse_optimizer_prepare(stepfuse_optimizer* optimizer,
                                                        const stepfuse_prepare_options* options);

typedef struct stepfuse_binding {
  size_t struct_size;
  const stepfuse_tensor* param;
  const stepfuse_tensor* grad;         /* null: no gradient; parameter and states stay as they are until one is bound */
  const stepfuse_state_tensor* states; /* with STEPFUSE_CALLER_STATES all of them, else none */
  size_t states_count;
  const stepfuse_tensor* master; /* must be null in this version */
} stepfuse_binding;

/* Gives the memory of a parameter, its gradient and, where the caller owns them, its states. Shape, strides, type and
 * device of each tensor must equal what add_parameter was told. Memory of different tensors must not overlap. Data is
 * at a multiple of the size of an element. Allowed between any two steps; fresh caller-owned states need not be zeroed.
 */
STEPFUSE_API stepfuse_status stepfuse_optimizer_bind(stepfuse_optimizer* optimizer, uint32_t id,
                                                     const stepfuse_binding* binding);

/* Changes a hyperparameter of all parameters of a group from the next step on, before or after prepare. The checks are
 * those of add_group; nothing is compiled anew. Options that shape the plan ("ns_steps") cannot be changed. */
STEPFUSE_API stepfuse_status stepfuse_optimizer_set(stepfuse_optimizer* optimizer, uint32_t group, const char* key,
                                                    double value);

typedef struct stepfuse_step_args {
  size_t struct_size;
  const stepfuse_scalar* scalars; /* set before the step, all or, if one is refused, none; they last as set does */
  size_t scalars_count;
  /* A CUstream or cudaStream_t of the optimizer's device, on which gradients are ready; null: a stream of the
   * optimizer's own, which waits for no other. Must be null on a CPU. */
  void* stream;
  /* One f32 on the device each; must be null in this version. */
  const float* loss_scale;
  const float* found_inf;
  const float* clip_coef;
  const float* lr;
} stepfuse_step_args;

/* One step over every parameter that has a gradient. Allocates nothing. `args` may be null.
 *
 * On CUDA the step is queued as one graph and the call returns at once; memory that is bound must live until the stream
 * has come past it. If the stream is capturing, the step becomes part of the caller's graph instead, and is taken by
 * each replay. Before such a capture begins, earlier steps must be done. */
STEPFUSE_API stepfuse_status stepfuse_optimizer_step(stepfuse_optimizer* optimizer, const stepfuse_step_args* args);
/* After bind or set, and before the next replay of a graph that holds a captured step: queues what has changed on
 * `stream`. Otherwise it does nothing. STEPFUSE_FAILED: the change does not fit the captured step; capture it again. */
STEPFUSE_API stepfuse_status stepfuse_optimizer_refresh(stepfuse_optimizer* optimizer, void* stream);

/* Optimizer: states. */

/* After prepare. States of a parameter are numbered from 0; their keys are those of torch's optimizers. */
STEPFUSE_API stepfuse_status stepfuse_optimizer_state_count(stepfuse_optimizer* optimizer, uint32_t id,
                                                            uint32_t* count);
/* `*key` lives as long as the optimizer. */
STEPFUSE_API stepfuse_status stepfuse_optimizer_state_key(stepfuse_optimizer* optimizer, uint32_t id, uint32_t index,
                                                          const char** key);
/* The state's memory, to read between steps (on CUDA, when the last one is done), or to fill before set_steps says that
 * it counts. `out->shape` and
 * `out->strides` live as long as the optimizer; `out->data` is null for a caller-owned state that is not bound yet. */
STEPFUSE_API stepfuse_status stepfuse_optimizer_state(stepfuse_optimizer* optimizer, uint32_t id, const char* key,
                                                      stepfuse_tensor* out);

/* Steps this parameter has taken. Where a caller's graph takes them, the call waits for the device. */
STEPFUSE_API stepfuse_status stepfuse_optimizer_steps(stepfuse_optimizer* optimizer, uint32_t id, int64_t* steps);
/* Sets it, 0 to 2^53 - 1, after prepare, to resume; above 0 the states count as written. */
STEPFUSE_API stepfuse_status stepfuse_optimizer_set_steps(stepfuse_optimizer* optimizer, uint32_t id, int64_t steps);

/* All states and step counts as safetensors, in a file or in memory: "<parameter>.<state key>" and "<parameter>.step".
 * Loading goes by name, after prepare, and is all or nothing. It replaces every state: a parameter that the data does
 * not name starts afresh; tensors that belong to no parameter and shapes that differ are refused. Caller-owned states
 * must be bound before. A file is either its old self or the whole new one. */
STEPFUSE_API stepfuse_status stepfuse_optimizer_state_save(stepfuse_optimizer* optimizer, const char* path);
STEPFUSE_API stepfuse_status stepfuse_optimizer_state_load(stepfuse_optimizer* optimizer, const char* path);
STEPFUSE_API stepfuse_status stepfuse_optimizer_state_export(stepfuse_optimizer* optimizer, void* buffer, size_t size,
                                                             size_t* needed);
STEPFUSE_API stepfuse_status stepfuse_optimizer_state_import(stepfuse_optimizer* optimizer, const void* data,
                                                             size_t size);

/* Optimizer: insight. */

/* The plan with every decision and its reason, after prepare. `format`: "text" or "json". */
STEPFUSE_API stepfuse_status stepfuse_optimizer_explain(stepfuse_optimizer* optimizer, const char* format, char* buffer,
                                                        size_t size, size_t* needed);

/* Writes names, shapes and element types of all parameters as a manifest, after prepare: `stepfuse aot --params PATH`
 * compiles ahead of time what this optimizer needs. PATH is either its old self or the whole new one. */
STEPFUSE_API stepfuse_status stepfuse_optimizer_write_manifest(stepfuse_optimizer* optimizer, const char* path);

/* What one step launches and moves, counted on the plan that runs. */
typedef struct stepfuse_summary {
  size_t struct_size;
  int64_t launches;             /* the sum of the next three */
  int64_t elementwise_launches; /* fused kernels, reductions and casts included */
  int64_t gemms;                /* matrix products; a batched product is one */
  int64_t aux_launches;         /* diagonal and copy launches */
  int64_t naive_launches;       /* what the recipes launch when nothing is fused */
  double bytes_per_param;       /* read and written by elementwise kernels, per parameter element */
  double gemm_flops;            /* multiply and add count as two */
  int64_t workspace_bytes;      /* scratch shared by all parameters */
  int64_t host_syncs;           /* steps that wait for the device; 0 by construction */
  int64_t compiled_kernels;     /* kernels that were compiled in prepare, not found in a cache */
  double compile_seconds;       /* wall time of compiling and loading in prepare */
} stepfuse_summary;

/* After prepare (all zero before). `out->struct_size` must be set. */
STEPFUSE_API stepfuse_status stepfuse_optimizer_summary(stepfuse_optimizer* optimizer, stepfuse_summary* out);

/* Initialisers. */

/* A structure of this header's size with every field zero: stepfuse_binding binding = stepfuse_binding_init(); */
#ifdef __cplusplus
#define STEPFUSE_ALL_ZERO_ \
  {                        \
  }
#else
#define STEPFUSE_ALL_ZERO_ {0}
#endif
#define STEPFUSE_DEFINE_INIT_(name)                            \
  static inline stepfuse_##name stepfuse_##name##_init(void) { \
    stepfuse_##name value = STEPFUSE_ALL_ZERO_;                \
    value.struct_size = sizeof(value);                         \
    return value;                                              \
  }
STEPFUSE_DEFINE_INIT_(context_options)
STEPFUSE_DEFINE_INIT_(metrics)
STEPFUSE_DEFINE_INIT_(parameter)
STEPFUSE_DEFINE_INIT_(prepare_options)
STEPFUSE_DEFINE_INIT_(binding)
STEPFUSE_DEFINE_INIT_(step_args)
STEPFUSE_DEFINE_INIT_(summary)
#undef STEPFUSE_DEFINE_INIT_
#undef STEPFUSE_ALL_ZERO_

static inline stepfuse_dtype stepfuse_f32(void) {
  const stepfuse_dtype dtype = {STEPFUSE_FLOAT, 32, 1};
  return dtype;
}
static inline stepfuse_dtype stepfuse_f64(void) {
  const stepfuse_dtype dtype = {STEPFUSE_FLOAT, 64, 1};
  return dtype;
}
static inline stepfuse_dtype stepfuse_f16(void) {
  const stepfuse_dtype dtype = {STEPFUSE_FLOAT, 16, 1};
  return dtype;
}
static inline stepfuse_dtype stepfuse_bf16(void) {
  const stepfuse_dtype dtype = {STEPFUSE_BFLOAT, 16, 1};
  return dtype;
}

/* A dense, row-major tensor on the CPU. `shape` must outlive its use. */
static inline stepfuse_tensor stepfuse_cpu_tensor(void* data, stepfuse_dtype dtype, int32_t ndim,
                                                  const int64_t* shape) {
  stepfuse_tensor tensor;
  tensor.data = data;
  tensor.device.type = STEPFUSE_DEVICE_CPU;
  tensor.device.id = 0;
  tensor.ndim = ndim;
  tensor.dtype = dtype;
  tensor.shape = shape;
  tensor.strides = NULL;
  tensor.byte_offset = 0;
  return tensor;
}

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* STEPFUSE_STEPFUSE_H_ */
