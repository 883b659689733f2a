// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// How far the two forms of a Newton-Schulz iteration are from the same iteration in f64, in bf16, f16 and f32: on
// Gaussian matrices of several ratios and on matrices of rank 16 with 1 % of noise. Both run on the interpreter, which
// rounds as a device with matrix units does: products in f32, each result once to the type of the iteration.
#include "bench/report.h"
#include "compiler/pass.h"
#include "ir/parse.h"
#include "tests/support/newton_schulz_rule.h"

#include <array>
#include <cstdio>
#include <cstdlib>

using namespace stepfuse;

namespace {

struct Set {
  const char* name;
  tests::Coefficients steps;
};

ir::Graph parsed(const std::string& text) {
  auto graph = ir::parse(text);
  if (graph) return std::move(*graph);
  std::fprintf(stderr, "%s\n", graph.error().message.c_str());
  std::exit(1);
}

/// The rule after one pass, which absorbs sums into products or changes the form.
ir::Graph after(const ir::Graph& rule, std::string_view pass) {
  ir::Graph graph = rule;
  compiler::PassContext context;
  context.ns_form = compiler::NsForm::Gram;
  if (const auto found = compiler::find_pass(pass)) (*found)->run(graph, context);
  return graph;
}

struct Matrices {
  int64_t n, m;
  bool low_rank = false;

  ir::Bindings draw(uint64_t seed) const {
    return low_rank ? tests::low_rank_gradient(n, m, 16, 0.01, seed) : tests::gaussian_gradient(n, m, seed);
  }
};

/// Errors of both forms in one type, by seed.
struct Errors {
  ir::Graph standard, gram;
  std::vector<double> of_standard = {}, of_gram = {};
};

void measure(bench::Report& report, const Set& set, const Matrices& matrices, int rounds) {
  constexpr std::array kTypes{ir::DType::BF16, ir::DType::F16, ir::DType::F32};
  const auto [n, m, low_rank] = matrices;
  std::vector<Errors> errors;
  for (const ir::DType dtype : kTypes) {
    const ir::Graph rule = parsed(tests::newton_schulz_rule(set.steps, n, m, dtype));
    errors.push_back({after(rule, "absorb_scale"), after(rule, "choose_ns_form")});
  }
  const ir::Graph rule = parsed(tests::newton_schulz_rule(set.steps, n, m, ir::DType::F32));
  for (int seed = 0; seed < rounds; ++seed) {
    const ir::Bindings bindings = matrices.draw(static_cast<uint64_t>(seed));
    const std::vector<double> exact = tests::new_parameter(rule, bindings, ir::Evaluation::Exact);
    const auto error = [&](const ir::Graph& form) {
      return 100 * tests::relative_distance(tests::new_parameter(form, bindings, ir::Evaluation::Typed), exact);
    };
    for (Errors& of_type : errors) {
      of_type.of_standard.push_back(error(of_type.standard));
      of_type.of_gram.push_back(error(of_type.gram));
    }
  }
  for (size_t t = 0; t < errors.size(); ++t) {
    const std::string what =
        fmt::format("{}{} {} x {} {} ", low_rank ? "low rank, " : "", set.name, n, m, ir::dtype_name(kTypes[t]));
    report.add(what + "standard", bench::spread_of(errors[t].of_standard), "%");
    report.add(what + "gram", bench::spread_of(errors[t].of_gram), "%");
  }
}

}  // namespace

int main(int argc, char** argv) {
  const bench::Options options = bench::parse_options(argc, argv, 3);
  bench::Report report("gram_accuracy", options);
  const std::array sets{Set{"simple", tests::simple_coefficients(5)}, Set{"quintic", tests::quintic_coefficients()},
                        Set{"polar_express", tests::polar_express_coefficients()}};
  for (const Set& set : sets) {
    for (const int64_t n : {64, 128, 256})
      for (const int64_t quarters : {4, 5, 6, 8, 16}) measure(report, set, {n, n * quarters / 4}, options.rounds);
    for (const int64_t m : {128, 192, 256, 512}) measure(report, set, {128, m, true}, options.rounds);
  }
  return report.finish();
}
