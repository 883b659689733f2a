/* SPDX-FileCopyrightText: The Stepfuse authors
 * SPDX-License-Identifier: Apache-2.0
 *
 * Stepfuse in a trainer of llm.c's kind: the program owns four flat buffers of floats (parameters, gradients and the
 * two moments), and each slice of them that is one parameter is bound by its address. The library allocates workspace
 * only.
 *
 *   example_llmc_style          AdamW on everything, beside the plain loop
 *   example_llmc_style --muon   Muon on the hidden matrices, AdamW on the rest */
#include "gpt2.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <stepfuse/stepfuse.h>
#include <string.h>

enum { kSteps = 20 };

static const float kLearningRate = 1e-3f, kBeta1 = 0.9f, kBeta2 = 0.95f, kEps = 1e-8f, kWeightDecay = 0.1f;

/* Of a parameter that is about 1: both loops round each step to f32, in their own order. */
static const double kTolerance = 2e-6;

/* The memory of a trainer. */
typedef struct {
  size_t count; /* floats in each buffer */
  float *params_memory, *grads_memory, *m_memory, *v_memory;
} Buffers;

static void check(stepfuse_status status, const char* call) {
  if (status == STEPFUSE_OK) return;
  fprintf(stderr, "%s: %s\n  hint: %s\n", call, stepfuse_last_error(), stepfuse_last_hint());
  exit(1);
}
#define CHECK(call) check((call), #call)

static float* floats(size_t count) {
  float* const memory = calloc(count, sizeof(float));
  if (memory != NULL) return memory;
  fprintf(stderr, "out of memory\n");
  exit(1);
}

static Buffers make_buffers(size_t count) {
  Buffers buffers;
  size_t i;
  buffers.count = count;
  buffers.params_memory = floats(count);
  buffers.grads_memory = floats(count);
  buffers.m_memory = floats(count);
  buffers.v_memory = floats(count);
  for (i = 0; i < count; ++i) buffers.params_memory[i] = (float)(i * 2654435761u % 1024u) / 1024.0f - 0.5f;
  return buffers;
}

static void free_buffers(Buffers* buffers) {
  free(buffers->params_memory);
  free(buffers->grads_memory);
  free(buffers->m_memory);
  free(buffers->v_memory);
}

/* In place of a backward pass: gradients that depend on the parameters and change from step to step. */
static void backward(Buffers* buffers, int step) {
  size_t i;
  for (i = 0; i < buffers->count; ++i) {
    const float noise = (float)((i + (size_t)step * 977u) * 40503u % 2048u) / 2048.0f - 0.5f;
    buffers->grads_memory[i] = 0.5f * buffers->params_memory[i] + 0.1f * noise;
  }
}

/* The update as a trainer writes it out, one pass over the flat buffers: decay inside of the step. In exact arithmetic
 * it is the recipe "adamw", which decays first. */
static void plain_adamw(Buffers* buffers, int t) {
  const float correction1 = 1.0f - powf(kBeta1, (float)t), correction2 = 1.0f - powf(kBeta2, (float)t);
  size_t i;
  for (i = 0; i < buffers->count; ++i) {
    const float g = buffers->grads_memory[i];
    const float m = kBeta1 * buffers->m_memory[i] + (1.0f - kBeta1) * g;
    const float v = kBeta2 * buffers->v_memory[i] + (1.0f - kBeta2) * g * g;
    buffers->m_memory[i] = m;
    buffers->v_memory[i] = v;
    buffers->params_memory[i] -=
        kLearningRate * (m / correction1 / (sqrtf(v / correction2) + kEps) + kWeightDecay * buffers->params_memory[i]);
  }
}

static uint32_t add_slice(stepfuse_optimizer* optimizer, uint32_t group, const Gpt2Tensor* tensor, int64_t layer) {
  const int64_t shape[2] = {tensor->rows, tensor->columns};
  char name[kMaxName];
  stepfuse_parameter parameter = stepfuse_parameter_init();
  uint32_t id = 0;
  gpt2_slice_name(tensor, layer, name);
  parameter.name = name;
  parameter.ndim = tensor->columns == 0 ? 1 : 2;
  parameter.shape = shape;
  parameter.flags = STEPFUSE_CALLER_STATES;
  CHECK(stepfuse_optimizer_add_parameter(optimizer, group, &parameter, &id));
  return id;
}

/* AdamW's moments lie in m_memory and v_memory, Muon's momentum in m_memory. */
static void bind_slice(stepfuse_optimizer* optimizer, const Gpt2Tensor* tensor, int64_t layer, int muon,
                       const Buffers* buffers) {
  const size_t at = tensor->offset + (size_t)layer * gpt2_slice_floats(tensor);
  const int64_t shape[2] = {tensor->rows, tensor->columns};
  const int32_t ndim = tensor->columns == 0 ? 1 : 2;
  const stepfuse_tensor param = stepfuse_cpu_tensor(buffers->params_memory + at, stepfuse_f32(), ndim, shape);
  const stepfuse_tensor grad = stepfuse_cpu_tensor(buffers->grads_memory + at, stepfuse_f32(), ndim, shape);
  stepfuse_state_tensor states[2];
  stepfuse_binding binding = stepfuse_binding_init();
  char name[kMaxName];
  uint32_t id = 0;
  states[0].key = muon ? "momentum_buffer" : "exp_avg";
  states[0].tensor = stepfuse_cpu_tensor(buffers->m_memory + at, stepfuse_f32(), ndim, shape);
  states[1].key = "exp_avg_sq";
  states[1].tensor = stepfuse_cpu_tensor(buffers->v_memory + at, stepfuse_f32(), ndim, shape);
  binding.param = &param;
  binding.grad = &grad;
  binding.states = states;
  binding.states_count = muon ? 1 : 2;
  gpt2_slice_name(tensor, layer, name);
  CHECK(stepfuse_optimizer_find_parameter(optimizer, name, &id));
  CHECK(stepfuse_optimizer_bind(optimizer, id, &binding));
}

static stepfuse_optimizer* make_optimizer(stepfuse_context* context, const Gpt2Tensor* tensors, int with_muon,
                                          const Buffers* buffers) {
  const stepfuse_option adamw_options[] = {
      {"lr", "1e-3"}, {"betas", "0.9,0.95"}, {"eps", "1e-8"}, {"weight_decay", "0.1"}};
  const stepfuse_option muon_options[] = {{"lr", "0.02"}, {"weight_decay", "0.1"}};
  stepfuse_optimizer* optimizer = NULL;
  uint32_t adamw = 0, muon = 0;
  int64_t layer;
  int i;
  CHECK(stepfuse_optimizer_create(context, &optimizer));
  CHECK(stepfuse_optimizer_add_group(optimizer, "adamw", adamw_options, 4, &adamw));
  CHECK(stepfuse_optimizer_add_group(optimizer, "muon", muon_options, 2, &muon));
  for (i = 0; i < kTensors; ++i)
    for (layer = 0; layer < tensors[i].layers; ++layer)
      add_slice(optimizer, with_muon && gpt2_is_hidden_matrix(&tensors[i]) ? muon : adamw, &tensors[i], layer);
  CHECK(stepfuse_optimizer_prepare(optimizer, NULL));
  for (i = 0; i < kTensors; ++i)
    for (layer = 0; layer < tensors[i].layers; ++layer)
      bind_slice(optimizer, &tensors[i], layer, with_muon && gpt2_is_hidden_matrix(&tensors[i]), buffers);
  return optimizer;
}

/* Largest difference of two buffers within a tensor, in units of 1 + |value|. */
static double difference(const Gpt2Tensor* tensor, const float* a, const float* b) {
  const size_t end = tensor->offset + (size_t)tensor->layers * gpt2_slice_floats(tensor);
  double worst = 0;
  size_t i;
  for (i = tensor->offset; i < end; ++i) {
    const double d = fabs((double)a[i] - b[i]) / (1 + fabs((double)b[i]));
    if (!(d <= worst)) worst = d; /* NaN is the worst of all */
  }
  return worst;
}

/* AdamW's tensors are those of the plain loop; Muon's have gone their own way and left v_memory alone. */
static int compare(const Gpt2Tensor* tensors, int with_muon, const Buffers* ours, const Buffers* plain) {
  const Gpt2Tensor* tensor;
  int wrong = 0;
  for (tensor = tensors; tensor < tensors + kTensors; ++tensor) {
    const double params = difference(tensor, ours->params_memory, plain->params_memory);
    const double moments = difference(tensor, ours->v_memory, plain->v_memory);
    if (with_muon && gpt2_is_hidden_matrix(tensor)) {
      size_t touched = 0, i;
      for (i = 0; i < (size_t)tensor->layers * gpt2_slice_floats(tensor); ++i)
        touched += ours->v_memory[tensor->offset + i] != 0.0f;
      printf("%-9s muon   moved %.1e away from AdamW\n", tensor->name, params);
      wrong += !(params > kTolerance && params < 1) || touched > 0;
    } else {
      printf("%-9s adamw  differs by %.1e, its second moment by %.1e\n", tensor->name, params, moments);
      wrong += !(params <= kTolerance && moments <= kTolerance);
    }
  }
  return wrong;
}

int main(int argc, char** argv) {
  const Gpt2Config config = {128, 32, 3, 48};
  const int with_muon = argc == 2 && strcmp(argv[1], "--muon") == 0;
  Gpt2Tensor tensors[kTensors];
  const size_t count = gpt2_tensors(&config, tensors);
  Buffers ours = make_buffers(count), plain = make_buffers(count);
  stepfuse_context* context = NULL;
  stepfuse_optimizer* optimizer;
  stepfuse_summary summary = stepfuse_summary_init();
  int step, wrong;

  if (argc > 1 && !with_muon) {
    fprintf(stderr, "usage: %s [--muon]\n", argv[0]);
    return 2;
  }
  CHECK(stepfuse_context_create(NULL, &context));
  optimizer = make_optimizer(context, tensors, with_muon, &ours);
  for (step = 1; step <= kSteps; ++step) {
    backward(&ours, step);
    CHECK(stepfuse_optimizer_step(optimizer, NULL));
    backward(&plain, step);
    plain_adamw(&plain, step);
  }
  CHECK(stepfuse_optimizer_summary(optimizer, &summary));
  wrong = compare(tensors, with_muon, &ours, &plain);
  printf("%d floats, %d launches a step, %d bytes of workspace\n", (int)count, (int)summary.launches,
         (int)summary.workspace_bytes);
  CHECK(stepfuse_optimizer_destroy(optimizer));
  CHECK(stepfuse_context_destroy(context));
  free_buffers(&ours);
  free_buffers(&plain);
  if (wrong > 0) fprintf(stderr, "%d tensors are not what they should be\n", wrong);
  return wrong > 0 ? 1 : 0;
}
