// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// A small network trained twice from the same start, by torch::optim::AdamW and by Stepfuse through the adapter: the
// parameters must agree.
#include "stepfuse_torch.hpp"

#include <cstdio>

namespace {

constexpr int kSteps = 50;
constexpr double kTolerance = 2e-6;  // of 1 + |value|: both sides round to f32, torch's loops may contract

torch::nn::Sequential make_network() {
  torch::manual_seed(1);
  return torch::nn::Sequential(torch::nn::Linear(8, 32), torch::nn::Tanh(), torch::nn::Linear(32, 1));
}

at::Tensor loss_of(torch::nn::Sequential& network, const at::Tensor& x) {
  return torch::mse_loss(network->forward(x), x.sum(1, true).sin());
}

double largest_difference(torch::nn::Sequential& a, torch::nn::Sequential& b) {
  double worst = 0;
  const auto theirs = b->named_parameters();
  for (const auto& item : a->named_parameters()) {
    const at::Tensor& other = theirs[item.key()];
    worst = std::max(worst, ((item.value() - other).abs() / (1 + other.abs())).max().item<double>());
  }
  return worst;
}

int run() {
  torch::nn::Sequential ours = make_network(), theirs = make_network();
  const at::Tensor x = torch::randn({64, 8});

  stepfuse::Optimizer optimizer;
  const stepfuse::GroupId adamw = optimizer.add_group("adamw", {{"lr", "0.01"}, {"weight_decay", "0.1"}});
  stepfuse_torch::ModuleOptimizer steps(std::move(optimizer));
  steps.add(*ours, [&](const std::string&, const at::Tensor&) { return adamw; });
  steps.prepare();
  torch::optim::AdamW reference(theirs->parameters(), torch::optim::AdamWOptions(0.01).weight_decay(0.1));

  double first = 0, last = 0;
  for (int step = 0; step < kSteps; ++step) {
    steps.zero_grad();
    const at::Tensor loss = loss_of(ours, x);
    loss.backward();
    steps.step();
    reference.zero_grad();
    loss_of(theirs, x).backward();
    reference.step();
    last = loss.item<double>();
    if (step == 0) first = last;
  }
  const double difference = largest_difference(ours, theirs);
  std::printf("loss %.4f -> %.4f, parameters differ from torch's by %.1e\n", first, last, difference);
  return last < first && difference <= kTolerance ? 0 : 1;
}

}  // namespace

int main() {
  try {
    return run();
  } catch (const stepfuse::Error& error) {
    std::fprintf(stderr, "error: %s\n  hint: %s\n", error.what(), error.hint().c_str());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
  }
  return 1;
}
