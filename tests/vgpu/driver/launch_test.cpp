// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/driver/test_driver.h"

#include <fmt/format.h>

namespace stepfuse::vgpu::test {
namespace {

// Each thread of `fill` stores `value` at out[its index in the grid]; `bounded` and `shared` only have limits.
constexpr const char* kPtx = R"(.version 9.0
.target sm_90
.address_size 64

.global .align 4 .u32 answer = 42;

.visible .entry fill(.param .u64 out, .param .u32 value)
{
  .reg .b32 %r<6>;
  .reg .b64 %rd<5>;
  ld.param.u64 %rd1, [out];
  ld.param.u32 %r1, [value];
  cvta.to.global.u64 %rd2, %rd1;
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.s32 %r5, %r2, %r3, %r4;
  mul.wide.u32 %rd3, %r5, 4;
  add.s64 %rd4, %rd2, %rd3;
  st.global.u32 [%rd4], %r1;
  ret;
}

.visible .entry bounded()
.maxntid 64, 1, 1
{
  ret;
}

.visible .entry shared()
{
  .shared .align 16 .b8 room[40960];
  .reg .b32 %r<3>;
  mov.u32 %r1, room;
  mov.u32 %r2, 1;
  st.shared.u32 [%r1], %r2;
  ret;
}

.visible .entry stuck()
{
  trap;
  ret;
}
)";

class Launches : public DriverTest {
 protected:
  void SetUp() override {
    DriverTest::SetUp();
    load();
  }
  void load() { ASSERT_CUDA(api().cuLibraryLoadData(&library_, kPtx, nullptr, nullptr, 0, nullptr, nullptr, 0)); }
  CUkernel kernel(const char* name) {
    CUkernel found = nullptr;
    EXPECT_CUDA(api().cuLibraryGetKernel(&found, library_, name));
    return found;
  }
  CUfunction function(const char* name) {
    CUfunction found = nullptr;
    EXPECT_CUDA(api().cuKernelGetFunction(&found, kernel(name)));
    return found;
  }
  CUresult fill(CUdeviceptr out, unsigned value, unsigned blocks, unsigned threads, CUstream stream) {
    void* parameters[] = {&out, &value};
    return api().cuLaunchKernel(function("fill"), blocks, 1, 1, threads, 1, 1, 0, stream, parameters, nullptr);
  }
  CUresult launch(const char* name, unsigned grid, unsigned x, unsigned y = 1, unsigned z = 1, unsigned shared = 0) {
    return api().cuLaunchKernel(function(name), grid, 1, 1, x, y, z, shared, make_stream(), nullptr, nullptr);
  }
  CUresult load_text(const std::string& ptx, std::string* log = nullptr) {
    char buffer[512] = {};
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void* values[] = {buffer, reinterpret_cast<void*>(sizeof buffer)};
    CUlibrary library = nullptr;
    const CUresult result = api().cuLibraryLoadData(&library, ptx.c_str(), options, values, 2, nullptr, nullptr, 0);
    if (log) *log = buffer;
    return result;
  }
  CUlibrary library_ = nullptr;
};

TEST_F(Launches, RunAndCopyTheirParameters) {
  CUstream stream = make_stream();
  const CUdeviceptr out = allocate(64 * 4);
  CUdeviceptr address = out;
  unsigned value = 7;
  void* parameters[] = {&address, &value};
  ASSERT_CUDA(api().cuLaunchKernel(function("fill"), 2, 1, 1, 32, 1, 1, 0, stream, parameters, nullptr));
  address = 0;
  value = 8;
  ASSERT_CUDA(api().cuStreamSynchronize(stream));
  for (CUdeviceptr i = 0; i < 64; ++i) EXPECT_EQ(word_at(out + 4 * i), 7U);
  EXPECT_EQ(counters().kernels_run, 1U);
}

TEST_F(Launches, TakeAParameterBlock) {
  struct {
    CUdeviceptr out;
    unsigned value;
  } block{allocate(4), 5};
  size_t bytes = 12;
  void* extra[] = {launch_param_buffer_pointer(), &block, launch_param_buffer_size(), &bytes, launch_param_end()};
  CUstream stream = make_stream();
  ASSERT_CUDA(api().cuLaunchKernel(function("fill"), 1, 1, 1, 1, 1, 1, 0, stream, nullptr, extra));
  ASSERT_CUDA(api().cuStreamSynchronize(stream));
  EXPECT_EQ(word_at(block.out), 5U);
  bytes = 16;
  EXPECT_EQ(api().cuLaunchKernel(function("fill"), 1, 1, 1, 1, 1, 1, 0, stream, nullptr, extra),
            CUDA_ERROR_INVALID_VALUE);
}

// Limits: "Technical Specifications per Compute Capability" in the CUDA programming guide.
TEST_F(Launches, HaveLimits) {
  EXPECT_CUDA(launch("shared", 1, 1024));
  EXPECT_EQ(launch("shared", 1, 1025), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(launch("shared", 1, 32, 33), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(launch("shared", 1, 1, 1, 65), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(launch("shared", 0, 32), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(launch("shared", 0x80000000U, 32), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CUDA(launch("bounded", 1, 64));
  EXPECT_EQ(launch("bounded", 1, 65), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CUDA(api().cuCtxSynchronize());
}

TEST_F(Launches, NeedAnOptInForMuchSharedMemory) {
  EXPECT_CUDA(launch("shared", 1, 32, 1, 1, (48 << 10) - 40960));
  EXPECT_EQ(launch("shared", 1, 32, 1, 1, (48 << 10) - 40960 + 1), CUDA_ERROR_INVALID_VALUE);
  const auto attribute = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
  EXPECT_EQ(api().cuKernelSetAttribute(attribute, (227 << 10) - 40960 + 1, kernel("shared"), 0),
            CUDA_ERROR_INVALID_VALUE);
  ASSERT_CUDA(api().cuKernelSetAttribute(attribute, 100 << 10, kernel("shared"), 0));
  EXPECT_CUDA(launch("shared", 1, 32, 1, 1, 100 << 10));
  EXPECT_EQ(launch("shared", 1, 32, 1, 1, (100 << 10) + 1), CUDA_ERROR_INVALID_VALUE);
  int value = 0;
  ASSERT_CUDA(api().cuKernelGetAttribute(&value, attribute, kernel("shared"), 0));
  EXPECT_EQ(value, 100 << 10);
  ASSERT_CUDA(api().cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function("shared")));
  EXPECT_EQ(value, 40960);
  ASSERT_CUDA(api().cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function("bounded")));
  EXPECT_EQ(value, 64);
}

TEST_F(Launches, CooperativeGridsMustBeResident) {
  CUlaunchAttribute attribute{};
  attribute.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
  attribute.value.cooperative = 1;
  int blocks = 0;
  // 228 KiB hold 5 blocks of 40 KiB and the 1 KiB that each block is charged.
  ASSERT_CUDA(api().cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function("shared"), 64, 0));
  EXPECT_EQ(blocks, 5);
  CUlaunchConfig config{5 * 132, 1, 1, 64, 1, 1, 0, make_stream(), &attribute, 1};
  EXPECT_CUDA(api().cuLaunchKernelEx(&config, function("shared"), nullptr, nullptr));
  config.gridDimX += 1;
  EXPECT_EQ(api().cuLaunchKernelEx(&config, function("shared"), nullptr, nullptr),
            CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
  attribute.id = static_cast<CUlaunchAttributeID>(4);  // cluster dimension
  EXPECT_EQ(api().cuLaunchKernelEx(&config, function("shared"), nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(counters().unknown, 1U);
}

TEST_F(Launches, AFaultSticks) {
  CUstream stream = make_stream();
  const CUdeviceptr out = allocate(31 * 4);
  CUfunction bounded = function("bounded");
  const auto launch_again = [&] {
    return api().cuLaunchKernel(bounded, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr);
  };
  ASSERT_CUDA(fill(out, 1, 1, 32, stream));  // one word too far
  EXPECT_EQ(api().cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(api().cuMemsetD32Async(out, 0, 1, stream), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(launch_again(), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(api().cuStreamDestroy(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_NE(std::string(api().last_fault()).find("fill"), std::string::npos) << api().last_fault();
}

TEST_F(Launches, MisalignedAndTrappedKernelsFault) {
  CUstream stream = make_stream();
  ASSERT_CUDA(fill(allocate(64) + 2, 1, 1, 1, stream));
  EXPECT_EQ(api().cuStreamSynchronize(stream), CUDA_ERROR_MISALIGNED_ADDRESS);
  restart({});
  load();
  ASSERT_CUDA(launch("stuck", 1, 1));
  EXPECT_EQ(api().cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_INSTRUCTION);
}

TEST_F(Launches, GraphNodesTakeNewParameters) {
  CUstream stream = make_stream();
  CUdeviceptr out = allocate(4);
  ASSERT_CUDA(api().cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  ASSERT_CUDA(fill(out, 1, 1, 1, stream));
  CUgraph graph = nullptr;
  ASSERT_CUDA(api().cuStreamEndCapture(stream, &graph));
  CUgraphNode node = nullptr;
  size_t count = 1;
  ASSERT_CUDA(api().cuGraphGetNodes(graph, &node, &count));
  CUgraphExec exec = nullptr;
  ASSERT_CUDA(api().cuGraphInstantiateWithFlags(&exec, graph, 0));
  ASSERT_CUDA(api().cuGraphLaunch(exec, stream));
  unsigned value = 2;
  void* parameters[] = {&out, &value};
  CUDA_KERNEL_NODE_PARAMS node_parameters{function("fill"), 1, 1, 1, 1, 1, 1, 0, parameters, nullptr, nullptr, nullptr};
  ASSERT_CUDA(api().cuGraphExecKernelNodeSetParams(exec, node, &node_parameters));
  // The launch in flight keeps its parameters.
  ASSERT_CUDA(api().cuStreamSynchronize(stream));
  EXPECT_EQ(word_at(out), 1U);
  ASSERT_CUDA(api().cuGraphLaunch(exec, stream));
  ASSERT_CUDA(api().cuStreamSynchronize(stream));
  EXPECT_EQ(word_at(out), 2U);
  node_parameters.blockDimX = 2000;
  EXPECT_EQ(api().cuGraphExecKernelNodeSetParams(exec, node, &node_parameters), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Launches, GraphsAreBuiltOfKernelsAndCopies) {
  const CUdeviceptr out = allocate(8);
  CUdeviceptr to = out;
  unsigned value = 6;
  uint32_t source = 5, result[2] = {};
  void* parameters[] = {&to, &value};
  CUgraph graph = nullptr;
  ASSERT_CUDA(api().cuGraphCreate(&graph, 0));
  CUgraphNode nodes[3] = {};
  CUDA_KERNEL_NODE_PARAMS kernel_node{nullptr, 1, 1, 1, 1, 1, 1, 0, parameters, nullptr, kernel("fill"), context_};
  ASSERT_CUDA(api().cuGraphAddKernelNode(&nodes[0], graph, nullptr, 0, &kernel_node));
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = &source;
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = out;
  copy.dstXInBytes = copy.WidthInBytes = 4;
  copy.Height = copy.Depth = 1;
  ASSERT_CUDA(api().cuGraphAddMemcpyNode(&nodes[1], graph, nullptr, 0, &copy, context_));
  copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = out;
  copy.dstMemoryType = CU_MEMORYTYPE_HOST;
  copy.dstHost = result;
  copy.dstXInBytes = 0;
  copy.WidthInBytes = 8;
  ASSERT_CUDA(api().cuGraphAddMemcpyNode(&nodes[2], graph, nodes, 2, &copy, context_));
  CUgraphExec exec = nullptr;
  ASSERT_CUDA(api().cuGraphInstantiateWithFlags(&exec, graph, 0));
  CUstream stream = make_stream();
  ASSERT_CUDA(api().cuGraphLaunch(exec, stream));
  ASSERT_CUDA(api().cuStreamSynchronize(stream));
  EXPECT_EQ(result[0], 6U);
  EXPECT_EQ(result[1], 5U);
  kernel_node.ctx = reinterpret_cast<CUcontext>(0x10);
  EXPECT_EQ(api().cuGraphAddKernelNode(&nodes[0], graph, nullptr, 0, &kernel_node), CUDA_ERROR_INVALID_CONTEXT);
  copy.Height = 2;
  EXPECT_EQ(api().cuGraphAddMemcpyNode(&nodes[2], graph, nodes, 2, &copy, context_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(counters().unknown, 1U);
}

TEST_F(Launches, AFunctionBelongsToItsContext) {
  CUfunction of_primary = function("bounded");
  CUcontext own = nullptr;
  ASSERT_CUDA(api().cuCtxCreate(&own, 0, 0));
  EXPECT_EQ(api().cuLaunchKernel(of_primary, 1, 1, 1, 1, 1, 1, 0, make_stream(), nullptr, nullptr),
            CUDA_ERROR_INVALID_CONTEXT);
  // A kernel of the library serves in each.
  EXPECT_CUDA(api().cuLaunchKernel(reinterpret_cast<CUfunction>(kernel("bounded")), 1, 1, 1, 1, 1, 1, 0, make_stream(),
                                   nullptr, nullptr));
  EXPECT_CUDA(api().cuCtxSynchronize());
}

TEST_F(Launches, EachDeviceLoadsTheLibrary) {
  restart({{"VGPU_DEVICES", "2"}});
  load();
  CUcontext second = nullptr;
  ASSERT_CUDA(api().cuDevicePrimaryCtxRetain(&second, 1));
  ASSERT_CUDA(api().cuCtxSetCurrent(second));
  const CUdeviceptr out = allocate(4);
  CUstream stream = make_stream();
  ASSERT_CUDA(fill(out, 3, 1, 1, stream));
  ASSERT_CUDA(api().cuStreamSynchronize(stream));
  EXPECT_EQ(word_at(out), 3U);
  CUdeviceptr on_first = 0, on_second = 0;
  ASSERT_CUDA(api().cuLibraryGetGlobal(&on_second, nullptr, library_, "answer"));
  ASSERT_CUDA(api().cuCtxSetCurrent(context_));
  ASSERT_CUDA(api().cuLibraryGetGlobal(&on_first, nullptr, library_, "answer"));
  EXPECT_NE(on_first, on_second);
}

TEST_F(Launches, VariablesAreReached) {
  CUdeviceptr address = 0;
  size_t bytes = 0;
  ASSERT_CUDA(api().cuLibraryGetGlobal(&address, &bytes, library_, "answer"));
  EXPECT_EQ(bytes, 4U);
  EXPECT_EQ(word_at(address), 42U);
  EXPECT_EQ(api().cuLibraryGetGlobal(&address, &bytes, library_, "question"), CUDA_ERROR_NOT_FOUND);
  CUkernel missing = nullptr;
  EXPECT_EQ(api().cuLibraryGetKernel(&missing, library_, "missing"), CUDA_ERROR_NOT_FOUND);
}

TEST_F(Launches, UnloadedKernelsAreGone) {
  CUstream stream = make_stream();
  CUfunction fill_function = function("fill");
  ASSERT_CUDA(api().cuLibraryUnload(library_));
  CUdeviceptr out = allocate(4);
  unsigned value = 1;
  void* parameters[] = {&out, &value};
  EXPECT_EQ(api().cuLaunchKernel(fill_function, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr),
            CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(Launches, QueuedKernelsOfAnUnloadedLibraryFault) {
  api().set_eager(0);
  CUstream stream = make_stream();
  ASSERT_CUDA(fill(allocate(4), 1, 1, 1, stream));
  ASSERT_CUDA(api().cuLibraryUnload(library_));
  EXPECT_EQ(api().cuStreamSynchronize(stream), CUDA_ERROR_LAUNCH_FAILED);
}

TEST_F(Launches, OnlyPtxOfThisDriverAndDeviceLoads) {
  const auto header = [](const char* version, const char* target) {
    return fmt::format(".version {}\n.target {}\n.address_size 64\n.visible .entry k()\n{{\n  ret;\n}}\n", version,
                       target);
  };
  std::string log;
  EXPECT_CUDA(load_text(header("9.0", "sm_90")));
  EXPECT_CUDA(load_text(header("8.0", "sm_75")));
  EXPECT_EQ(load_text(header("9.1", "sm_90"), &log), CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
  EXPECT_NE(log.find("9.1"), std::string::npos) << log;
  EXPECT_EQ(load_text(header("9.0", "sm_130"), &log), CUDA_ERROR_INVALID_PTX);
  EXPECT_NE(log.find("sm_130"), std::string::npos) << log;
  EXPECT_EQ(load_text(header("9.0", "sm_90a")), CUDA_ERROR_INVALID_PTX);
  EXPECT_EQ(load_text("no PTX"), CUDA_ERROR_INVALID_PTX);
  EXPECT_EQ(load_text("\x7f"
                      "ELF"),
            CUDA_ERROR_NO_BINARY_FOR_GPU);
  EXPECT_EQ(load_text(header("9.0", "sm_90") + ".visible .entry broken() { frobnicate.b32; }", &log),
            CUDA_ERROR_INVALID_PTX);
  EXPECT_FALSE(log.empty());
}

}  // namespace
}  // namespace stepfuse::vgpu::test
