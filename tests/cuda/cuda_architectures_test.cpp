// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// Which code serves which device: CUDA programming guide, "Compute Capabilities" (binary, PTX, architecture- and
// family-specific compatibility).
#include "runtime/cuda/cuda_architectures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stepfuse::runtime {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

CudaArch arch(std::string_view text) { return parse_cuda_arch(text).value(); }

TEST(CudaArchitectures, Parse) {
  EXPECT_EQ(arch("sm_90"), (CudaArch{90, 0, true}));
  EXPECT_EQ(arch("sm_90a"), (CudaArch{90, 'a', true}));
  EXPECT_EQ(arch("compute_103f"), (CudaArch{103, 'f', false}));
  for (const char* name : {"sm_80", "sm_100f", "compute_120a"}) EXPECT_EQ(arch(name).name(), name);
  EXPECT_EQ(arch("sm_90a").name_as_ptx(), "compute_90a");
  for (const char* text : {"", "sm", "sm_", "sm_a", "sm_9", "sm_090", "sm_-90", "sm_90b", "sm_90aa", "sm90", "sm_90 ",
                           "compute", "lto_90", "SM_90", "sm_99999999999"})
    EXPECT_FALSE(parse_cuda_arch(text)) << text;
  EXPECT_EQ(capability_text(90), "9.0");
  EXPECT_EQ(capability_text(121), "12.1");
}

TEST(CudaArchitectures, ParseLists) {
  EXPECT_THAT(parse_cuda_archs("sm_80,compute_90,sm_80").value(), ElementsAre(arch("sm_80"), arch("compute_90")));
  for (const char* text : {"", "sm_80,", ",sm_80", "sm_80,x", "sm_80 sm_90"}) {
    const auto parsed = parse_cuda_archs(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_THAT(parsed.error().hint, HasSubstr("sm_90a"));
  }
}

TEST(CudaArchitectures, MachineCodeServesItsMajorFromItsMinorOn) {
  for (const int device : {80, 86, 89}) EXPECT_TRUE(cubin_serves(arch("sm_80"), device)) << device;
  for (const int device : {75, 90, 100}) EXPECT_FALSE(cubin_serves(arch("sm_80"), device)) << device;
  EXPECT_FALSE(cubin_serves(arch("sm_86"), 80));
  EXPECT_TRUE(cubin_serves(arch("sm_100"), 103));
  EXPECT_FALSE(cubin_serves(arch("sm_103"), 100));
  EXPECT_TRUE(cubin_serves(arch("sm_120"), 121));
  EXPECT_FALSE(cubin_serves(arch("compute_80"), 80));
}

TEST(CudaArchitectures, EmbeddedDevicesShareNoMachineCode) {
  EXPECT_FALSE(cubin_serves(arch("sm_80"), 87));
  EXPECT_FALSE(cubin_serves(arch("sm_87"), 89));
  EXPECT_TRUE(cubin_serves(arch("sm_87"), 87));
  EXPECT_TRUE(ptx_serves(arch("compute_80"), 87));
}

TEST(CudaArchitectures, Suffixes) {
  EXPECT_TRUE(cubin_serves(arch("sm_90a"), 90));
  EXPECT_FALSE(cubin_serves(arch("sm_100a"), 103));
  EXPECT_FALSE(ptx_serves(arch("compute_90a"), 100));
  EXPECT_TRUE(ptx_serves(arch("compute_90a"), 90));
  EXPECT_TRUE(cubin_serves(arch("sm_100f"), 103));
  EXPECT_FALSE(cubin_serves(arch("sm_103f"), 100));
  EXPECT_TRUE(ptx_serves(arch("compute_120f"), 121));
  EXPECT_FALSE(ptx_serves(arch("compute_100f"), 120));
}

TEST(CudaArchitectures, PtxServesWhatIsNotBelowIt) {
  EXPECT_TRUE(ptx_serves(arch("compute_80"), 129));
  EXPECT_TRUE(ptx_serves(arch("sm_90"), 120));  // the PTX of the same compile
  EXPECT_FALSE(ptx_serves(arch("compute_90"), 89));
}

std::vector<std::string> names_for(int device) {
  std::vector<std::string> names;
  for (const CudaArch& arch : archs_for_device(device)) names.push_back(arch.name());
  return names;
}

TEST(CudaArchitectures, ADeviceGetsItsMachineCodeThenPtxThenWhatCarriesPtx) {
  using testing::ElementsAre;
  EXPECT_THAT(names_for(80), ElementsAre("sm_80", "compute_80", "compute_75", "sm_75"));
  EXPECT_EQ(names_for(90).front(), "sm_90");
  EXPECT_EQ(names_for(129).front(), "sm_121");
  EXPECT_EQ(names_for(200).front(), "compute_121");
  EXPECT_THAT(names_for(70), ElementsAre());
}

}  // namespace
}  // namespace stepfuse::runtime
