// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/executor/caller.h"

#include "tests/vgpu/executor/rig.h"

namespace stepfuse::tests {

Caller::Caller(int device)
    : driver_(value_of(
          runtime::Driver::open(value_of(runtime::Settings::resolve({}, runtime::Settings::process_environment()))))),
      context_(value_of(runtime::CudaContext::open(*driver_, device))) {
  check(call().cuCtxPushCurrent(context_->handle()), "making a context current");
}

Caller::~Caller() {
  call().cuCtxSynchronize();
  for (const cuda::CUgraphExec exec : execs_) call().cuGraphExecDestroy(exec);
  for (const cuda::CUgraph graph : graphs_) call().cuGraphDestroy(graph);
  for (const cuda::CUstream stream : streams_) call().cuStreamDestroy(stream);
  cuda::CUcontext popped = nullptr;
  call().cuCtxPopCurrent(&popped);
}

void Caller::check(cuda::CUresult result, const char* doing) const { tests::check(driver_->check(result, doing)); }

cuda::CUstream Caller::make_stream() {
  check(call().cuStreamCreate(&streams_.emplace_back(nullptr), cuda::CU_STREAM_NON_BLOCKING), "making a stream");
  return streams_.back();
}

void Caller::synchronize(cuda::CUstream stream) const { check(call().cuStreamSynchronize(stream), "waiting"); }

void Caller::begin_capture(cuda::CUstream stream) const {
  check(call().cuStreamBeginCapture(stream, cuda::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), "beginning to capture");
}

cuda::CUgraphExec Caller::end_capture(cuda::CUstream stream) {
  check(call().cuStreamEndCapture(stream, &graphs_.emplace_back(nullptr)), "ending a capture");
  check(call().cuGraphInstantiateWithFlags(&execs_.emplace_back(nullptr), graphs_.back(), 0), "making a graph");
  return execs_.back();
}

void Caller::launch(cuda::CUgraphExec graph, cuda::CUstream stream, int times) const {
  for (int i = 0; i < times; ++i) check(call().cuGraphLaunch(graph, stream), "launching a graph");
}

}  // namespace stepfuse::tests
