/* SPDX-FileCopyrightText: The Stepfuse authors
 * SPDX-License-Identifier: Apache-2.0
 *
 * stepfuse.h as the only thing a C99 program includes, compiled with every warning as an error. */
#include <stepfuse/stepfuse.h>

/* A C99 static assertion: the layout of DLPack's DLTensor. */
typedef char tensor_has_48_bytes[sizeof(stepfuse_tensor) == 48 ? 1 : -1];
typedef char shape_is_at_24[offsetof(stepfuse_tensor, shape) == 24 ? 1 : -1];

int stepfuse_header_test_c99(void);

/* Uses each initialiser, so that an unused or misspelt one cannot hide. */
int stepfuse_header_test_c99(void) {
  const int64_t shape[1] = {4};
  float values[4] = {0, 0, 0, 0};
  const stepfuse_tensor tensor = stepfuse_cpu_tensor(values, stepfuse_f32(), 1, shape);
  stepfuse_context_options context = stepfuse_context_options_init();
  stepfuse_metrics metrics = stepfuse_metrics_init();
  stepfuse_parameter parameter = stepfuse_parameter_init();
  stepfuse_prepare_options prepare = stepfuse_prepare_options_init();
  stepfuse_binding binding = stepfuse_binding_init();
  stepfuse_step_args step = stepfuse_step_args_init();
  stepfuse_summary summary = stepfuse_summary_init();
  parameter.dtype = stepfuse_f64();
  parameter.grad_dtype = stepfuse_f16();
  parameter.state_dtype = stepfuse_bf16();
  binding.param = &tensor;
  return context.struct_size == sizeof(context) && metrics.struct_size == sizeof(metrics) &&
         parameter.struct_size == sizeof(parameter) && prepare.struct_size == sizeof(prepare) &&
         binding.struct_size == sizeof(binding) && step.struct_size == sizeof(step) &&
         summary.struct_size == sizeof(summary) && parameter.dtype.bits == 64 && binding.grad == NULL;
}
