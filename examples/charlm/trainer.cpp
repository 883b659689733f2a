// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "trainer.h"

#include "data_parallel.h"
#include "device.h"
#include "failure.h"
#include "hyperparameters.h"
#include "model.h"
#include "report.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <memory>
#include <random>

namespace charlm {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// The share of the full learning rate at a step: a short rise, then a straight fall.
double schedule(int step, int steps) {
  const double rise = std::max(1.0, kWarmupShare * steps);
  const double fall = 1.0 - (1.0 - kFinalShare) * step / steps;
  return std::min((step + 1) / rise, fall);
}

/// Draws windows of the training part; the same seed draws the same windows in the same order.
class WindowSampler {
 public:
  WindowSampler(const Corpus& corpus, const Options& options)
      : training_(corpus.training),
        context_(static_cast<std::size_t>(options.context)),
        batch_(options.batch),
        random_(options.seed + 1),
        start_(0, training_.size() - context_ - 1) {}

  Batch next() {
    inputs_.clear();
    targets_.clear();
    for (int i = 0; i < batch_; ++i) {
      const auto first = training_.begin() + static_cast<std::ptrdiff_t>(start_(random_));
      const auto last = first + static_cast<std::ptrdiff_t>(context_);
      inputs_.insert(inputs_.end(), first, last);
      targets_.insert(targets_.end(), first + 1, last + 1);
    }
    return {inputs_.data(), targets_.data(), batch_};
  }

 private:
  const std::vector<Token>& training_;
  std::size_t context_;
  int batch_;
  std::mt19937_64 random_;
  std::uniform_int_distribution<std::size_t> start_;
  std::vector<Token> inputs_;
  std::vector<Token> targets_;
};

/// The model's parameters in the hands of Stepfuse: hidden matrices in a Muon group, the rest in an AdamW group.
class ModelOptimizer {
 public:
  ModelOptimizer(Model& model, const float* gradients, const Options& options, const Variant& variant)
      : model_(model),
        gradients_(gradients),
        device_(options.target == "cuda" ? std::make_unique<DeviceCopy>(model.values().size()) : nullptr),
        optimizer_(settings(options, variant)),
        muon_(optimizer_.add_group("muon", muon_options())),
        adamw_(optimizer_.add_group("adamw", adamw_options())) {
    std::vector<stepfuse::ParameterId> ids;
    for (const Parameter& p : model.parameters()) {
      ids.push_back(optimizer_.add_parameter(p.role == Role::HiddenMatrix ? muon_ : adamw_, p.name, p.shape));
    }
    optimizer_.prepare();
    if (device_ != nullptr) device_->upload_values(model.values().data());
    float* values = device_ != nullptr ? device_->values() : model.values().data();
    const float* where = device_ != nullptr ? device_->gradients() : gradients;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const std::size_t offset = model.parameters()[i].offset;
      optimizer_.bind(ids[i], values + offset, where + offset);
    }
  }

  void step(double share) {
    optimizer_.set(muon_, "lr", kMuonLearningRate * share);
    optimizer_.set(adamw_, "lr", kAdamWLearningRate * share);
    if (device_ == nullptr) {
      optimizer_.step();
      return;
    }
    device_->upload_gradients(gradients_);
    optimizer_.step(device_->stream());
    device_->download_values(model_.values().data());
  }

  stepfuse::PlanSummary summary() const { return optimizer_.summary(); }

 private:
  static stepfuse::Settings settings(const Options& options, const Variant& variant) {
    stepfuse::Settings settings;
    settings.numerics = options.numerics;
    if (!options.target.empty()) settings.target = options.target;
    settings.threads = options.threads;
    settings.disabled_passes = variant.disabled_passes;
    return settings;
  }

  Model& model_;
  const float* gradients_;
  std::unique_ptr<DeviceCopy> device_;  // of target cuda; outlives the optimizer, whose tensors lie there
  stepfuse::Optimizer optimizer_;
  stepfuse::GroupId muon_;
  stepfuse::GroupId adamw_;
};

void refuse_divergence(double loss, int step) {
  if (std::isfinite(loss)) return;
  throw Failure(ExitCode::CheckFailed, "the loss of step " + std::to_string(step + 1) + " is not a finite number",
                "the training diverged; try another --seed or a larger --batch");
}

}  // namespace

Variant fused_variant() { return {"fused", {}}; }

Variant unfused_variant() { return {"unfused", {std::begin(kFusingPasses), std::end(kFusingPasses)}}; }

TrainingResult train(const Corpus& corpus, const Options& options, const Variant& variant) {
  Model model(model_shape(corpus.vocabulary, options.context), options.seed);
  DataParallel parallel(model, options.batch, options.threads);
  ModelOptimizer optimizer(model, parallel.gradients(), options, variant);
  WindowSampler sampler(corpus, options);
  Progress progress(variant.name, options.steps);
  TrainingResult result;
  for (int step = 0; step < options.steps; ++step) {
    const Clock::time_point step_start = Clock::now();
    const double loss = parallel.loss_and_gradients(sampler.next());
    refuse_divergence(loss, step);
    const Clock::time_point optimizer_start = Clock::now();
    optimizer.step(schedule(step, options.steps));
    result.optimizer_seconds += seconds_since(optimizer_start);
    result.seconds += seconds_since(step_start);
    result.losses.push_back(loss);
    const double characters = static_cast<double>(options.batch) * options.context * (step + 1);
    progress.update({step + 1, loss, characters / result.seconds, result.optimizer_seconds / result.seconds});
  }
  result.held_out_loss = parallel.held_out_loss(corpus);
  refuse_divergence(result.held_out_loss, options.steps);
  result.values.assign(model.values().data(), model.values().data() + model.values().size());
  result.summary = optimizer.summary();
  return result;
}

}  // namespace charlm
