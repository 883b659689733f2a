/* SPDX-FileCopyrightText: The Stepfuse authors
 * SPDX-License-Identifier: Apache-2.0
 *
 * The parameters of a GPT-2 as llm.c holds them: 16 tensors back to back in one buffer of floats, those of the blocks
 * with all layers of a kind one after the other, such as qkvw (L, 3C, C). */
#ifndef STEPFUSE_EXAMPLES_LLMC_STYLE_GPT2_H_
#define STEPFUSE_EXAMPLES_LLMC_STYLE_GPT2_H_

#include <stddef.h>
#include <stdint.h>

enum { kTensors = 16, kMaxName = 32 };

typedef struct {
  int64_t vocabulary, positions, layers, channels;
} Gpt2Config;

/* One of the 16 tensors. */
typedef struct {
  const char* name;
  int64_t layers;        /* slices along the first dimension; 1 for the tensors outside of the blocks */
  int64_t rows, columns; /* of a slice; columns 0: a vector of `rows` */
  size_t offset;         /* of the first slice, in floats from the start of the buffer */
} Gpt2Tensor;

size_t gpt2_slice_floats(const Gpt2Tensor* tensor);
/* Fills the table; gives the number of floats in the buffer. */
size_t gpt2_tensors(const Gpt2Config* config, Gpt2Tensor tensors[kTensors]);
/* "h.3.qkvw" for a slice of a block, "wte" for the others. */
void gpt2_slice_name(const Gpt2Tensor* tensor, int64_t layer, char name[kMaxName]);
/* The hidden matrices: what Muon is for. Embeddings are matrices too, but not hidden ones. */
int gpt2_is_hidden_matrix(const Gpt2Tensor* tensor);

#endif /* STEPFUSE_EXAMPLES_LLMC_STYLE_GPT2_H_ */
