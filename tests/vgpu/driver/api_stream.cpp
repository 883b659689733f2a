// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0

// Streams and events.
#include "tests/vgpu/driver/call.h"

#include <algorithm>

namespace stepfuse::vgpu::driver {
namespace {

constexpr int kMostNotReady = 8;  // answers in a row: whoever asks again and again gets on

void make_stream(Driver& d, Context& context, CUstream* handle, unsigned flags, int priority) {
  require(handle, CUDA_ERROR_INVALID_VALUE, "null");
  require(flags <= CU_STREAM_NON_BLOCKING, CUDA_ERROR_INVALID_VALUE, "unknown flags");
  d.note("flags", flags);
  d.note("priority", priority);
  auto stream = std::make_shared<Stream>();
  stream->context = d.contexts.get(context.handle, "no such context");
  stream->blocking = flags == CU_STREAM_DEFAULT;
  stream->bias = d.scheduler.draw();
  *handle = d.streams.add(stream);
}

void record(CUevent event_handle, CUstream stream_handle, unsigned flags) {
  Driver& d = driver();
  auto event = d.events.get(event_handle, "no such event");
  auto stream = find_stream(stream_handle);
  require(event->context == stream->context, CUDA_ERROR_INVALID_HANDLE, "event and stream are of different contexts");
  if (flags != CU_EVENT_RECORD_DEFAULT) {
    d.unknown(fmt::format("event record flags {}", flags));
    refuse(CUDA_ERROR_INVALID_VALUE, "unknown flags");
  }
  refuse_default_stream_in_capture(*stream);
  event->not_ready = 0;
  event->captured = stream->capture != nullptr;
  if (!stream->capture) {
    event->op = submit(*stream, empty_work("event"));
    return;
  }
  require(!stream->capture->invalid, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "the capture is invalid");
  event->capture = stream->capture;
  event->heads = stream->heads;
}

/// The stream takes part in the event's capture from now on, or waits within it.
void wait_in_capture(Stream& stream, Event& event) {
  auto capture = event.capture.lock();
  if (!event.captured || !capture) {
    if (!event.op && !event.captured) return;  // never recorded: no wait
    invalidate(*stream.capture);
    refuse(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, "a capturing stream waits for work outside of its capture");
  }
  if (capture != stream.capture) {
    invalidate(*capture);
    invalidate(*stream.capture);
    refuse(CUDA_ERROR_STREAM_CAPTURE_MERGE, "two captures would become one");
  }
  for (GraphNode* head : event.heads) {
    if (std::find(stream.heads.begin(), stream.heads.end(), head) == stream.heads.end()) stream.heads.push_back(head);
  }
}

void join_capture(Stream& stream, Event& event) {
  auto capture = event.capture.lock();
  const auto& all = driver().captures;
  require(capture && std::find(all.begin(), all.end(), capture) != all.end(), CUDA_ERROR_CAPTURED_EVENT,
          "the event was recorded in a capture that has ended");
  require(!capture->invalid, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "the capture is invalid");
  require(!stream.legacy, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, "the default stream cannot join a capture");
  stream.capture = capture;
  stream.heads = event.heads;
  capture->streams.push_back(&stream);
  capture->blocking = capture->blocking || stream.blocking;
}

/// An event that was recorded in a capture has no state that the host could ask for.
void refuse_captured(Event& event) {
  if (!event.captured) return;
  if (auto capture = event.capture.lock()) invalidate(*capture);
  refuse(CUDA_ERROR_CAPTURED_EVENT, "the event was recorded in a capture");
}

/// Answers a query: sooner or later, by chance, the work gets done.
void query(const std::shared_ptr<Op>& op, int& not_ready, Context& context) {
  Scheduler& scheduler = driver().scheduler;
  if (op && !op->done) {
    scheduler.run_some(scheduler.below(3));
    if (!op->done && ++not_ready > kMostNotReady) scheduler.run_until(op);
  }
  if (context.sticky != CUDA_SUCCESS) refuse(context.sticky, driver().last_fault);
  require(!op || op->done, CUDA_ERROR_NOT_READY, "work is pending");
  not_ready = 0;
}

}  // namespace

std::shared_ptr<Stream> find_stream(CUstream handle, bool same_context) {
  Driver& d = driver();
  if (handle == per_thread_stream()) {
    d.unknown("the per-thread default stream");
    refuse(CUDA_ERROR_INVALID_HANDLE, "unknown stream");
  }
  if (handle == nullptr || handle == legacy_stream()) return current_context()->legacy;
  auto stream = d.streams.get(handle, "no such stream");
  if (stream->context->sticky != CUDA_SUCCESS) refuse(stream->context->sticky, d.last_fault);
  if (same_context && stream->context != current_context()) {
    refuse(CUDA_ERROR_INVALID_HANDLE, "the stream is of another context than the current one");
  }
  return stream;
}

std::shared_ptr<Op> submit(Stream& stream, std::shared_ptr<const Work> work, std::shared_ptr<Op> also_after,
                           std::shared_ptr<const GraphPlan> plan) {
  Driver& d = driver();
  refuse_default_stream_in_capture(stream);
  if (stream.capture) {
    require(!stream.capture->invalid, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "the capture is invalid");
    stream.heads = {add_node(*stream.capture->graph, std::move(work), stream.heads)};
    return nullptr;
  }
  auto op = std::make_shared<Op>();
  op->context = stream.context;
  op->work = std::move(work);
  op->plan = std::move(plan);
  op->bias = stream.bias;
  op->after = {stream.last, std::move(also_after)};
  if (stream.legacy) {
    op->after.insert(op->after.end(), stream.context->orphans.begin(), stream.context->orphans.end());
    d.streams.each([&](const Stream& other) {
      if (other.blocking && other.context == stream.context) op->after.push_back(other.last);
    });
  } else if (stream.blocking) {
    op->after.push_back(stream.context->legacy->last);
  }
  d.scheduler.add(op);
  stream.last = op;
  // Most of the time the device is busy with something else.
  if (d.eager && d.scheduler.below(8) == 0) d.scheduler.run_some(d.scheduler.below(4));
  return op;
}

void wait_for(const std::shared_ptr<Op>& op, Context& context) {
  if (op) driver().scheduler.run_until(op);
  if (context.sticky != CUDA_SUCCESS) refuse(context.sticky, driver().last_fault);
}

void wait_for_context(Context& context) {
  driver().scheduler.run_all(context);
  if (context.sticky != CUDA_SUCCESS) refuse(context.sticky, driver().last_fault);
}

}  // namespace stepfuse::vgpu::driver

using namespace stepfuse::vgpu::driver;

VGPU_EXPORT(cuStreamCreate)(CUstream* stream, unsigned flags) {
  return context_call("cuStreamCreate",
                      [&](Driver& d, Context& context) { make_stream(d, context, stream, flags, 0); });
}

VGPU_EXPORT(cuStreamCreateWithPriority)(CUstream* stream, unsigned flags, int priority) {
  return context_call("cuStreamCreateWithPriority",
                      [&](Driver& d, Context& context) { make_stream(d, context, stream, flags, priority); });
}

/// Queued work of the stream still runs; the handle is gone at once.
VGPU_EXPORT(cuStreamDestroy_v2)(CUstream handle) {
  return context_call("cuStreamDestroy_v2", [&](Driver& d, Context&) {
    auto stream = find_stream(handle);
    require(!stream->legacy, CUDA_ERROR_INVALID_HANDLE, "the default stream cannot be destroyed");
    if (stream->capture) {
      invalidate(*stream->capture);
      d.unknown("a stream is destroyed while it is capturing");
      refuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "the stream is capturing");
    }
    auto& orphans = stream->context->orphans;
    std::erase_if(orphans, [](const auto& op) { return op->done; });
    if (stream->blocking && stream->last && !stream->last->done) orphans.push_back(stream->last);
    d.streams.remove(handle);
  });
}

VGPU_EXPORT(cuStreamQuery)(CUstream handle) {
  return context_call("cuStreamQuery", [&](Driver& d, Context&) {
    auto stream = find_stream(handle);
    refuse_if_capturing(*stream, "cuStreamQuery");
    refuse_in_capture("cuStreamQuery");
    if (d.scheduler.below(kMostNotReady) == 0 && stream->last) d.scheduler.run_until(stream->last);
    int not_ready = 0;
    query(stream->last, not_ready, *stream->context);
  });
}

VGPU_EXPORT(cuStreamSynchronize)(CUstream handle) {
  return context_call("cuStreamSynchronize", [&](Driver& d, Context&) {
    auto stream = find_stream(handle);
    refuse_if_capturing(*stream, "cuStreamSynchronize");
    refuse_default_stream_in_capture(*stream);
    refuse_in_capture("cuStreamSynchronize");
    ++d.counters.synchronizations;
    wait_for(stream->legacy ? submit(*stream, empty_work("barrier")) : stream->last, *stream->context);
  });
}

VGPU_EXPORT(cuStreamGetCtx)(CUstream handle, CUcontext* context) {
  return call("cuStreamGetCtx", [&](Driver&) {
    require(context, CUDA_ERROR_INVALID_VALUE, "null");
    auto stream = find_stream(handle);
    refuse_default_stream_in_capture(*stream);
    *context = stream->context->handle;
  });
}

VGPU_EXPORT(cuStreamWaitEvent)(CUstream stream_handle, CUevent event_handle, unsigned flags) {
  return context_call("cuStreamWaitEvent", [&](Driver& d, Context&) {
    auto stream = find_stream(stream_handle);
    auto event = d.events.get(event_handle, "no such event");
    if (flags != CU_EVENT_WAIT_DEFAULT) {
      d.unknown(fmt::format("event wait flags {}", flags));
      refuse(CUDA_ERROR_INVALID_VALUE, "unknown flags");
    }
    if (stream->capture) {
      require(!stream->capture->invalid, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "the capture is invalid");
      wait_in_capture(*stream, *event);
    } else if (event->captured) {
      join_capture(*stream, *event);
    } else if (event->op) {
      submit(*stream, empty_work("wait for an event"), event->op);
    }
  });
}

VGPU_EXPORT(cuEventCreate)(CUevent* handle, unsigned flags) {
  return context_call("cuEventCreate", [&](Driver& d, Context& context) {
    require(handle, CUDA_ERROR_INVALID_VALUE, "null");
    require(flags <= (CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING), CUDA_ERROR_INVALID_VALUE, "unknown flags");
    auto event = std::make_shared<Event>();
    event->context = d.contexts.get(context.handle, "no such context");
    event->timing = !(flags & CU_EVENT_DISABLE_TIMING);
    *handle = d.events.add(event);
  });
}

VGPU_EXPORT(cuEventDestroy_v2)(CUevent handle) {
  return context_call("cuEventDestroy_v2", [&](Driver& d, Context&) {
    d.events.get(handle, "no such event");
    d.events.remove(handle);
  });
}

VGPU_EXPORT(cuEventRecord)(CUevent event, CUstream stream) {
  return context_call("cuEventRecord", [&](Driver&, Context&) { record(event, stream, CU_EVENT_RECORD_DEFAULT); });
}

VGPU_EXPORT(cuEventRecordWithFlags)(CUevent event, CUstream stream, unsigned flags) {
  return context_call("cuEventRecordWithFlags", [&](Driver&, Context&) { record(event, stream, flags); });
}

VGPU_EXPORT(cuEventQuery)(CUevent handle) {
  return context_call("cuEventQuery", [&](Driver& d, Context&) {
    auto event = d.events.get(handle, "no such event");
    refuse_captured(*event);
    refuse_in_capture("cuEventQuery");
    query(event->op, event->not_ready, *event->context);
  });
}

VGPU_EXPORT(cuEventSynchronize)(CUevent handle) {
  return context_call("cuEventSynchronize", [&](Driver& d, Context&) {
    auto event = d.events.get(handle, "no such event");
    refuse_captured(*event);
    refuse_in_capture("cuEventSynchronize");
    ++d.counters.synchronizations;
    wait_for(event->op, *event->context);
  });
}

VGPU_EXPORT(cuEventElapsedTime)(float* milliseconds, CUevent start_handle, CUevent end_handle) {
  return context_call("cuEventElapsedTime", [&](Driver& d, Context&) {
    require(milliseconds, CUDA_ERROR_INVALID_VALUE, "null");
    auto start = d.events.get(start_handle, "no such event");
    auto end = d.events.get(end_handle, "no such event");
    refuse_captured(*start);
    refuse_captured(*end);
    require(start->timing && end->timing, CUDA_ERROR_INVALID_HANDLE, "the event was made without timing");
    require(start->op && end->op, CUDA_ERROR_INVALID_HANDLE, "the event was never recorded");
    require(start->op->done && end->op->done, CUDA_ERROR_NOT_READY, "work is pending");
    *milliseconds = static_cast<float>((end->op->done_at - start->op->done_at) * 1e3);
  });
}
