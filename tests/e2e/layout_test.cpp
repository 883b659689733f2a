// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
// Tensors that are not dense, and states that the caller owns: a step gives the bits of the dense run, and nothing
// between the elements changes.
#include "compiler/signature.h"
#include "ir/print.h"
#include "runtime/strided.h"
#include "tests/e2e/optimizer_run.h"
#include "tests/support/random_graph.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <ostream>
#include <random>
#include <tuple>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stepfuse::tests {
namespace {

using runtime::Optimizer;
using runtime::StridedTensor;
using runtime::Strides;
using testing::HasSubstr;

constexpr std::byte kPoison{0xa5};
constexpr int kSteps = 3;

/// Where tensor `k` of `count` lies in the one buffer that holds them all, in elements (the widest, for the offset).
struct Place {
  Strides strides;
  int64_t offset;
};

struct Layout {
  const char* name;
  std::function<Place(const std::vector<int64_t>& shape, int64_t k, int64_t count)> place;
};

int64_t elements(const std::vector<int64_t>& shape) { return compiler::element_count(shape); }

/// Dimensions from the slowest to the fastest in `order`, with `gap` unused elements after each line of the fastest.
Strides ordered(const std::vector<int64_t>& shape, std::vector<size_t> order, int64_t gap, int64_t first = 1) {
  Strides strides(shape.size());
  for (int64_t stride = first; !order.empty(); order.pop_back()) {
    strides[order.back()] = stride;
    stride = stride * shape[order.back()] + gap;
    gap = 0;
  }
  return strides;
}

std::vector<size_t> forwards(size_t rank) {
  std::vector<size_t> order(rank);
  std::iota(order.begin(), order.end(), size_t{0});
  return order;
}

std::vector<size_t> backwards(size_t rank) {
  std::vector<size_t> order = forwards(rank);
  std::reverse(order.begin(), order.end());
  return order;
}

/// Of images: the channels, dimension 1, vary fastest.
std::vector<size_t> channels_last(size_t rank) {
  std::vector<size_t> order = forwards(rank);
  if (rank > 1) std::rotate(order.begin() + 1, order.begin() + 2, order.end());
  return rank == 2 ? backwards(rank) : order;
}

Place apart(const std::vector<int64_t>& shape, const Strides& strides, int64_t k) {
  return {strides, k * (compiler::span_elements(shape, strides) + 1)};
}

const Layout kLayouts[] = {
    {"SlicesOfAFlatBuffer", [](const auto& shape, int64_t k, int64_t) { return Place{{}, 3 + k * elements(shape)}; }},
    {"RowPadded",
     [](const auto& shape, int64_t k, int64_t) { return apart(shape, ordered(shape, forwards(shape.size()), 3), k); }},
    {"Transposed",
     [](const auto& shape, int64_t k, int64_t) { return apart(shape, ordered(shape, backwards(shape.size()), 0), k); }},
    {"TransposedAndPadded",
     [](const auto& shape, int64_t k, int64_t) { return apart(shape, ordered(shape, backwards(shape.size()), 2), k); }},
    {"Interleaved", [](const auto& shape, int64_t k,
                       int64_t count) { return Place{ordered(shape, forwards(shape.size()), 0, count), k}; }},
    {"ColumnBlocks",
     [](const auto& shape, int64_t k, int64_t count) {
       Strides strides = compiler::dense_strides(shape);
       for (size_t d = 0; d + 1 < shape.size(); ++d) strides[d] *= count;
       return Place{strides, k * shape.back()};
     }},
    {"EachAnotherWay",
     [](const auto& shape, int64_t k, int64_t) {
       const auto order = k % 2 == 0 ? forwards(shape.size()) : channels_last(shape.size());
       return apart(shape, ordered(shape, order, shape.size() < 3 ? k % 3 : 0), 2 * k);
     }},
    {"ChannelsLast", [](const auto& shape, int64_t k,
                        int64_t) { return apart(shape, ordered(shape, channels_last(shape.size()), 0), k); }},
};

struct RuleCase {
  const char* name;
  std::string rule;
  ir::OptionList options;
  ir::ParameterSpec spec;
};

void PrintTo(const RuleCase& rule, std::ostream* out) { *out << rule.name; }
void PrintTo(const Layout& layout, std::ostream* out) { *out << layout.name; }

/// A sum over everything, over rows and over columns; a state of row sums; a state that only passes through.
const std::string kReductions =
    "// stepfuse-ir v1\nrecipe @sums(%p: f32[R,C] param, %g: f32[R,C] grad, %m: f32[R,C] state \"m\", "
    "%r: f32[R,1] state \"rows\", %q: f32[R,C] state \"old\") {\n"
    "  %m1 = lerp %m, %g, 0.25 : f32\n  %n = norm %m1 {all} : f32\n  %u = div %m1, %n : f32\n"
    "  %s = sum %u {rows} : f32\n  %c = sum %u {cols} : f32\n  %x = add %u, %s : f32\n  %y = add %x, %c : f32\n"
    "  %z = add %y, %r : f32\n  %p1 = axpy -0.125, %z, %p : f32\n"
    "  return %p1 -> %p, %m1 -> %m, %s -> %r, %p -> %q\n}\n";

/// Products that read the gradient and a state where they lie, and an addend of the caller's.
const std::string kProducts =
    "// stepfuse-ir v1\nrecipe @products(%p: f32[R,C] param, %g: f32[R,C] grad, %m: f32[R,C] state \"m\") {\n"
    "  %gram = matmul %g, %m {tb} : f32\n  %m1 = matmul %gram, %g, %m, 0.0625, 0.5 : f32\n"
    "  %m2 = add %m1, %g : f32\n  %p1 = axpy -0.125, %m2, %p : f32\n  return %p1 -> %p, %m2 -> %m\n}\n";

/// Results that would lie in the place of a state: a product, a sum, and a value that a product reads.
const std::string kResults =
    "// stepfuse-ir v1\nrecipe @results(%p: f32[R,C] param, %g: f32[R,C] grad, %m: f32[R,C] state \"m\", "
    "%s: f32[R,R] state \"gram\", %r: f32[R,1] state \"rows\") {\n"
    "  %m1 = lerp %m, %g, 0.25 : f32\n  %gram = matmul %m1, %m1 {tb} : f32\n  %n = sum %g {rows} : f32\n"
    "  %u = matmul %gram, %m1 : f32\n  %p1 = axpy -0.0009765625, %u, %p : f32\n"
    "  return %p1 -> %p, %m1 -> %m, %gram -> %s, %n -> %r\n}\n";

const RuleCase kRules[] = {
    {"Adamw", "adamw", {}, {{7, 11}}},
    {"AdamwOfFour", "adamw", {}, {{2, 3, 5, 4}}},
    {"AdamwManyChunks", "adamw", {}, {{9, 1031}}},
    {"AdamAmsgrad", "adam", {{"amsgrad", "true"}, {"weight_decay", "0.1"}}, {{5, 6, 7}}},
    {"SgdMomentum", "sgd", {{"momentum", "0.9"}, {"nesterov", "true"}}, {{13}}},
    {"Muon", "muon", {}, {{24, 40}}},
    {"MuonTall", "muon", {{"nesterov", "false"}}, {{33, 17}}},
    {"Reductions", kReductions, {}, {{19, 23}}},
    {"Products", kProducts, {}, {{9, 14}}},
    {"Results", kResults, {}, {{9, 14}}},
};

/// One parameter of a rule in a poisoned buffer, its states the caller's own.
class LaidOut {
 public:
  LaidOut(const RuleCase& rule, const Layout& layout) {
    added_.name = "w";
    added_.spec = rule.spec;
    added_.caller_states = true;
    const ir::Graph graph =
        *runtime::Rule::create(rule.rule, rule.options)->instantiate(added_.spec).and_then([&](const ir::Graph& naive) {
          return compiler::specialise(naive, rule.spec.shape);
        });
    std::vector<const ir::Input*> inputs;
    for (const ir::Input& input : graph.inputs())
      if (!input.type.scalar) inputs.push_back(&input);
    for (const ir::Input* input : inputs) unit_ = std::max(unit_, ir::dtype_bytes(input->type.dtype));
    const auto count = static_cast<int64_t>(inputs.size());
    for (int64_t k = 0; k < count; ++k) add(*inputs[static_cast<size_t>(k)], layout, k, count);
    int64_t end = 0;
    for (size_t k = 0; k < tensors_.size(); ++k)
      end = std::max(end, offsets_[k] + unit_ * compiler::span_elements(tensors_[k].shape, tensors_[k].strides));
    buffer_.assign(static_cast<size_t>(end + 64), kPoison);
    for (size_t k = 0; k < tensors_.size(); ++k) tensors_[k].data = buffer_.data() + offsets_[k];
  }

  void fill(const Bytes& param, const Bytes& grad) {
    for (size_t k = 0; k < tensors_.size(); ++k) {
      if (kinds_[k] == ir::InputKind::Param) scatter(param.data(), tensors_[k]);
      if (kinds_[k] == ir::InputKind::Grad) scatter(grad.data(), tensors_[k]);
    }
  }

  runtime::MemoryBinding binding() const {
    runtime::MemoryBinding binding;
    for (size_t k = 0; k < tensors_.size(); ++k) {
      if (kinds_[k] == ir::InputKind::Param) binding.data = tensors_[k].data;
      if (kinds_[k] == ir::InputKind::Grad) binding.gradient = tensors_[k].data;
      if (kinds_[k] == ir::InputKind::State) binding.states.emplace_back(keys_[k], tensors_[k].data);
    }
    return binding;
  }

  const runtime::NewParameter& added() const { return added_; }

  /// Parameter and states, dense; afterwards the buffer is all poison if nothing else was written.
  RunResult take() {
    RunResult result;
    for (size_t k = 0; k < tensors_.size(); ++k) {
      Bytes dense(static_cast<size_t>(tensors_[k].dense_bytes()));
      gather(tensors_[k], dense.data());
      const Bytes poison(dense.size(), kPoison);
      scatter(poison.data(), tensors_[k]);
      if (kinds_[k] == ir::InputKind::Param) result.param = std::move(dense);
      if (kinds_[k] == ir::InputKind::State) result.states.push_back(std::move(dense));
    }
    return result;
  }

  bool untouched() const {
    return std::all_of(buffer_.begin(), buffer_.end(), [](std::byte byte) { return byte == kPoison; });
  }

 private:
  void add(const ir::Input& input, const Layout& layout, int64_t k, int64_t count) {
    std::vector<int64_t> shape = compiler::input_shape(input, added_.spec.shape);
    // A state of another shape lies behind all that is interleaved.
    const bool small = shape != added_.spec.shape;
    Place place = layout.place(shape, small ? 0 : k, small ? 1 : count);
    if (small) {
      place.offset = 64 * elements(added_.spec.shape) + 1024 + small_elements_;
      small_elements_ += compiler::span_elements(shape, place.strides) + 1;
    }
    if (input.kind == ir::InputKind::Param) added_.param_strides = place.strides;
    if (input.kind == ir::InputKind::Grad) added_.grad_strides = place.strides;
    if (input.kind == ir::InputKind::State) added_.state_strides.emplace_back(input.key, place.strides);
    tensors_.push_back({nullptr, std::move(shape), place.strides, ir::dtype_bytes(input.type.dtype)});
    offsets_.push_back(unit_ * place.offset);
    kinds_.push_back(input.kind);
    keys_.push_back(input.key);
  }

  runtime::NewParameter added_;
  std::vector<StridedTensor> tensors_;
  std::vector<int64_t> offsets_;  // bytes
  int64_t small_elements_ = 0;
  int64_t unit_ = 1;  // bytes of the widest element: what places count
  std::vector<ir::InputKind> kinds_;
  std::vector<std::string> keys_;
  Bytes buffer_;
};

Result<Optimizer> optimizer_of(const RuleCase& rule, const RunSettings& settings, const runtime::NewParameter& added) {
  runtime::OptimizerSettings to;
  to.mode = settings.mode;
  to.target = settings.target;
  to.threads = settings.threads;
  to.runner.disabled = settings.disabled;
  STEPFUSE_ASSIGN(Optimizer optimizer, Optimizer::create(to));
  STEPFUSE_ASSIGN(const uint32_t group, optimizer.add_group(rule.rule, rule.options));
  STEPFUSE_TRY(optimizer.add_parameter(group, added).map([](uint32_t) {}));
  STEPFUSE_TRY(optimizer.prepare());
  return optimizer;
}

Result<RunResult> run_laid_out(const RuleCase& rule, const Layout& layout, const Bytes& param, const Bytes& grad,
                               const RunSettings& settings) {
  LaidOut memory(rule, layout);
  memory.fill(param, grad);
  STEPFUSE_ASSIGN(Optimizer optimizer, optimizer_of(rule, settings, memory.added()));
  STEPFUSE_TRY(optimizer.bind(0, memory.binding()));
  for (int i = 0; i < settings.steps; ++i) STEPFUSE_TRY(optimizer.step());
  RunResult result = memory.take();
  EXPECT_TRUE(memory.untouched()) << "bytes between the elements were written";
  result.launched = optimizer.report().last_step;
  result.planned = optimizer.counts();
  return result;
}

/// `dtypes`: of the parameter, then of its states.
void expect_same(const RunResult& expected, const RunResult& got, const std::vector<ir::DType>& dtypes) {
  EXPECT_EQ(difference(dtypes[0], expected.param, got.param), "");
  ASSERT_EQ(expected.states.size(), got.states.size());
  for (size_t s = 0; s < got.states.size(); ++s)
    EXPECT_EQ(difference(dtypes[s + 1], expected.states[s], got.states[s]), "") << "state " << s;
}

RunSettings settings_of(ir::Mode mode, const std::string& target = "cpu", int threads = 2) {
  return {mode, target, threads, {}, kSteps};
}

class LayoutRun : public testing::TestWithParam<std::tuple<RuleCase, Layout>> {
 protected:
  void SetUp() override {
    const auto& [rule, layout] = GetParam();
    param_ = random_tensor(ir::DType::F32, elements(rule.spec.shape), 1);
    grad_ = random_tensor(ir::DType::F32, elements(rule.spec.shape), 2);
  }
  Bytes param_, grad_;
};

TEST_P(LayoutRun, StrictGivesTheBitsOfTheDenseRun) {
  const auto& [rule, layout] = GetParam();
  const auto dense = run_rule(rule.rule, rule.options, rule.spec, param_, grad_, settings_of(ir::Mode::Strict));
  ASSERT_TRUE(dense) << dense.error().message;
  for (const auto& [target, threads] : {std::pair("cpu", 1), std::pair("cpu", 3), std::pair("interp", 1)}) {
    SCOPED_TRACE(fmt::format("{} with {} threads", target, threads));
    const auto got = run_laid_out(rule, layout, param_, grad_, settings_of(ir::Mode::Strict, target, threads));
    ASSERT_TRUE(got) << got.error().message;
    expect_same(*dense, *got, std::vector(dense->states.size() + 1, ir::DType::F32));
    if (std::string(target) == "cpu") {
      EXPECT_EQ(got->planned.fused.total(), got->launched.total());
    }
  }
}

TEST_P(LayoutRun, DefaultStaysCloseToTheDenseRun) {
  const auto& [rule, layout] = GetParam();
  const RunSettings settings = settings_of(ir::Mode::Default);
  const auto dense = run_rule(rule.rule, rule.options, rule.spec, param_, grad_, settings);
  const auto got = run_laid_out(rule, layout, param_, grad_, settings);
  ASSERT_TRUE(dense && got) << (got ? dense.error().message : got.error().message);
  const auto expected = to_doubles(ir::DType::F32, dense->param);
  const auto values = to_doubles(ir::DType::F32, got->param);
  for (size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(values[i], expected[i], 1e-4) << i;
  EXPECT_EQ(got->planned.naive.total(), dense->planned.naive.total());
}

INSTANTIATE_TEST_SUITE_P(Rules, LayoutRun, testing::Combine(testing::ValuesIn(kRules), testing::ValuesIn(kLayouts)),
                         [](const auto& instance) {
                           return std::string(std::get<0>(instance.param).name) + std::get<1>(instance.param).name;
                         });

/// Any order of dimensions, unused elements after each line and between elements; one tensor in three is dense.
Layout random_layout(uint64_t seed) {
  return {"Random", [seed](const std::vector<int64_t>& shape, int64_t k, int64_t) {
            std::mt19937_64 random(seed * 64 + static_cast<uint64_t>(k));
            std::vector<size_t> order = forwards(shape.size());
            std::shuffle(order.begin(), order.end(), random);
            const auto gap = static_cast<int64_t>(random() % 4);
            const auto first = static_cast<int64_t>(1 + random() % 2);
            const Strides strides = random() % 3 == 0 ? Strides() : ordered(shape, order, gap, first);
            // Nothing here is larger than this.
            return Place{strides, k * (16 * elements(shape) + 64)};
          }};
}

/// Random rules (types, views, reductions, products) with a random layout for each tensor. Returns whether the rule is
/// one of those that need dense tensors.
bool refused(uint64_t seed, const RandomGraphOptions& options) {
  const RandomGraph random = make_random_graph(seed, options);
  RuleCase rule{"Random", ir::print(random.graph), {}, {random.shape, {}, {}, {}}};
  std::vector<ir::DType> dtypes;
  for (const ir::Input& input : random.graph.inputs()) {
    if (input.kind == ir::InputKind::Param) rule.spec.param = input.type.dtype;
    if (input.kind == ir::InputKind::Grad) rule.spec.grad = input.type.dtype;
    if (input.kind == ir::InputKind::Param || input.kind == ir::InputKind::State) dtypes.push_back(input.type.dtype);
  }
  SCOPED_TRACE(fmt::format("seed {}\n{}", seed, rule.rule));
  const Bytes param = random_tensor(rule.spec.param, elements(random.shape), seed + 1);
  const Bytes grad = random_tensor(rule.spec.grad, elements(random.shape), seed + 2);
  const auto dense = run_rule(rule.rule, {}, rule.spec, param, grad, settings_of(ir::Mode::Strict, "interp"));
  EXPECT_TRUE(dense) << dense.error().message;
  for (const char* target : {"cpu", "interp"}) {
    SCOPED_TRACE(target);
    const auto got = run_laid_out(rule, random_layout(seed), param, grad, settings_of(ir::Mode::Strict, target));
    if (!got) {
      EXPECT_EQ(got.error().code, StatusCode::Unsupported) << got.error().message;
      EXPECT_THAT(got.error().message, testing::HasSubstr("is not dense"));
      return true;
    }
    expect_same(*dense, *got, dtypes);
  }
  return false;
}

TEST(LayoutOfRandomRules, StrictGivesTheBitsOfTheDenseRun) {
  int refusals = 0;
  for (uint64_t seed = 0; seed < 150 && !testing::Test::HasFailure(); ++seed)
    refusals += refused(seed, {static_cast<int>(3 + seed % 8), false}) ? 1 : 0;
  for (uint64_t seed = 10'000; seed < 10'060 && !testing::Test::HasFailure(); ++seed)
    refusals += refused(seed, {static_cast<int>(2 + seed % 5), true}) ? 1 : 0;
  EXPECT_LT(refusals, 40) << "of 210";
}

}  // namespace
}  // namespace stepfuse::tests
