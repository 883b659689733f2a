/* SPDX-FileCopyrightText: The Stepfuse authors
 * SPDX-License-Identifier: Apache-2.0 */
#include "gpt2.h"

#include <stdio.h>

size_t gpt2_slice_floats(const Gpt2Tensor* tensor) {
  return (size_t)tensor->rows * (size_t)(tensor->columns == 0 ? 1 : tensor->columns);
}

size_t gpt2_tensors(const Gpt2Config* config, Gpt2Tensor tensors[kTensors]) {
  const int64_t v = config->vocabulary, t = config->positions, l = config->layers, c = config->channels;
  const Gpt2Tensor table[kTensors] = {
      {"wte", 1, v, c, 0},         {"wpe", 1, t, c, 0},      {"ln1w", l, c, 0, 0},     {"ln1b", l, c, 0, 0},
      {"qkvw", l, 3 * c, c, 0},    {"qkvb", l, 3 * c, 0, 0}, {"attprojw", l, c, c, 0}, {"attprojb", l, c, 0, 0},
      {"ln2w", l, c, 0, 0},        {"ln2b", l, c, 0, 0},     {"fcw", l, 4 * c, c, 0},  {"fcb", l, 4 * c, 0, 0},
      {"fcprojw", l, c, 4 * c, 0}, {"fcprojb", l, c, 0, 0},  {"lnfw", 1, c, 0, 0},     {"lnfb", 1, c, 0, 0}};
  size_t offset = 0;
  int i;
  for (i = 0; i < kTensors; ++i) {
    tensors[i] = table[i];
    tensors[i].offset = offset;
    offset += (size_t)table[i].layers * gpt2_slice_floats(&table[i]);
  }
  return offset;
}

void gpt2_slice_name(const Gpt2Tensor* tensor, int64_t layer, char name[kMaxName]) {
  if (tensor->layers == 1)
    snprintf(name, kMaxName, "%s", tensor->name);
  else
    snprintf(name, kMaxName, "h.%d.%s", (int)layer, tensor->name);
}

int gpt2_is_hidden_matrix(const Gpt2Tensor* tensor) { return tensor->layers > 1 && tensor->columns > 0; }
