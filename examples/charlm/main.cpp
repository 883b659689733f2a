// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
// Trains a character language model twice with Stepfuse, fused and unfused, and prints both side by side.

#include "failure.h"
#include "gradient_check.h"
#include "hyperparameters.h"
#include "options.h"
#include "report.h"
#include "text.h"
#include "trainer.h"

#include <cstddef>
#include <cstdio>
#include <exception>
#include <string>

#include <stepfuse/stepfuse.hpp>

namespace charlm {
namespace {

Corpus load_corpus(const Options& options) {
  if (options.text.empty()) return make_corpus("licence texts of Debian", read_licence_texts(), options.context);
  return make_corpus(options.text, read_text_file(options.text), options.context);
}

/// Trains once more without fusion; returns whether the two trainings are as equal as the numerics mode promises.
bool compare_with_unfused(const Corpus& corpus, const Options& options, const TrainingResult& fused,
                          std::size_t parameters) {
  const TrainingResult unfused = train(corpus, options, unfused_variant());
  print_table(fused, &unfused, parameters);
  const Agreement agreement = compare(fused, unfused);
  print_agreement(agreement, fused.losses.size(), options.numerics);
  return agreement.identical || options.numerics == stepfuse::Numerics::Default;
}

ExitCode train_and_compare(const Options& options) {
  const Corpus corpus = load_corpus(options);
  const double bigram = bigram_loss(corpus, options.context);
  const std::size_t parameters = print_setup(corpus, options.context, bigram);
  const TrainingResult fused = train(corpus, options, fused_variant());
  bool agrees = true;
  if (options.compare) {
    agrees = compare_with_unfused(corpus, options, fused, parameters);
  } else {
    print_table(fused, nullptr, parameters);
  }
  const bool below = print_verdict(fused.held_out_loss, bigram);
  if (!agrees) {
    throw Failure(ExitCode::CheckFailed, "strict numerics promise identical trainings, and these two differ",
                  "this is a fault of Stepfuse; please report it with the output above");
  }
  if (options.require_below_bigram && !below) {
    throw Failure(ExitCode::CheckFailed, "the held-out loss is not below the bigram baseline",
                  "train longer with --steps, or on a longer text");
  }
  return ExitCode::Success;
}

ExitCode run(int argc, const char* const* argv) {
  const Options options = parse_options(argc, argv);
  if (options.help) {
    std::fputs(help_text().c_str(), stdout);
    return ExitCode::Success;
  }
  if (options.check_gradients) return check_gradients() ? ExitCode::Success : ExitCode::CheckFailed;
  return train_and_compare(options);
}

ExitCode exit_code(stepfuse::ErrorCode code) {
  switch (code) {
    case stepfuse::ErrorCode::InvalidArgument:
    case stepfuse::ErrorCode::Unsupported:
      return ExitCode::Usage;
    case stepfuse::ErrorCode::NotFound:
    case stepfuse::ErrorCode::Environment:
    case stepfuse::ErrorCode::OutOfMemory:
    case stepfuse::ErrorCode::Io:
      return ExitCode::Missing;
    case stepfuse::ErrorCode::InvalidData:
    case stepfuse::ErrorCode::Failed:
    case stepfuse::ErrorCode::Busy:
    case stepfuse::ErrorCode::Internal:
      break;
  }
  return ExitCode::CheckFailed;
}

ExitCode report_error(const char* message, const std::string& hint, ExitCode code) {
  std::fflush(stdout);
  std::fprintf(stderr, "charlm: error: %s\n", message);
  if (!hint.empty()) std::fprintf(stderr, "  hint: %s\n", hint.c_str());
  return code;
}

ExitCode run_guarded(int argc, const char* const* argv) {
  try {
    return run(argc, argv);
  } catch (const Failure& failure) {
    return report_error(failure.what(), failure.hint(), failure.code());
  } catch (const stepfuse::Error& error) {
    return report_error(error.what(), error.hint(), exit_code(error.code()));
  } catch (const std::exception& error) {
    return report_error(error.what(), "try a smaller --batch or --context, or fewer --threads", ExitCode::Missing);
  }
}

}  // namespace
}  // namespace charlm

int main(int argc, char** argv) { return static_cast<int>(charlm::run_guarded(argc, argv)); }
