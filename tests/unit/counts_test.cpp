// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/plan_fixture.h"

namespace stepfuse::compiler {
namespace {

PlanCounts counts_of(const std::vector<PlannedParameter>& parameters, const PlanOptions& options = {}) {
  return count_plan(plan_of(parameters, options), parameters);
}

std::vector<PlannedParameter> muons(int count, int64_t rows, int64_t cols, const ir::OptionList& options = {}) {
  std::vector<PlannedParameter> parameters;
  for (int i = 0; i < count; ++i)
    parameters.push_back(planned_recipe("w" + std::to_string(i), {rows, cols}, "muon", options));
  return parameters;
}

struct MuonCase {
  int64_t rows, cols, iterations;
  int matrices;
};

class MuonCounts : public testing::TestWithParam<MuonCase> {};

TEST_P(MuonCounts, FollowTheFormula) {
  const auto [rows, cols, iterations, matrices] = GetParam();
  const auto parameters = muons(matrices, rows, cols, {{"ns_steps", std::to_string(iterations)}});
  const PlanCounts absorbed = counts_of(parameters);
  EXPECT_EQ(absorbed.fused, newton_schulz_launches(iterations, 1, true));
  EXPECT_EQ(absorbed.naive, newton_schulz_naive(iterations, matrices));
  EXPECT_EQ(absorbed.peer_eager, (LaunchCounts{8 * matrices, 3 * iterations * matrices, 0}));
  EXPECT_EQ(counts_of(parameters, plan_options(ir::Mode::Default, {"absorb_update"})).fused,
            newton_schulz_launches(iterations, 1, false));
}

TEST_P(MuonCounts, FollowTheFormulaUnderAMemoryCap) {
  const auto [rows, cols, iterations, matrices] = GetParam();
  const auto parameters = muons(matrices, rows, cols, {{"ns_steps", std::to_string(iterations)}});
  PlanOptions options;
  options.batch_bytes = 1;
  EXPECT_EQ(counts_of(parameters, options).fused, newton_schulz_launches(iterations, matrices, true));
  options.batch_bytes = 2 * member_bytes(plan_of(parameters).groups[0], 0);
  EXPECT_EQ(counts_of(parameters, options).fused, newton_schulz_launches(iterations, (matrices + 1) / 2, true));
}

INSTANTIATE_TEST_SUITE_P(Shapes, MuonCounts,
                         testing::Values(MuonCase{16, 24, 5, 1}, MuonCase{24, 16, 5, 1}, MuonCase{16, 16, 5, 2},
                                         MuonCase{16, 24, 1, 3}, MuonCase{24, 16, 7, 5}, MuonCase{8, 40, 2, 4}));

TEST(Counts, OneMatrixOfThePeer) {
  const PlanCounts counts = counts_of(muons(1, 768, 3072));
  EXPECT_EQ(counts.peer_eager, (LaunchCounts{8, 15, 0}));
  EXPECT_EQ(counts.peer_eager.total(), 23);
  EXPECT_EQ(counts.naive.total(), 8 + (3 + 5) * 5);
  EXPECT_EQ(counts.fused.gemms, 15);
  EXPECT_LE(counts.fused.elementwise, 2);
}

TEST(Counts, ThePeerLaunchesOneLessWithoutNesterov) {
  EXPECT_EQ(counts_of(muons(1, 8, 12, {{"nesterov", "false"}})).peer_eager, (LaunchCounts{7, 15, 0}));
}

TEST(Counts, NaiveCountsTensorOpsOnly) {
  EXPECT_EQ(count_naive(rule_of(vector_rule("%a = mul %p, (1 - #lr * #wd) : f32\n %b = lerp %m, %g, 0.1 : f32\n"
                                            "%r = axpy (-#lr), %b, %a : f32\n return %r -> %p, %b -> %m\n"))),
            (LaunchCounts{3, 0, 0}));
  EXPECT_EQ(count_naive(rule_of(matrix_rule("f32", 4, 6,
                                            "%t = transpose %g : f32\n %x = matmul %g, %t : f32\n"
                                            "%y = adddiag %x, 1 : f32\n %n = norm %y {all} : f32\n"
                                            "%r = mul %p, %n : f32\n return %r -> %p\n"))),
            (LaunchCounts{2, 1, 1}));
}

TEST(Counts, BytesPerParameter) {
  EXPECT_DOUBLE_EQ(counts_of({planned_recipe("w", {4096}, "adamw")}).bytes_per_param, 28);
  EXPECT_DOUBLE_EQ(counts_of({planned_recipe("w", {4096}, "adamw", {{"amsgrad", "true"}})}).bytes_per_param, 36);
  EXPECT_DOUBLE_EQ(counts_of({planned_recipe("w", {4096}, "sgd")}).bytes_per_param, 12);
  // A swap reads and writes both states through scratch; copies are no kernels, so only the rest is counted.
  EXPECT_DOUBLE_EQ(
      counts_of({planned("w", {64}, vector_rule("%r = sub %p, %g : f32\n return %r -> %p\n"))}).bytes_per_param, 12);
}

TEST(Counts, MuonBytes) {
  const auto bytes = [](std::vector<std::string> disabled, bool bf16_products) {
    PlanOptions options = plan_options(ir::Mode::Default, std::move(disabled));
    options.target.bf16_products = bf16_products;
    return counts_of(muons(1, 768, 3072), options).bytes_per_param;
  };
  // The norm's one element.
  const double rest = 100.0 / (768 * 3072);
  // g and buf read, buf and the bf16 matrix written; p read and written by the last product.
  EXPECT_NEAR(bytes({}, true), 4 + 4 + 4 + 2 + 8, rest);
  // A kernel for the update reads the product again, in bf16.
  EXPECT_NEAR(bytes({"absorb_update"}, true), 22 + 2, rest);
  // Where the iteration runs in f32, its matrices are twice as wide.
  EXPECT_NEAR(bytes({}, false), 4 + 4 + 4 + 4 + 8, rest);
  EXPECT_NEAR(bytes({"absorb_update"}, false), 24 + 4, rest);
}

TEST(Counts, ProductFlops) {
  // T iterations on the short side m of m x n: X X^T, A A and B X.
  const auto expected = [](double m, double n, double t) { return t * (4 * m * m * n + 2 * m * m * m); };
  PlanOptions plain;
  for (const auto& [rows, cols] : {std::pair<int64_t, int64_t>{16, 24}, {24, 16}, {16, 16}}) {
    const double m = static_cast<double>(std::min(rows, cols));
    const double n = static_cast<double>(std::max(rows, cols));
    EXPECT_DOUBLE_EQ(counts_of(muons(1, rows, cols), plain).gemm_flops, expected(m, n, 5)) << rows << "x" << cols;
    EXPECT_DOUBLE_EQ(counts_of(muons(3, rows, cols, {{"ns_steps", "2"}}), plain).gemm_flops, 3 * expected(m, n, 2));
    // One triangle with the diagonal: n + 1 of 2n multiplications of the two symmetric products.
    PlanOptions triangles;
    triangles.target.symmetric_products = true;
    EXPECT_DOUBLE_EQ(counts_of(muons(1, rows, cols), triangles).gemm_flops,
                     5 * (m * (m + 1) * n + m * (m + 1) * m + 2 * m * m * n));
  }
}

TEST(Counts, FlopsOfTheTableInTheReference) {
  // 2T(2r+1) n^3 for the plain form.
  for (const auto& [r, factor] : {std::pair<int64_t, double>{1, 30}, {2, 50}, {4, 90}})
    EXPECT_DOUBLE_EQ(counts_of(muons(1, 8, 8 * r)).gemm_flops, factor * 8 * 8 * 8);
}

TEST(Counts, StrictKeepsEveryProductWhole) {
  const PlanCounts counts = counts_of(muons(1, 16, 24), plan_options(ir::Mode::Strict));
  EXPECT_DOUBLE_EQ(counts.gemm_flops, 5 * (4.0 * 16 * 16 * 24 + 2.0 * 16 * 16 * 16));
  EXPECT_EQ(counts.fused.gemms, 15);
  EXPECT_EQ(counts.fused.elementwise, 1 + 2 * 5);
}

TEST(Counts, ParametersOfManyShapesAreOneLaunch) {
  std::vector<PlannedParameter> parameters;
  for (int i = 1; i <= 20; ++i) parameters.push_back(planned_recipe("w" + std::to_string(i), {i, i + 1}, "adamw"));
  const PlanCounts counts = counts_of(parameters);
  EXPECT_EQ(counts.fused, (LaunchCounts{1, 0, 0}));
  EXPECT_EQ(counts.peer_eager, (LaunchCounts{20 * 9, 0, 0}));
  EXPECT_EQ(counts.parameters, 20 * 21 * 22 / 3);
  EXPECT_DOUBLE_EQ(counts.bytes_per_param, 28);
}

TEST(Counts, MembersWithOtherPeersCountTheirOwn) {
  // Without decay the peer launches one kernel less; the plan is the same.
  const std::vector<PlannedParameter> parameters{planned_recipe("a", {4}, "adamw"),
                                                 planned_recipe("b", {4}, "adamw", {{"weight_decay", "0"}})};
  const StepPlan plan = plan_of(parameters);
  EXPECT_EQ(plan.groups.size(), 1U);
  EXPECT_EQ(count_plan(plan, parameters).peer_eager.total(), 9 + 8);
}

TEST(Counts, NothingCountsNothing) {
  const PlanCounts counts = counts_of({});
  EXPECT_EQ(counts.fused.total(), 0);
  EXPECT_EQ(counts.bytes_per_param, 0);
}

}  // namespace
}  // namespace stepfuse::compiler
