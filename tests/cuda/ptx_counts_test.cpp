// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// Forms of ld and st: PTX ISA, "Data Movement and Conversion Instructions".
#include "runtime/cuda/ptx_counts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stepfuse::runtime {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

TEST(PtxCounts, CountsByWidth) {
  const PtxCounts counts = count_accesses(R"(
.visible .entry k(
	.param .u64 k_param_0
)
{
	ld.param.u64 	%rd1, [k_param_0];
	ld.global.nc.v4.f32 	{%f1, %f2, %f3, %f4}, [%rd4];
	@%p1 ld.global.b16 %rs1, [%rd5]; @!%p2 ld.volatile.global.u8 %rs2, [%rd5];
$L__BB0_2:
	ld.global.L1::no_allocate.L2::128B.v2.b64 {%rd1, %rd2}, [%rd5];
	ld.v2.u32 {%r1, %r2}, [%rd9]; // ld.global.f64 in a comment;
	/* st.global.f64; */ st.global.v4.b32 	[%rd4], {%f9, %f2, %f3, %f4};
	{ st.release.gpu.global.u32 [%rd4], %r1; }
	ld.shared.f64 %fd1, [%r3];
	ld.const.f32 %f1, [c];
	st.shared::cta.v4.f32 [%r3], {%f1, %f1, %f1, %f1};
	st.local.f32 [%rd1], %f1;
	atom.global.add.u32 %r1, [%rd1], 1;
	cvta.to.global.u64 %rd2, %rd1;
	ret;
}
)");
  EXPECT_THAT(counts.loads, ElementsAre(Pair(1, 1), Pair(2, 1), Pair(8, 1), Pair(16, 2)));
  EXPECT_THAT(counts.stores, ElementsAre(Pair(4, 1), Pair(16, 1)));
  EXPECT_EQ(counts_text(counts.loads), "16 bytes x 2, 8 bytes x 1, 2 bytes x 1, 1 bytes x 1");
}

TEST(PtxCounts, FindsTheFirstInstructionOfABody) {
  EXPECT_THAT(count_accesses(".entry k()\n{ld.global.f32 %f1, [%rd1];}").loads, ElementsAre(Pair(4, 1)));
}

TEST(PtxCounts, OddTextsAreHarmless) {
  for (const char* text : {"", ";", "ld.", "ld.;", "//", "/*", "@", "@%p1", "a:", "ld.global", "{", "ld.v4.", ":"}) {
    const PtxCounts counts = count_accesses(text);
    EXPECT_THAT(counts.loads, IsEmpty()) << text;
    EXPECT_THAT(counts.stores, IsEmpty()) << text;
  }
  EXPECT_EQ(counts_text({}), "none");
}

}  // namespace
}  // namespace stepfuse::runtime
