// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "ir/optimizers/coefficients.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include <fmt/ranges.h>

namespace stepfuse::ir {

namespace {

constexpr std::string_view kEmerging = "emerging-optimizers 0.3.0, muon_utils.py";
constexpr Coefficients kSimple{3.4445, -4.7750, 2.0315};

std::vector<Coefficients> deepseek() {
  std::vector<Coefficients> triples(8, kSimple);
  triples.insert(triples.end(), 2, {2, -1.5, 0.5});
  return triples;
}

std::vector<CoefficientSet> all_sets() {
  return {
      {"simple", {kSimple}, true, 0, "Jordan et al. 2024; torch.optim.Muon 2.15.0"},
      {"quintic",
       {{4.0848, -6.8946, 2.9270},
        {3.9505, -6.3029, 2.6377},
        {3.7418, -5.5913, 2.3037},
        {2.8769, -3.1427, 1.2046},
        {2.8366, -3.0525, 1.2012}},
       true,
       0,
       kEmerging},
      {"polar_express",
       {{8.2051, -22.9019, 16.4607},
        {4.0664, -2.8612, 0.5184},
        {3.9096, -2.8234, 0.5250},
        {3.2856, -2.4153, 0.4853},
        {2.2779, -1.6198, 0.3985},
        {1.8726, -1.2307, 0.3585},
        {1.8564, -1.2132, 0.3568},
        {1.8750, -1.2500, 0.3750}},
       false,
       0,
       kEmerging},
      {"cans",
       {{8.4703, -25.1081, 18.6293},
        {4.1828, -3.1087, 0.5806},
        {3.9619, -2.9541, 0.5630},
        {3.2866, -2.4647, 0.5074},
        {2.2737, -1.6447, 0.4162}},
       false,
       0,
       kEmerging},
      {"aol",
       {{4.0098, -7.0585, 2.4635}, {3.4585, -5.5479, 2.5959}, {2.7573, -3.2939, 1.4254}, {2.7215, -3.0494, 1.3169}},
       true,
       0,
       kEmerging},
      {"deepseekv4", deepseek(), false, 0, kEmerging},
      {"cubic5",
       {{3.3656576, -3.3420992, 0},
        {2.5744352, -1.4957376, 0},
        {2.5368962, -1.4312570, 0},
        {2.4418906, -1.2764040, 0},
        {2.2230472, -0.9630650, 0}},
       true,
       5,
       "emerging-optimizers 0.4.0, muon_utils.py"},
      {"polar_express_dion",
       {{8.156554524902461, -22.48329292557795, 15.878769915207462},
        {4.042929935166739, -2.808917465908714, 0.5000178451051316},
        {3.8916678022926607, -2.772484153217685, 0.5060648178503393},
        {3.285753657755655, -2.3681294933425376, 0.46449024233003106},
        {2.3465413258596377, -1.7097828382687081, 0.42323551169305323}},
       false,
       5,
       "dion 2026-08, a safety factor of 1.02 in all but the last"},
      {"polar_express_gns",
       with_safety({{8.28721201814563, -23.595886519098837, 17.300387312530933},
                    {4.107059111542203, -2.9478499167379106, 0.5448431082926601},
                    {3.9486908534822946, -2.908902115962949, 0.5518191394370137},
                    {3.3184196573706015, -2.488488024314874, 0.51004894012372},
                    {2.300652019954817, -1.6689039845747493, 0.4188073119525673}},
                   1.05),
       false, 5, "gram-newton-schulz 0.1.6, with its safety factor of 1.05"},
  };
}

// Responses are looked at where the singular values of Gaussian matrices of norm 1 lie.
constexpr double kLowest = 0.05, kHighest = 0.7;
constexpr int kSamples = 131;
constexpr double kCollapse = 0.5;
constexpr size_t kMostSteps = 20;  // for safe counts in messages

/// The smallest response after 0, 1, ... steps.
std::vector<double> smallest_responses(const std::vector<Coefficients>& triples) {
  std::vector<double> smallest(triples.size() + 1, std::numeric_limits<double>::infinity());
  for (int i = 0; i < kSamples; ++i) {
    double s = kLowest + (kHighest - kLowest) * i / (kSamples - 1);
    smallest[0] = std::min(smallest[0], s);
    for (size_t t = 0; t < triples.size(); ++t) {
      const Coefficients& p = triples[t];
      s *= p.a + s * s * (p.b + p.c * s * s);
      smallest[t + 1] = std::min(smallest[t + 1], s);
    }
  }
  return smallest;
}

bool responds(const CoefficientSet& set, size_t steps) {
  if (set.steps != 0 && set.steps != steps) return false;
  const std::vector<double> smallest = smallest_responses(triples_of(set, steps));
  return smallest.back() > kCollapse * *std::max_element(smallest.begin(), smallest.end());
}

std::vector<size_t> safe_counts(const CoefficientSet& set) {
  std::vector<size_t> safe;
  for (size_t steps = 1; steps <= kMostSteps; ++steps)
    if (responds(set, steps)) safe.push_back(steps);
  return safe;
}

}  // namespace

std::span<const CoefficientSet> coefficient_sets() {
  static const std::vector<CoefficientSet> kSets = all_sets();
  return kSets;
}

const CoefficientSet& coefficient_set(std::string_view name) {
  const auto sets = coefficient_sets();
  const auto it = std::find_if(sets.begin(), sets.end(), [&](const CoefficientSet& set) { return set.name == name; });
  STEPFUSE_CHECK(it != sets.end(), "there is no coefficient set '{}'", name);
  return *it;
}

std::vector<Coefficients> triples_of(const CoefficientSet& set, size_t steps) {
  std::vector<Coefficients> triples;
  for (size_t i = 0; i < steps; ++i)
    triples.push_back(set.cycles ? set.triples[i % set.triples.size()]
                                 : set.triples[std::min(i, set.triples.size() - 1)]);
  return triples;
}

std::vector<Coefficients> with_safety(std::vector<Coefficients> triples, double factor) {
  for (Coefficients& p : triples) p = {p.a / factor, p.b / std::pow(factor, 3), p.c / std::pow(factor, 5)};
  return triples;
}

Outcome check_response(std::string_view subject, const CoefficientSet& set, size_t steps) {
  if (responds(set, steps)) return {};
  const std::string hint = fmt::format("{} works with {} steps", set.name, fmt::join(safe_counts(set), ", "));
  if (set.steps != 0 && set.steps != steps)
    return with_hint(
        fail(StatusCode::InvalidArgument, "{}: {} is made for {} steps, not {}", subject, set.name, set.steps, steps),
        hint);
  const double smallest = smallest_responses(triples_of(set, steps)).back();
  const std::string_view what = smallest < 0 ? "turn the update round" : "make the update collapse";
  return with_hint(fail(StatusCode::InvalidArgument,
                        "{}: {} steps of {} {}: singular values between {} and {} come out as low as {:.3f}", subject,
                        steps, set.name, what, kLowest, kHighest, smallest),
                   hint + "; unsafe_ns_steps=true takes them all the same");
}

}  // namespace stepfuse::ir
