// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "report.h"

#include "hyperparameters.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <utility>

#include <unistd.h>

namespace charlm {
namespace {

constexpr int kLines = 10;  // per training, when standard output is not a terminal
constexpr std::chrono::milliseconds kRedrawInterval{100};

double per_step_ms(double seconds, const TrainingResult& result) {
  return 1000.0 * seconds / static_cast<double>(result.losses.size());
}

/// Prints one row; the second column only if there is a second training.
template <typename Cell>
void print_row(const char* label, const char* format, const TrainingResult& a, const TrainingResult* b, Cell&& cell) {
  std::printf("  %-34s", label);
  std::printf(format, cell(a));
  if (b != nullptr) std::printf(format, cell(*b));
  std::printf("\n");
}

}  // namespace

Progress::Progress(std::string name, int steps)
    : name_(std::move(name)), steps_(steps), terminal_(isatty(STDOUT_FILENO) != 0) {}

bool Progress::due(int step) {
  if (step == steps_) return true;
  if (!terminal_) return step == 1 || step % std::max(1, steps_ / kLines) == 0;
  const auto now = std::chrono::steady_clock::now();
  if (now - last_drawn_ < kRedrawInterval) return false;
  last_drawn_ = now;
  return true;
}

void Progress::update(const ProgressState& state) {
  if (!due(state.step)) return;
  drawn_ = true;
  std::printf("%s%-8s step %4d/%d  loss %.4f  %6.0f tokens/s  optimizer %2.0f %%%s", terminal_ ? "\r" : "",
              name_.c_str(), state.step, steps_, state.loss, state.characters_per_second, 100.0 * state.optimizer_share,
              terminal_ ? "\033[K" : "\n");
  std::fflush(stdout);
}

Progress::~Progress() {
  if (!terminal_ || !drawn_) return;
  std::printf("\n");
  std::fflush(stdout);
}

std::size_t print_setup(const Corpus& corpus, int context, double bigram) {
  const Model model(model_shape(corpus.vocabulary, context), 0);
  const auto& parameters = model.parameters();
  const auto matrices = std::count_if(parameters.begin(), parameters.end(),
                                      [](const Parameter& p) { return p.role == Role::HiddenMatrix; });
  const ModelShape& shape = model.shape();
  std::printf("text     %s: %zu characters to train on, %zu held out, %d different\n", corpus.source.c_str(),
              corpus.training.size(), corpus.held_out.size(), corpus.vocabulary);
  std::printf("model    %d layers, width %d, %d heads, context %d: %zu parameters\n", shape.layers, shape.width,
              shape.heads, shape.context, model.count());
  std::printf("         Muon: %td matrices, %zu parameters; AdamW: %td tensors, %zu parameters\n", matrices,
              model.count(Role::HiddenMatrix), static_cast<std::ptrdiff_t>(parameters.size()) - matrices,
              model.count(Role::Other));
  std::printf("baseline bigram counts: %.4f nats per character on the held-out part\n", bigram);
  std::fflush(stdout);
  return model.count();
}

void print_table(const TrainingResult& fused, const TrainingResult* unfused, std::size_t parameters) {
  std::printf("\n  %-34s%12s%s\n", "", "fused", unfused != nullptr ? "     unfused" : "");
  const auto row = [&](const char* label, const char* format, auto&& cell) {
    print_row(label, format, fused, unfused, cell);
  };
  using Result = const TrainingResult&;
  row("held-out loss, nats per character", "%12.4f", [](Result r) { return r.held_out_loss; });
  row("step, ms", "%12.2f", [](Result r) { return per_step_ms(r.seconds, r); });
  row("of that, optimizer, ms", "%12.2f", [](Result r) { return per_step_ms(r.optimizer_seconds, r); });
  row("launches per step", "%12.0f", [](Result r) { return static_cast<double>(r.summary.launches); });
  row("  elementwise kernels", "%12.0f", [](Result r) { return static_cast<double>(r.summary.elementwise_launches); });
  row("  matrix products", "%12.0f", [](Result r) { return static_cast<double>(r.summary.gemms); });
  row("  copies and diagonals", "%12.0f", [](Result r) { return static_cast<double>(r.summary.aux_launches); });
  row("elementwise bytes per parameter", "%12.1f", [](Result r) { return r.summary.bytes_per_param; });
  row("elementwise MB per step", "%12.1f",
      [&](Result r) { return r.summary.bytes_per_param * static_cast<double>(parameters) / 1e6; });
  row("kernels compiled", "%12.0f", [](Result r) { return static_cast<double>(r.summary.compiled_kernels); });
  row("compile and load, ms", "%12.0f", [](Result r) { return 1000.0 * r.summary.compile_seconds; });
  std::printf("\n");
}

Agreement compare(const TrainingResult& a, const TrainingResult& b) {
  Agreement agreement{true, 0, 0.0};
  for (std::size_t i = 0; i < a.losses.size(); ++i) {
    const double difference = std::abs(a.losses[i] - b.losses[i]);
    agreement.largest_difference = std::max(agreement.largest_difference, difference);
    if (difference > 0.0 && agreement.first_step == 0) agreement.first_step = i + 1;
  }
  // Values are compared as bits: zeros of different sign are different.
  const bool same_values = std::memcmp(a.values.data(), b.values.data(), a.values.size() * sizeof(float)) == 0;
  agreement.identical = agreement.first_step == 0 && same_values;
  return agreement;
}

void print_agreement(const Agreement& agreement, std::size_t steps, stepfuse::Numerics numerics) {
  if (agreement.identical) {
    std::printf("identical losses: yes (%zu steps), and identical parameters at the end\n", steps);
  } else if (numerics == stepfuse::Numerics::Default) {
    std::printf("identical losses: no, by at most %.2e (default numerics may round differently)\n",
                agreement.largest_difference);
  } else if (agreement.first_step == 0) {
    std::printf("identical losses: yes (%zu steps), but the parameters at the end differ\n", steps);
  } else {
    std::printf("identical losses: no, from step %zu on, by at most %.2e\n", agreement.first_step,
                agreement.largest_difference);
  }
}

bool print_verdict(double held_out_loss, double bigram) {
  const bool below = held_out_loss < bigram;
  std::printf("held-out loss %.4f is %s the bigram baseline %.4f\n", held_out_loss, below ? "below" : "not below",
              bigram);
  return below;
}

}  // namespace charlm
