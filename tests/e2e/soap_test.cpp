// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// SOAP, MOP, PolarGrad and Scion as a user runs them: states of other shapes than the parameter, checkpoints, CPU
// against interpreter, what they refuse. Agreement with the package is the goldens' part.
#include "tests/e2e/cli_harness.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stepfuse::e2e {
namespace {

using testing::HasSubstr;

constexpr const char* kFiles = " --params p.safetensors --grads g.safetensors ";

void write_matrix(const CliFolder& folder, std::vector<int64_t> shape) {
  folder.write("p.safetensors", {{"w", random_f32(shape, 1)}});
  folder.write("g.safetensors", {{"w", random_f32(shape, 2)}});
}

FileTensors run(const CliFolder& folder, const std::string& arguments, const std::string& out) {
  const auto result = folder.run("run" + arguments + kFiles + "--out " + out + " --state-out s_" + out);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return folder.read(out);
}

/// The distance of two parameters, relative to the update from `before`.
double relative_error(const FileTensor& a, const FileTensor& b, const FileTensor& before) {
  double error = 0, update = 0;
  const std::vector<float> x = floats(a), y = floats(b), p = floats(before);
  for (size_t i = 0; i < x.size(); ++i) {
    error += std::pow(double{x[i]} - double{y[i]}, 2);
    update += std::pow(double{y[i]} - double{p[i]}, 2);
  }
  return std::sqrt(error / update);
}

TEST(Soap, KeepsStatesOfItsOwnShapes) {
  const CliFolder folder;
  write_matrix(folder, {6, 4});
  run(folder, " --recipe soap --target cpu", "o.safetensors");
  const FileTensors states = folder.read("s_o.safetensors");
  using Shape = std::vector<int64_t>;
  for (const auto& [key, shape] :
       {std::pair("exp_avg", Shape{6, 4}), std::pair("exp_avg_sq", Shape{6, 4}), std::pair("L", Shape{6, 6}),
        std::pair("R", Shape{4, 4}), std::pair("Q_L", Shape{6, 6}), std::pair("Q_R", Shape{4, 4})})
    EXPECT_EQ(states.at("w." + std::string(key)).shape, shape) << key;
}

/// A checkpoint between two steps changes no bit, on the CPU and on the interpreter.
TEST(Soap, ACheckpointIsNoStep) {
  for (const char* target : {"cpu", "interp"}) {
    const CliFolder folder;
    write_matrix(folder, {5, 7});
    const std::string options = fmt::format(" --recipe soap --set eps=0.01 --target {}", target);
    const FileTensors both = run(folder, options + " --steps 2", "both.safetensors");
    const FileTensors one = run(folder, options, "one.safetensors");
    folder.write("p.safetensors", one);
    EXPECT_EQ(run(folder, options + " --state s_one.safetensors", "two.safetensors"), both) << target;
    EXPECT_EQ(folder.read("s_two.safetensors"), folder.read("s_both.safetensors")) << target;
  }
}

/// In the statistics' own basis the first gradient is diagonal, and what lies beside its diagonal is rounding, some
/// 1e-5 for the largest matrix here, which Adam divides by itself plus eps: an eps of 1 keeps it what it is. The
/// design's bound for SOAP is 2e-4.
TEST(Soap, TheCpuAgreesWithTheInterpreter) {
  for (const char* set : {"", " --set use_eigh=true", " --set use_kl_shampoo=true", " --set power_iter_steps=2",
                          " --set nesterov=true --set max_update_rms=0.1", " --set correct_bias=false"})
    for (const auto& shape : std::vector<std::vector<int64_t>>{{8, 8}, {1, 6}, {6, 1}, {1, 1}, {40, 40}}) {
      const CliFolder folder;
      write_matrix(folder, shape);
      const std::string options = fmt::format(" --recipe soap --set lr=0.1 --set eps=1 --steps 3{}", set);
      const FileTensor before = folder.read("p.safetensors").at("w");
      const FileTensor cpu = run(folder, options + " --target cpu", "cpu.safetensors").at("w");
      const FileTensor interpreted = run(folder, options + " --target interp", "interp.safetensors").at("w");
      EXPECT_LE(relative_error(cpu, interpreted, before), 2e-4) << set << " " << shape[0] << "x" << shape[1];
    }
}

/// Claims of equal bits end at a library call, but on one machine neither fusion nor threads change what goes in.
TEST(LibraryRecipes, StrictBitsDependOnNeitherFusionNorThreads) {
  for (const char* recipe : {"soap", "mop"}) {
    const CliFolder folder;
    write_matrix(folder, {12, 20});
    const std::string options = fmt::format(" --recipe {} --mode strict --steps 3 --target cpu", recipe);
    const FileTensors fused = run(folder, options + " --threads 1", "fused.safetensors");
    EXPECT_EQ(run(folder, options + " --threads 3", "threads.safetensors"), fused) << recipe;
    EXPECT_EQ(run(folder, options + " --disable fuse,reuse_memory", "plain.safetensors"), fused) << recipe;
    EXPECT_EQ(folder.read("s_plain.safetensors"), folder.read("s_fused.safetensors")) << recipe;
  }
}

/// The eigenvectors of the first step come by eigh, those of later steps by QR: both count as library calls.
TEST(Soap, ExplainCountsItsLibraryCalls) {
  const CliFolder folder;
  const auto result = folder.run("explain --recipe soap --shape 12x20 --target cpu");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("10 library calls"));
  EXPECT_THAT(result.out, HasSubstr("eigh of 12 x 12 by openblas ssyevd"));
  EXPECT_THAT(result.out, HasSubstr("qr of 20 x 20 by openblas sgeqrf"));
}

TEST(Soap, ZeroAndNaNGradientsEnd) {
  const CliFolder folder;
  folder.write("p.safetensors", {{"w", random_f32({3, 4}, 1)}});
  folder.write("g.safetensors", {{"w", f32({3, 4}, std::vector<float>(12))}});
  const std::string options = " --recipe soap --set weight_decay=0 --steps 3 --target cpu";
  EXPECT_EQ(run(folder, options, "o.safetensors"), folder.read("p.safetensors"));
  folder.write("g.safetensors", {{"w", f32({3, 4}, std::vector<float>(12, NAN))}});
  for (const float value : floats(run(folder, options, "o.safetensors").at("w"))) EXPECT_TRUE(std::isnan(value));
}

TEST(Soap, RefusesWhatIsNoMatrix) {
  const auto result = CliFolder().run("explain --recipe soap --shape 8");
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.err, HasSubstr("soap takes matrices (2 dimensions); this parameter has 1"));
}

TEST(Soap, StatesOfA16BitParameterAreF32) {
  const CliFolder folder;
  folder.write("p.safetensors", {{"w", random_bf16({6, 4}, 1)}});
  folder.write("g.safetensors", {{"w", random_bf16({6, 4}, 2)}});
  EXPECT_EQ(run(folder, " --recipe soap --target cpu", "o.safetensors").at("w").dtype, "BF16");
  for (const auto& [name, state] : folder.read("s_o.safetensors")) EXPECT_EQ(state.dtype, "F32") << name;
}

/// Before anything is compiled or looked for.
TEST(LibraryRecipes, AreRefusedOnDevicesByTheNameOfTheCall) {
  const CliFolder folder;
  for (const auto& [recipe, op] : {std::pair("soap", "eigh, qr, sortcols are"), std::pair("mop", "svd is")}) {
    for (const char* command : {"inspect --stage plan --target sm_90 --shape 8x8", "explain --target sm_90 --shape 8x8",
                                "aot --target sm_90 --shape 8x8 -o b.sfb"}) {
      const auto result = folder.run(fmt::format("{} --recipe {}", command, recipe));
      EXPECT_EQ(result.exit_code, 2) << command;
      EXPECT_THAT(result.err, HasSubstr(fmt::format("rule {}: {} not yet tested on a device", recipe, op))) << command;
      EXPECT_THAT(result.err, HasSubstr("use target cpu")) << command;
    }
  }
  EXPECT_TRUE(folder.files().empty());
}

TEST(Mop, TheUpdateIsThePolarFactorTimesTheNuclearNorm) {
  for (const char* target : {"cpu", "interp"}) {
    const CliFolder folder;
    folder.write("p.safetensors", {{"w", f32({2, 2}, {0, 0, 0, 0})}});
    folder.write("g.safetensors", {{"w", f32({2, 2}, {0, 3, -4, 0})}});
    const std::string options = fmt::format(
        " --recipe mop --set lr=0.5 --set momentum=0 --set weight_decay=0 --set extra_scale_factor=2 --target {}",
        target);
    const std::vector<float> w = floats(run(folder, options, "o.safetensors").at("w"));
    const std::vector<float> expected{0, -7, 7, 0};
    for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(w[i], expected[i], 1e-5) << target;
  }
}

TEST(Mop, TheCpuAgreesWithTheInterpreter) {
  for (const char* set : {"", " --set nesterov=true", " --set scale_mode=spectral", " --set weight_decay_method=palm"})
    for (const auto& shape : std::vector<std::vector<int64_t>>{{9, 9}, {8, 20}, {20, 8}, {1, 7}, {7, 1}}) {
      const CliFolder folder;
      write_matrix(folder, shape);
      const std::string options = fmt::format(" --recipe mop --set lr=0.1 --steps 2{}", set);
      const FileTensor before = folder.read("p.safetensors").at("w");
      const FileTensor cpu = run(folder, options + " --target cpu", "cpu.safetensors").at("w");
      const FileTensor interpreted = run(folder, options + " --target interp", "interp.safetensors").at("w");
      // A rounding over the smallest singular value, as for Newton-Schulz in f32.
      EXPECT_LE(relative_error(cpu, interpreted, before), 5e-5) << set << " " << shape[0] << "x" << shape[1];
    }
}

/// Without iterations PolarGrad steps along the normalised direction times its products with it: along the direction.
TEST(PolarGrad, WithoutIterationsIsMomentum) {
  for (const char* target : {"cpu", "interp"}) {
    const CliFolder folder;
    folder.write("p.safetensors", {{"w", f32({2, 2}, {0, 0, 0, 0})}});
    folder.write("g.safetensors", {{"w", f32({2, 2}, {3, 0, 0, 4})}});
    const std::string options = fmt::format(
        " --recipe polargrad --set lr=0.5 --set momentum=0 --set weight_decay=0 --set num_ns_steps=0 --target {}",
        target);
    const std::vector<float> w = floats(run(folder, options, "o.safetensors").at("w"));
    const std::vector<float> expected{-1.5F, 0, 0, -2};
    for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(w[i], expected[i], 1e-6) << target;
  }
}

/// A Frank-Wolfe step of length 1 ends on the ball's surface, wherever it began.
TEST(Scion, AStepOfLengthOneForgetsTheParameter) {
  for (const char* target : {"cpu", "interp"}) {
    const CliFolder folder;
    write_matrix(folder, {6, 6});
    const std::string options = fmt::format(" --recipe scion --set lr=1 --target {}", target);
    const std::vector<float> from_random = floats(run(folder, options, "o.safetensors").at("w"));
    folder.write("p.safetensors", {{"w", f32({6, 6}, std::vector<float>(36))}});
    const std::vector<float> from_zero = floats(run(folder, options, "z.safetensors").at("w"));
    for (size_t i = 0; i < 36; ++i) EXPECT_NEAR(from_random[i], from_zero[i], 1e-6) << target;
  }
}

}  // namespace
}  // namespace stepfuse::e2e
