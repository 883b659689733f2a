// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// The step's scalars on the PTX machine against ir::ScalarProgram on the host, bit for bit.
#include "codegen/cuda/emit_cuda.h"
#include "codegen/cuda/emit_prologue.h"
#include "codegen/lower_group.h"
#include "runtime/cuda/nvrtc.h"
#include "runtime/optimizer.h"
#include "tests/vgpu/kernel_run.h"

#include <bit>
#include <cmath>
#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stepfuse::test {
namespace {

using codegen::CudaHypers;
using codegen::CudaParameterState;
using codegen::CudaPrologueRow;

/// The parameters of the kernel as they lie in its parameter block.
struct Arguments {
  uint64_t rows;
  uint32_t row_count;
  uint64_t programs;
  uint64_t parameters;
  uint64_t active;
  uint64_t skip;
  uint64_t more;
  CudaHypers hypers;
};

std::string prologue_ptx(const char* arch) {
  const std::string text = codegen::emit_prologue();
  const auto settings = runtime::Settings::resolve({}, runtime::Settings::process_environment()).value();
  const auto binary = runtime::Nvrtc::open(settings).value()->compile(text, codegen::kCudaPrologueName,
                                                                      codegen::nvrtc_options(ir::Mode::Strict),
                                                                      runtime::parse_cuda_arch(arch).value());
  if (!binary) throw std::runtime_error(binary.error().message + "\n" + text);
  return binary->ptx;
}

/// A plan with recipes that use powers, selects, fresh states and square roots.
compiler::StepPlan make_plan() {
  runtime::Optimizer optimizer = runtime::Optimizer::create(runtime::OptimizerSettings()).value();
  for (const char* recipe : {"adamw", "sgd", "muon", "adam"}) {
    const ir::OptionList options =
        std::string_view(recipe) == "sgd" ? ir::OptionList{{"momentum", "0.9"}} : ir::OptionList{};
    const uint32_t group = optimizer.add_group(recipe, options).value();
    optimizer.add_parameter(group, recipe, {{48, 32}}).value();
  }
  return compiler::make_plan(optimizer.planned(), {}).value();
}

class Prologue : public testing::Test {
 protected:
  void SetUp() override {
    const std::string why_not = why_no_nvrtc();
    if (!why_not.empty()) GTEST_SKIP() << why_not;
    for (const compiler::GroupPlan& group : plan_.groups)
      groups_.push_back(codegen::lower_group(group, ir::Mode::Strict));
    for (const codegen::LoweredGroup& group : groups_) programs_.push_back(group.scalars.get());
  }

  template <class T>
  uint64_t upload(const std::vector<T>& values) {
    const size_t bytes = values.size() * sizeof(T);
    const uint64_t address = memory_.allocate(bytes, 16);
    std::memcpy(memory_.resolve(address, bytes, true), values.data(), bytes);
    return address;
  }
  template <class T>
  std::vector<T> download(uint64_t address, size_t count) {
    std::vector<T> values(count);
    std::memcpy(values.data(), memory_.resolve(address, count * sizeof(T), false), count * sizeof(T));
    return values;
  }

  uint64_t upload_programs() {
    std::vector<codegen::CudaProgram> programs;
    for (const ir::ScalarProgram* program : programs_) {
      const auto lines = codegen::encode_scalars(*program).value();
      programs.push_back({upload(lines), upload(program->slots()), static_cast<uint32_t>(lines.size()),
                          static_cast<uint32_t>(program->num_slots())});
    }
    return upload(programs);
  }

  /// One parameter per program, in this state, after one launch. `more` sends the values through memory.
  void launch(vgpu::Module& module, std::vector<CudaParameterState> states, bool more, uint32_t skip,
              uint32_t active = 1) {
    std::vector<CudaPrologueRow> rows;
    std::vector<double> values;
    slots_.clear();
    for (size_t p = 0; p < programs_.size(); ++p) {
      const int64_t bytes = codegen::cuda_slot_bytes(programs_[p]->num_slots());
      slots_.push_back(upload(std::vector<double>(static_cast<size_t>(bytes) / sizeof(double), -7.0)));
      rows.push_back(
          {static_cast<uint32_t>(p), static_cast<uint32_t>(values.size()), static_cast<uint32_t>(p), 0, slots_.back()});
      for (size_t k = 0; k < programs_[p]->hyper_inputs().size(); ++k) values.push_back(hyper(k));
    }
    Arguments arguments{upload(rows),
                        static_cast<uint32_t>(rows.size()),
                        upload_programs(),
                        upload(states),
                        upload(std::vector<uint32_t>(states.size(), active)),
                        0,
                        0,
                        {}};
    if (skip != 0) arguments.skip = upload(std::vector<uint32_t>{skip});
    if (more) {
      arguments.more = upload(values);
    } else {
      std::copy(values.begin(), values.end(), arguments.hypers.value.begin());
    }
    vgpu::Launch grid;
    grid.block.x = codegen::kCudaPrologueThreads;
    module.run(codegen::kCudaPrologueName, grid, reinterpret_cast<const std::byte*>(&arguments));
    states_ = download<CudaParameterState>(arguments.parameters, states.size());
  }

  static double hyper(size_t k) { return 0.9 / static_cast<double>(k + 1) + 0.0123; }

  std::vector<double> expected(size_t p, double step, bool fresh) const {
    const ir::ScalarProgram& program = *programs_[p];
    std::vector<double> hypers, registers(program.num_registers()), slots(program.num_slots());
    for (size_t k = 0; k < program.hyper_inputs().size(); ++k) hypers.push_back(hyper(k));
    const std::unique_ptr<bool[]> flags(new bool[program.fresh_states().size() + 1]);
    std::fill_n(flags.get(), program.fresh_states().size(), fresh);
    program.run(hypers, step, {flags.get(), program.fresh_states().size()}, registers, slots);
    return slots;
  }

  void expect_slots(size_t p, const std::vector<double>& want) {
    const auto got = download<double>(slots_[p], want.size());
    for (size_t s = 0; s < want.size(); ++s)
      EXPECT_EQ(std::bit_cast<uint64_t>(got[s]), std::bit_cast<uint64_t>(want[s])) << "program " << p << " slot " << s;
    if (want[0] == -7.0) return;  // untouched
    const auto narrow = download<float>(slots_[p] + want.size() * sizeof(double), want.size());
    for (size_t s = 0; s < want.size(); ++s)
      EXPECT_EQ(std::bit_cast<uint32_t>(narrow[s]), std::bit_cast<uint32_t>(static_cast<float>(want[s])));
  }

  compiler::StepPlan plan_ = make_plan();
  std::vector<codegen::LoweredGroup> groups_;
  std::vector<const ir::ScalarProgram*> programs_;
  vgpu::TestMemory memory_;
  std::vector<uint64_t> slots_;
  std::vector<CudaParameterState> states_;
};

TEST_F(Prologue, GivesTheBitsOfTheHost) {
  for (const char* arch : {"compute_75", "compute_90", "compute_120"}) {
    const auto module = vgpu::Module::load(prologue_ptx(arch), memory_, {});
    for (const int64_t steps : {0, 1, 6, 99'999}) {
      const bool fresh = steps == 0;
      launch(*module, std::vector<CudaParameterState>(programs_.size(), {steps, fresh ? ~0U : 0U, 0}), steps == 6, 0);
      for (size_t p = 0; p < programs_.size(); ++p) {
        expect_slots(p, expected(p, static_cast<double>(steps + 1), fresh));
        EXPECT_EQ(states_[p].steps, steps + 1);
        EXPECT_EQ(states_[p].fresh, 0U);
      }
    }
  }
}

/// PyTorch pull request 96106: a skipped step must not count.
TEST_F(Prologue, B03_ASkippedStepAndAnInactiveParameterDoNotCount) {
  const auto module = vgpu::Module::load(prologue_ptx("compute_90"), memory_, {});
  const std::vector<double> untouched(programs_[0]->num_slots(), -7.0);
  launch(*module, std::vector<CudaParameterState>(programs_.size(), {3, 5, 0}), false, 1);
  EXPECT_EQ(states_[0].steps, 3);
  EXPECT_EQ(states_[0].fresh, 5U);
  expect_slots(0, untouched);
  launch(*module, std::vector<CudaParameterState>(programs_.size(), {3, 5, 0}), false, 0, 0);
  EXPECT_EQ(states_[0].steps, 3);
  expect_slots(0, untouched);
}

TEST_F(Prologue, FitsTheParametersOfEveryDriver) {
  EXPECT_LE(sizeof(Arguments), 4096U);
  const auto module = vgpu::Module::load(prologue_ptx("compute_90"), memory_, {});
  EXPECT_EQ(module->find(codegen::kCudaPrologueName)->parameter_bytes, sizeof(Arguments));
}

}  // namespace
}  // namespace stepfuse::test
