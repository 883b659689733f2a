// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// What may change between steps: memory, gradients, hyperparameters, step counts and states. Each change costs what it
// must and no more, and the step after it is right.
#include "runtime/state_io.h"
#include "tests/vgpu/executor/rig.h"

namespace stepfuse::tests {
namespace {

std::vector<RigParameter> vectors(uint32_t count, uint32_t groups = 1) {
  std::vector<RigParameter> parameters;
  for (uint32_t p = 0; p < count; ++p) {
    RigParameter& parameter = parameters.emplace_back();
    parameter.group = p % groups;
    parameter.spec.shape = {500 + 3000 * p};
  }
  return parameters;
}

std::vector<RigParameter> matrices(uint32_t count, uint32_t groups = 1) {
  std::vector<RigParameter> parameters;
  for (uint32_t p = 0; p < count; ++p) {
    RigParameter& parameter = parameters.emplace_back();
    parameter.group = p % groups;
    parameter.spec.shape = {24, 40};
  }
  return parameters;
}

RigSettings on(const std::string& target, ir::Mode mode = ir::Mode::Strict) { return {mode, target, {}, {}}; }

/// The same steps on the CPU.
class Changes : public CudaExecutor {
 protected:
  void prepare(const std::vector<RigGroup>& groups, const std::vector<RigParameter>& parameters) {
    cpu_ = std::make_unique<Rig>(groups, parameters, on("cpu"));
    cuda_ = std::make_unique<Rig>(groups, parameters, on("cuda"));
  }
  void start(const std::vector<RigGroup>& groups, const std::vector<RigParameter>& parameters) {
    prepare(groups, parameters);
    step();
  }
  void step(int count = 1) {
    cpu_->step(count);
    cuda_->step(count);
  }
  template <class Call>
  void both(Call call) {
    call(*cpu_);
    call(*cuda_);
  }
  runtime::ExecutorReport report() { return cuda_->optimizer().report(); }

  std::unique_ptr<Rig> cpu_, cuda_;
};

TEST_F(Changes, OfMemoryCopyTheChangedRowsOnce) {
  start({{"adamw", {}}}, vectors(5));
  const int64_t copies = report().table_copies;
  both([](Rig& rig) { rig.move(1, 0), rig.move(3, 0); });
  step();
  EXPECT_EQ(report().table_copies, copies + 1);
  EXPECT_EQ(report().graphs, 1);
  step(2);
  EXPECT_EQ(report().table_copies, copies + 1);
  expect_same(*cuda_, *cpu_);
  cuda_->expect_gaps_untouched();
}

/// Many moves in a row: the ring of pinned memory comes round again.
TEST_F(Changes, OfMemoryBeforeEveryStep) {
  start({{"adamw", {}}}, vectors(3));
  for (uint32_t i = 0; i < 12; ++i) {
    both([&](Rig& rig) { rig.move(i % 3, 0); });
    step();
  }
  EXPECT_EQ(report().graphs, 1);
  expect_same(*cuda_, *cpu_);
}

TEST_F(Changes, OfAlignmentMakeAnotherGraph) {
  start({{"adamw", {}}}, vectors(3));
  both([](Rig& rig) { rig.move(1, 1); });
  step();
  EXPECT_EQ(report().graphs, 2);
  both([](Rig& rig) { rig.move(1, 0); });
  step(2);
  EXPECT_EQ(report().graphs, 3);
  expect_same(*cuda_, *cpu_);
}

TEST_F(Changes, OfEveryHyperparameterAreFree) {
  start({{"adamw", {}}, {"sgd", {{"momentum", "0.9"}}}}, vectors(6, 2));
  const runtime::ExecutorReport before = report();
  const VirtualDriver* driver = virtual_driver();
  if (driver != nullptr) driver->reset_counters();
  for (int i = 0; i < 8; ++i) {
    both([&](Rig& rig) {
      for (uint32_t g = 0; g < 2; ++g) {
        rig.set(g, "lr", 1e-2 / (1 + i));
        rig.set(g, "weight_decay", 1e-2 * i);
      }
      rig.set(0, "beta1", 0.5 + 0.05 * i);
    });
    step();
  }
  EXPECT_EQ(report().graphs, 1);
  EXPECT_EQ(report().table_copies, before.table_copies);
  EXPECT_EQ(report().host_syncs, before.host_syncs);
  if (driver != nullptr) {
    VgpuCounters counters{};
    driver->counters(&counters);
    EXPECT_EQ(counters.copies, 0U);
    EXPECT_EQ(counters.synchronizations, 0U);
    EXPECT_EQ(counters.graph_launches, 8U);
  }
  expect_same(*cuda_, *cpu_);
}

/// More hyperparameters than a launch takes by value.
TEST_F(Changes, OfHyperparametersOfManyGroups) {
  constexpr uint32_t kGroups = 160;
  std::vector<RigGroup> groups;
  for (uint32_t g = 0; g < kGroups; ++g) groups.push_back({"adamw", {{"lr", fmt::format("{}", 0.001 * (g + 1))}}});
  std::vector<RigParameter> parameters;
  for (uint32_t g = 0; g < kGroups; ++g) {
    parameters.emplace_back().group = g;
    parameters.back().spec.shape = {33};
  }
  start(groups, parameters);
  for (int i = 0; i < 3; ++i) {
    both([&](Rig& rig) {
      for (uint32_t g = 0; g < kGroups; ++g) rig.set(g, "lr", 0.01 / (g + 1) / (i + 1));
    });
    step();
  }
  EXPECT_EQ(report().graphs, 1);
  expect_same(*cuda_, *cpu_);
}

/// Parameters that began with equal numbers in one set.
TEST_F(Changes, OfOneGroupsRateSplitASet) {
  start({{"adamw", {}}, {"adamw", {}}}, vectors(6, 2));
  both([](Rig& rig) { rig.set(1, "lr", 0.5); });
  step();
  expect_same(*cuda_, *cpu_);
  const int64_t graphs = report().graphs;
  EXPECT_EQ(graphs, 2);
  both([](Rig& rig) { rig.set(0, "lr", 0.25), rig.set(1, "weight_decay", 0.25); });
  step();
  both([](Rig& rig) { rig.set(0, "lr", 0.5), rig.set(1, "weight_decay", 0.01); });
  step(2);
  EXPECT_EQ(report().graphs, graphs) << "sets that are equal again need not be joined";
  expect_same(*cuda_, *cpu_);
}

TEST_F(Changes, OfGradientsLeaveAParameterAlone) {
  start({{"adamw", {}}, {"sgd", {{"momentum", "0.9"}}}}, vectors(8, 2));
  const std::vector<RigValues> before = all_values(*cuda_);
  const int64_t copies = report().table_copies;
  both([](Rig& rig) {
    for (const uint32_t p : {0U, 3U, 4U}) rig.bind(p, false);
  });
  step(2);
  EXPECT_EQ(report().table_copies, copies + 1);
  expect_same(*cuda_, *cpu_);
  for (const uint32_t p : {0U, 3U, 4U}) expect_same(cuda_->values(p), before[p], fmt::format("parameter {}", p));
  both([](Rig& rig) { rig.bind(3); });
  step(2);
  EXPECT_EQ(report().graphs, 1);
  expect_same(*cuda_, *cpu_);
}

TEST_F(Changes, WithoutAnyGradientNothingHappens) {
  start({{"adamw", {}}, {"sgd", {}}}, vectors(4, 2));
  const std::vector<RigValues> before = all_values(*cuda_);
  both([](Rig& rig) {
    for (uint32_t p = 0; p < 4; ++p) rig.bind(p, false);
  });
  step(3);
  for (uint32_t p = 0; p < 4; ++p) expect_same(cuda_->values(p), before[p], fmt::format("parameter {}", p));
  both([](Rig& rig) {
    for (uint32_t p = 0; p < 4; ++p) rig.bind(p);
  });
  step();
  expect_same(*cuda_, *cpu_);
}

/// On the first step, absent states stay absent.
TEST_F(Changes, AFirstStepWithoutAGradientLeavesStatesAbsent) {
  prepare({{"sgd", {{"momentum", "0.9"}, {"dampening", "0.5"}}}}, vectors(3));
  both([](Rig& rig) { rig.bind(1, false); });
  step(2);
  both([](Rig& rig) { rig.bind(1); });
  step(2);
  expect_same(*cuda_, *cpu_);
  EXPECT_EQ(cuda_->values(1).steps, 2);
}

TEST_F(Changes, OfStepCountsReachTheDevice) {
  start({{"adamw", {}}}, vectors(4));
  both([](Rig& rig) { rig.optimizer().set_steps(2, 40); });
  step();
  EXPECT_EQ(cuda_->values(2).steps, 41);
  expect_same(*cuda_, *cpu_);
  both([](Rig& rig) { rig.optimizer().set_steps(1, 0), rig.optimizer().set_steps(3, 0); });
  expect_same(*cuda_, *cpu_);
  step(2);
  EXPECT_EQ(cuda_->values(1).steps, 2);
  expect_same(*cuda_, *cpu_);
  EXPECT_EQ(report().graphs, 1);
}

/// A checkpoint of the one target continues on the other.
TEST_F(Changes, OfStatesByCheckpoint) {
  start({{"adamw", {}}, {"sgd", {{"momentum", "0.9"}}}}, vectors(4, 2));
  step(2);
  const auto from_cuda = value_of(runtime::export_state(cuda_->optimizer()));
  const auto from_cpu = value_of(runtime::export_state(cpu_->optimizer()));
  EXPECT_TRUE(from_cuda == from_cpu);
  step(3);
  check(runtime::import_state(cuda_->optimizer(), from_cpu));
  check(runtime::import_state(cpu_->optimizer(), from_cuda));
  expect_same(*cuda_, *cpu_);
  step(2);
  expect_same(*cuda_, *cpu_);
  EXPECT_EQ(cuda_->values(0).steps, 5);
}

// ---- Products

using MuonChanges = CudaExecutor;

/// In one batch, with the update absorbed into the last product (default) and applied by a kernel (strict).
TEST_F(MuonChanges, OfGradientsLeaveMatricesAlone) {
  for (const ir::Mode mode : {ir::Mode::Default, ir::Mode::Strict})
    for (const bool all : {false, true}) {
      SCOPED_TRACE(fmt::format("{} {}", mode == ir::Mode::Strict ? "strict" : "default", all));
      Rig whole({{"muon", {}}}, matrices(4), on("cuda", mode));
      Rig part({{"muon", {}}}, matrices(4), on("cuda", mode));
      whole.step();
      part.step();
      const std::vector<RigValues> before = all_values(part);
      expect_same(part, whole);
      for (const uint32_t p : {0U, 1U, 2U, 3U})
        if (all || p == 1 || p == 2) part.bind(p, false);
      whole.step();
      part.step();
      for (uint32_t p = 0; p < 4; ++p) {
        const bool stays = all || p == 1 || p == 2;
        expect_same(part.values(p), stays ? before[p] : whole.values(p), fmt::format("matrix {}", p));
      }
      part.expect_gaps_untouched();
    }
}

TEST_F(MuonChanges, OfMemoryCopyTheChangedRowsOnce) {
  Rig still({{"muon", {}}}, matrices(3), on("cuda", ir::Mode::Default));
  Rig moved({{"muon", {}}}, matrices(3), on("cuda", ir::Mode::Default));
  still.step();
  moved.step();
  const int64_t copies = moved.optimizer().report().table_copies;
  moved.move(1, 0);
  still.step(2);
  moved.step(2);
  EXPECT_EQ(moved.optimizer().report().table_copies, copies + 1);
  EXPECT_EQ(moved.optimizer().report().graphs, 1);
  expect_same(moved, still);
}

/// Two groups of one batch: their rates, equal at first, come to differ. The same as if each had its own optimizer.
TEST_F(MuonChanges, OfOneGroupsRateInABatch) {
  for (const ir::Mode mode : {ir::Mode::Default, ir::Mode::Strict}) {
    SCOPED_TRACE(mode == ir::Mode::Strict ? "strict" : "default");
    Rig two({{"muon", {}}, {"muon", {}}}, matrices(4, 2), on("cuda", mode));
    Rig high({{"muon", {}}}, matrices(4), on("cuda", mode));
    Rig low({{"muon", {}}}, matrices(4), on("cuda", mode));
    for (Rig* rig : {&two, &high, &low}) rig->step();
    EXPECT_EQ(two.optimizer().report().graphs, 1);
    for (const double rate : {0.5, 0.25}) {
      two.set(0, "lr", rate);
      two.set(1, "lr", 0.0625);
      high.set(0, "lr", rate);
      low.set(0, "lr", 0.0625);
      for (Rig* rig : {&two, &high, &low}) rig->step();
    }
    EXPECT_EQ(two.optimizer().report().graphs, 2);
    for (uint32_t p = 0; p < 4; ++p)
      expect_same(two.values(p), (p % 2 == 0 ? high : low).values(p), fmt::format("matrix {}", p));
  }
}

/// The rate of every step is new: no graph, no copy.
TEST_F(MuonChanges, OfEveryHyperparameterAreFree) {
  Rig rig({{"muon", {}}}, matrices(3), on("cuda", ir::Mode::Default));
  rig.step();
  const runtime::ExecutorReport before = rig.optimizer().report();
  for (int i = 1; i < 6; ++i) {
    rig.set(0, "lr", 0.02 / i);
    rig.set(0, "weight_decay", 0.01 * i);
    rig.set(0, "momentum", 0.9 / i);
    rig.step();
  }
  EXPECT_EQ(rig.optimizer().report().graphs, 1);
  EXPECT_EQ(rig.optimizer().report().table_copies, before.table_copies);
  EXPECT_EQ(rig.optimizer().report().host_syncs, before.host_syncs);
}

}  // namespace
}  // namespace stepfuse::tests
