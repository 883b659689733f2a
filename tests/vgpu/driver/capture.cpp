// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0

// Stream capture, as "Stream Capture" in the CUDA programming guide and the driver API's reference of
// cuStreamBeginCapture, cuStreamEndCapture and cuThreadExchangeStreamCaptureMode describe it.
#include "tests/vgpu/driver/call.h"

#include <algorithm>

namespace stepfuse::vgpu::driver {
namespace {

/// Whether a call that might be unsafe would break this capture, in the calling thread's mode.
bool forbids(const Capture& capture) {
  const CUstreamCaptureMode mode = thread_capture_mode();
  if (mode == CU_STREAM_CAPTURE_MODE_RELAXED) return false;
  const bool own = capture.thread == std::this_thread::get_id();
  if (own && capture.mode != CU_STREAM_CAPTURE_MODE_RELAXED) return true;
  return mode == CU_STREAM_CAPTURE_MODE_GLOBAL && capture.mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

/// Whether each of the nodes is one of `heads` or comes before one.
bool reaches(const std::vector<GraphNode*>& heads, const std::vector<GraphNode*>& nodes) {
  std::unordered_set<const GraphNode*> seen;
  std::vector<GraphNode*> open = heads;
  while (!open.empty()) {
    GraphNode* node = open.back();
    open.pop_back();
    if (seen.insert(node).second) open.insert(open.end(), node->after.begin(), node->after.end());
  }
  return std::all_of(nodes.begin(), nodes.end(), [&](GraphNode* node) { return seen.contains(node); });
}

CUstreamCaptureStatus status_of(const Stream& stream) {
  if (!stream.capture) return CU_STREAM_CAPTURE_STATUS_NONE;
  return stream.capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

void forget(const std::shared_ptr<Capture>& capture) {
  for (Stream* stream : capture->streams) {
    stream->heads.clear();
    stream->capture.reset();
  }
  std::erase(driver().captures, capture);
}

}  // namespace

void invalidate(Capture& capture) { capture.invalid = true; }

void forget_captures(const Context& context) {
  const auto captures = driver().captures;
  for (const auto& capture : captures) {
    if (capture->origin->context.get() != &context) continue;
    forget(capture);
    discard_graph(*capture->graph);
  }
}

void refuse_in_capture(const char* what) {
  bool forbidden = false;
  for (const auto& capture : driver().captures) {
    if (!capture->invalid && forbids(*capture)) {
      invalidate(*capture);
      forbidden = true;
    }
  }
  if (forbidden) refuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, fmt::format("{} while a stream is capturing", what));
}

void refuse_if_capturing(Stream& stream, const char* what) {
  if (!stream.capture) return;
  if (stream.capture->invalid) refuse(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "the capture is invalid already");
  invalidate(*stream.capture);
  refuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, fmt::format("{} of a capturing stream", what));
}

void refuse_default_stream_in_capture(Stream& stream) {
  if (!stream.legacy) return;
  bool broken = false;
  for (const auto& capture : driver().captures) {
    if (!capture->blocking || capture->origin->context != stream.context) continue;
    invalidate(*capture);
    broken = true;
  }
  if (broken) {
    refuse(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, "the default stream waits for streams that are capturing");
  }
}

GraphNode* add_node(Graph& graph, std::shared_ptr<const Work> work, std::vector<GraphNode*> after) {
  auto node = std::make_unique<GraphNode>();
  node->handle = reinterpret_cast<CUgraphNode>(next_handle());
  node->graph = &graph;
  node->work = std::move(work);
  node->after = std::move(after);
  driver().nodes[node->handle] = node.get();
  return graph.nodes.emplace_back(std::move(node)).get();
}

void discard_graph(Graph& graph) {
  for (const auto& node : graph.nodes) driver().nodes.erase(node->handle);
  driver().graphs.remove(graph.handle);
}

}  // namespace stepfuse::vgpu::driver

using namespace stepfuse::vgpu::driver;

VGPU_EXPORT(cuStreamBeginCapture_v2)(CUstream handle, CUstreamCaptureMode mode) {
  return context_call("cuStreamBeginCapture_v2", [&](Driver& d, Context&) {
    d.note("mode", static_cast<unsigned>(mode));
    auto stream = find_stream(handle);
    require(mode <= CU_STREAM_CAPTURE_MODE_RELAXED, CUDA_ERROR_INVALID_VALUE, "no such mode");
    require(!stream->legacy, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "the default stream cannot capture");
    require(!stream->capture, CUDA_ERROR_ILLEGAL_STATE, "the stream is capturing already");
    auto capture = std::make_shared<Capture>();
    capture->id = d.next_id++;
    capture->mode = mode;
    capture->thread = std::this_thread::get_id();
    capture->origin = stream.get();
    capture->streams = {stream.get()};
    capture->blocking = stream->blocking;
    capture->graph = std::make_shared<Graph>();
    stream->capture = capture;
    stream->heads.clear();
    d.captures.push_back(capture);
  });
}

VGPU_EXPORT(cuStreamEndCapture)(CUstream handle, CUgraph* graph) {
  return context_call("cuStreamEndCapture", [&](Driver& d, Context&) {
    require(graph, CUDA_ERROR_INVALID_VALUE, "null");
    *graph = nullptr;
    auto stream = find_stream(handle);
    require(stream->capture != nullptr, CUDA_ERROR_ILLEGAL_STATE, "the stream is not capturing");
    const auto capture = stream->capture;
    if (capture->origin != stream.get()) {
      invalidate(*capture);
      refuse(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "the capture was begun on another stream");
    }
    if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread != std::this_thread::get_id()) {
      refuse(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, "the capture was begun by another thread");
    }
    const bool joined = std::all_of(capture->streams.begin(), capture->streams.end(),
                                    [&](Stream* other) { return reaches(stream->heads, other->heads); });
    const bool invalid = capture->invalid;
    forget(capture);
    if (invalid || !joined) discard_graph(*capture->graph);
    require(!invalid, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "an earlier call had broken the capture");
    require(joined, CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "a forked stream was not joined to the first one");
    if (!capture->graph->handle) d.graphs.add(capture->graph);
    *graph = capture->graph->handle;
    d.note("nodes", capture->graph->nodes.size());
  });
}

VGPU_EXPORT(cuStreamIsCapturing)(CUstream handle, CUstreamCaptureStatus* status) {
  return context_call("cuStreamIsCapturing", [&](Driver&, Context&) {
    require(status, CUDA_ERROR_INVALID_VALUE, "null");
    auto stream = find_stream(handle);
    refuse_default_stream_in_capture(*stream);
    *status = status_of(*stream);
  });
}

VGPU_EXPORT(cuStreamGetCaptureInfo_v2)
(CUstream handle, CUstreamCaptureStatus* status, uint64_t* id, CUgraph* graph, const CUgraphNode** dependencies,
 size_t* dependency_count) {
  return context_call("cuStreamGetCaptureInfo_v2", [&](Driver& d, Context&) {
    require(status, CUDA_ERROR_INVALID_VALUE, "null");
    auto stream = find_stream(handle);
    refuse_default_stream_in_capture(*stream);
    *status = status_of(*stream);
    if (*status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return;
    Capture& capture = *stream->capture;
    if (id) *id = capture.id;
    if (graph) {
      // The graph may be asked for, and nodes added to it, before the capture ends.
      if (!capture.graph->handle) d.graphs.add(capture.graph);
      *graph = capture.graph->handle;
    }
    capture.reported.clear();
    for (GraphNode* head : stream->heads) capture.reported.push_back(head->handle);
    if (dependencies) *dependencies = capture.reported.data();
    if (dependency_count) *dependency_count = capture.reported.size();
  });
}

VGPU_EXPORT(cuThreadExchangeStreamCaptureMode)(CUstreamCaptureMode* mode) {
  return call("cuThreadExchangeStreamCaptureMode", [&](Driver&) {
    require(mode && *mode <= CU_STREAM_CAPTURE_MODE_RELAXED, CUDA_ERROR_INVALID_VALUE, "no such mode");
    std::swap(*mode, thread_capture_mode());
  });
}
