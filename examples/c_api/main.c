/* SPDX-FileCopyrightText: The Stepfuse authors
 * SPDX-License-Identifier: Apache-2.0
 *
 * AdamW on a small quadratic, in C99: minimise half the squared distance of `x` to a target. */
#include <stdio.h>
#include <stdlib.h>
#include <stepfuse/stepfuse.h>

enum { kElements = 256, kSteps = 200 };

/* Leaves the program when a call has failed; the library says why and what to do. */
static void check(stepfuse_status status, const char* call) {
  if (status == STEPFUSE_OK) return;
  fprintf(stderr, "%s: %s: %s\n", call, stepfuse_status_name(status), stepfuse_last_error());
  if (stepfuse_last_hint()[0] != '\0') fprintf(stderr, "  hint: %s\n", stepfuse_last_hint());
  exit(1);
}
#define CHECK(call) check((call), #call)

static void print_log(void* user, int32_t level, const char* message) {
  (void)user;
  fprintf(stderr, "stepfuse (%d): %s\n", (int)level, message);
}

static void print_progress(void* user, int64_t done, int64_t total, const char* what) {
  (void)user;
  printf("kernel %d of %d: %s\n", (int)done, (int)total, what);
}

/* The loss, and its gradient with respect to x. */
static double loss_and_gradient(const float* x, float* gradient) {
  double loss = 0;
  int i;
  for (i = 0; i < kElements; ++i) {
    const float target = (float)(i % 16) / 16.0f;
    gradient[i] = x[i] - target;
    loss += 0.5 * gradient[i] * gradient[i];
  }
  return loss;
}

static void add_and_bind(stepfuse_optimizer* optimizer, uint32_t group, float* x, float* gradient) {
  static const int64_t shape[1] = {kElements};
  const stepfuse_tensor x_tensor = stepfuse_cpu_tensor(x, stepfuse_f32(), 1, shape);
  const stepfuse_tensor gradient_tensor = stepfuse_cpu_tensor(gradient, stepfuse_f32(), 1, shape);
  stepfuse_parameter parameter = stepfuse_parameter_init();
  stepfuse_prepare_options prepare = stepfuse_prepare_options_init();
  stepfuse_binding binding = stepfuse_binding_init();
  uint32_t id = 0;

  parameter.name = "x";
  parameter.ndim = 1;
  parameter.shape = shape;
  CHECK(stepfuse_optimizer_add_parameter(optimizer, group, &parameter, &id));
  prepare.progress = print_progress;
  CHECK(stepfuse_optimizer_prepare(optimizer, &prepare));
  binding.param = &x_tensor;
  binding.grad = &gradient_tensor;
  CHECK(stepfuse_optimizer_bind(optimizer, id, &binding));
}

int main(void) {
  static float x[kElements], gradient[kElements];
  const stepfuse_option hyperparameters[] = {{"lr", "0.05"}, {"weight_decay", "0"}};
  stepfuse_context_options options = stepfuse_context_options_init();
  stepfuse_context* context = NULL;
  stepfuse_optimizer* optimizer = NULL;
  uint32_t group = 0;
  double first, loss;
  int step;

  if (stepfuse_abi_version() != STEPFUSE_ABI_VERSION) {
    fprintf(stderr, "this program was made for another version of Stepfuse than %s\n", stepfuse_version());
    return 1;
  }
  options.log = print_log;
  CHECK(stepfuse_context_create(&options, &context));
  CHECK(stepfuse_optimizer_create(context, &optimizer));
  CHECK(stepfuse_optimizer_add_group(optimizer, "adamw", hyperparameters, 2, &group));
  add_and_bind(optimizer, group, x, gradient);

  first = loss = loss_and_gradient(x, gradient);
  for (step = 0; step < kSteps; ++step) {
    const stepfuse_scalar lr = {group, "lr", 0.05 * (1.0 - (double)step / kSteps)};
    stepfuse_step_args args = stepfuse_step_args_init();
    args.scalars = &lr;
    args.scalars_count = 1;
    if (step % 40 == 0) printf("step %3d  loss %.6f\n", step, loss);
    CHECK(stepfuse_optimizer_step(optimizer, &args));
    loss = loss_and_gradient(x, gradient);
  }
  printf("step %3d  loss %.6f\n", step, loss);

  CHECK(stepfuse_optimizer_destroy(optimizer));
  CHECK(stepfuse_context_destroy(context));
  if (!(loss < 1e-3 * first)) {
    fprintf(stderr, "the loss did not fall below a thousandth of its first value\n");
    return 1;
  }
  return 0;
}
