// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// What a plan asks the cache for on a device, without one; and what a driver must be to take it.
#include "runtime/aot.h"
#include "runtime/cuda/cuda_kernels.h"
#include "runtime/cuda/nvrtc.h"
#include "runtime/rule.h"
#include "runtime/target.h"
#include "tests/support/cache_folder.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace stepfuse::runtime {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

class CudaPlanKernels : public testing::Test {
 protected:
  CudaPlanKernels() {
    Context::Options options;
    options.flags = {{"cache", "off", "test"}};
    options.log = [](LogLevel, std::string_view) {};
    context_ = Context::create(options).value();
    for (const auto& [name, shape, recipe] :
         {std::tuple{"w", std::vector<int64_t>{64, 96}, "muon"}, {"b", {96}, "adamw"}, {"c", {32}, "adamw"}}) {
      const Rule rule = Rule::create(recipe, {}).value();
      parameters_.push_back({name, shape, rule.instantiate({shape}).value(), rule.peer()});
    }
  }
  TargetNeeds needs(const std::string& target) {
    compiler::PlanOptions options;
    options.target = target_traits(target, context_->settings()).value();
    const auto plan = compiler::make_plan(parameters_, options);
    EXPECT_TRUE(plan) << plan.error().message;
    auto needs = needs_of(*plan, parameters_, *context_);
    EXPECT_TRUE(needs) << needs.error().message;
    return std::move(*needs);
  }

  std::shared_ptr<const Context> context_;
  std::vector<compiler::PlannedParameter> parameters_;
};

TEST_F(CudaPlanKernels, AreBothVariantsOfEveryKernelEachKeyOnce) {
  const TargetNeeds needs = this->needs("sm_90");
  std::vector<std::string> labels;
  std::set<std::string> keys;
  for (const auto& kernel : needs.kernels) {
    labels.push_back(kernel_label(*kernel));
    keys.insert(Key::of(EntryKind::Kernel, kernel->key_fields()).preimage);
    EXPECT_EQ(field(kernel->key_fields(), "arch"), "sm_90");
  }
  EXPECT_EQ(keys.size(), needs.kernels.size());
  for (const char* variant : {"aligned", "generic"})
    EXPECT_THAT(labels, Contains(fmt::format("stepfuse_adamw_update_f32, {}", variant)));
}

TEST_F(CudaPlanKernels, AShapeNamesTheKernelsOfItsOwnGroup) {
  const TargetNeeds needs = this->needs("sm_90");
  std::set<std::string> hashes;
  for (const auto& kernel : needs.kernels) hashes.insert(Key::of(EntryKind::Kernel, kernel->key_fields()).hash.hex());
  ASSERT_EQ(needs.shapes.size(), 3u);
  std::set<std::string> used;
  for (const PlanShape& shape : needs.shapes) {
    EXPECT_EQ(field(shape.fields, "arch"), "sm_90");
    const auto payload = nlohmann::json::parse(
        std::string_view(reinterpret_cast<const char*>(shape.entry.payload.data()), shape.entry.payload.size()));
    for (const auto& kernel : payload["kernels"]) {
      EXPECT_THAT(hashes, Contains(kernel["hash"].get<std::string>()));
      if (shape.rule == "adamw") {
        EXPECT_THAT(kernel["name"].get<std::string>(), Not(HasSubstr("muon")));
      }
      used.insert(kernel["hash"].get<std::string>());
    }
  }
  EXPECT_EQ(used, hashes) << "each kernel of the plan belongs to a shape";
}

TEST_F(CudaPlanKernels, ABundleServesAProcessThatFindsNoCompiler) {
  const auto nvrtc = Nvrtc::open(context_->settings());
  if (!nvrtc) GTEST_SKIP() << nvrtc.error().message;
  std::vector<TargetNeeds> wanted;
  wanted.push_back(needs("sm_90"));
  const auto entries = compile_needs(wanted, 2, {});
  ASSERT_TRUE(entries) << entries.error().message;
  const tests::TemporaryFolder top;
  ASSERT_TRUE(write_bundle(top / "k.sfb", *entries));
  EXPECT_TRUE(missing_from(**Bundle::open(top / "k.sfb", ::geteuid()), wanted).empty());

  Context::Options options;
  options.flags = {{"cache", "on", "test"}, {"jit", "off", "test"}, {"nvrtc", "/nowhere", "test"}};
  options.log = [](LogLevel, std::string_view) {};
  const auto context = Context::create(options).value();
  StoreOptions store = tests::store_options(top / "live");
  store.layers = {top / "k.sfb"};
  KernelCache cache(store);
  for (const auto& kernel : wanted.front().kernels) {
    const auto found = cache.find_or_compile(*context, *kernel);
    ASSERT_TRUE(found) << found.error().message;
    EXPECT_EQ(found->origin, KernelOrigin::Layer);
    const auto& code = static_cast<const CudaKernel&>(*found->kernel);
    EXPECT_EQ(code.compiled_with(), (*nvrtc)->version());
    EXPECT_FALSE(code.ptx().empty());
  }
  const auto missing = cache.find_or_compile(*context, *needs("sm_80").kernels.front());
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message, HasSubstr("arch: the entry has 'sm_90', wanted is 'sm_80'"));
}

TEST_F(CudaPlanKernels, TheFirstErrorInOrderIsReturnedWhateverTheJobs) {
  if (!Nvrtc::open(context_->settings())) GTEST_SKIP() << "there is no NVRTC";
  std::vector<TargetNeeds> wanted;
  wanted.push_back(needs("sm_90"));
  wanted.push_back(needs("sm_20"));
  const auto entries = compile_needs(wanted, 4, {});
  ASSERT_FALSE(entries);
  EXPECT_THAT(entries.error().message, HasSubstr("sm_20"));
}

struct DriverCase {
  const char* compiled_with;
  const char* driver;
  bool takes_code, takes_ptx;
};

TEST(CudaDriverVersion, PtxNeedsItsVersionAndMachineCodeItsMajorOne) {
  for (const DriverCase& c : {DriverCase{"13.0", "13.0", true, true}, DriverCase{"13.1", "13.0", true, false},
                              DriverCase{"13.0", "13.2", true, true}, DriverCase{"12.9", "13.0", true, true},
                              DriverCase{"13.0", "12.9", false, false}, DriverCase{"12.10", "12.9", true, false},
                              DriverCase{"", "12.9", true, true}, DriverCase{"x", "12.9", true, true}}) {
    SCOPED_TRACE(fmt::format("{} on {}", c.compiled_with, c.driver));
    EXPECT_EQ(check_driver_takes("k", c.compiled_with, c.driver, false).has_value(), c.takes_code);
    EXPECT_EQ(check_driver_takes("k", c.compiled_with, c.driver, true).has_value(), c.takes_ptx);
  }
  const auto refused = check_driver_takes("k", "13.1", "13.0", true);
  EXPECT_EQ(refused.error().code, StatusCode::Environment);
  EXPECT_EQ(
      refused.error().message,
      "kernel k was compiled by NVRTC 13.1, whose PTX needs a driver of CUDA 13.1 or newer; this driver is of CUDA "
      "13.0");
  EXPECT_THAT(check_driver_takes("k", "13.1", "12.9", false).error().message, HasSubstr("of CUDA 13.0 or newer"));
  EXPECT_FALSE(refused.error().hint.empty());
}

}  // namespace
}  // namespace stepfuse::runtime
