// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "data_parallel.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <thread>

// OpenBLAS's own threads would compete with ours. Declared weak, because other libraries do not have this function;
// the reference BLAS has no threads at all.
extern "C" void openblas_set_num_threads(int threads) __attribute__((weak));

namespace charlm {
namespace {

int worker_count(int batch, int threads) {
  const int wanted = threads > 0 ? threads : static_cast<int>(std::thread::hardware_concurrency());
  return std::clamp(wanted, 1, batch);
}

}  // namespace

void run_workers(int workers, const std::function<void(int)>& work) {
  std::vector<std::thread> threads;
  for (int worker = 1; worker < workers; ++worker) threads.emplace_back(work, worker);
  work(0);
  for (std::thread& thread : threads) thread.join();
}

DataParallel::DataParallel(const Model& model, int batch, int threads) : model_(model), batch_(batch) {
  if (openblas_set_num_threads != nullptr) openblas_set_num_threads(1);
  const int count = worker_count(batch, threads);
  losses_.resize(static_cast<std::size_t>(count));
  for (int worker = 0; worker < count; ++worker) {
    workspaces_.emplace_back(model.shape(), (batch + count - 1) / count);
    gradients_.emplace_back(model.values().size());
  }
}

DataParallel::Share DataParallel::share(int worker) const {
  const int first = batch_ * worker / workers();
  return {first, batch_ * (worker + 1) / workers() - first};
}

double DataParallel::loss_and_gradients(const Batch& batch) {
  const std::ptrdiff_t context = model_.shape().context;
  const float scale = 1.0F / static_cast<float>(batch_ * context);
  run_workers(workers(), [&](int worker) {
    const auto index = static_cast<std::size_t>(worker);
    FloatBuffer& gradients = gradients_[index];
    std::fill(gradients.data(), gradients.data() + gradients.size(), 0.0F);
    const Share mine = share(worker);
    const std::ptrdiff_t offset = mine.first * context;
    const Batch part{batch.inputs + offset, batch.targets + offset, mine.count};
    losses_[index] = model_.forward(part, workspaces_[index]);
    model_.backward(part, scale, workspaces_[index], gradients.data());
  });
  sum_gradients();
  return std::accumulate(losses_.begin(), losses_.end(), 0.0) / static_cast<double>(batch_ * context);
}

void DataParallel::sum_gradients() {
  const std::size_t size = gradients_.front().size();
  const auto count = static_cast<std::size_t>(workers());
  run_workers(workers(), [&](int worker) {
    const std::size_t begin = size * static_cast<std::size_t>(worker) / count;
    const std::size_t end = size * (static_cast<std::size_t>(worker) + 1) / count;
    float* sum = gradients_.front().data();
    for (std::size_t other = 1; other < count; ++other) {
      const float* part = gradients_[other].data();
      for (std::size_t i = begin; i < end; ++i) sum[i] += part[i];
    }
  });
}

double DataParallel::held_out_loss(const Corpus& corpus) {
  const auto context = static_cast<std::size_t>(model_.shape().context);
  const std::size_t predicted = predicted_characters(corpus, model_.shape().context);
  const std::size_t windows = predicted / context;
  const auto count = static_cast<std::size_t>(workers());
  run_workers(workers(), [&](int worker) {
    const auto index = static_cast<std::size_t>(worker);
    const auto at_once = static_cast<std::size_t>(share(worker).count);
    const std::size_t end = windows * (index + 1) / count;
    double loss = 0.0;
    for (std::size_t window = windows * index / count; window < end; window += at_once) {
      const Token* inputs = corpus.held_out.data() + window * context;
      const int sequences = static_cast<int>(std::min(at_once, end - window));
      loss += model_.forward({inputs, inputs + 1, sequences}, workspaces_[index]);
    }
    losses_[index] = loss;
  });
  return std::accumulate(losses_.begin(), losses_.end(), 0.0) / static_cast<double>(predicted);
}

}  // namespace charlm
