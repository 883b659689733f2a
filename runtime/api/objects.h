// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// What the handles of the C interface stand for, and the way into them.
#pragma once

#include "runtime/api/config.h"
#include "runtime/api/convert.h"
#include "runtime/api/handles.h"
#include "runtime/api/reply.h"
#include "runtime/config/route.h"
#include "runtime/context.h"
#include "runtime/optimizer.h"

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace stepfuse::api {

struct ContextObject {
  std::shared_ptr<const runtime::Context> context;
};

/// A state as stepfuse_optimizer_state shows it; the pointers it gives out stand on these vectors.
struct StateInfo {
  std::string key;
  Layout layout;
};

/// The number of a parameter that waits for its group.
inline constexpr uint32_t kNotRouted = UINT32_MAX;

/// What add_parameter was told, for bind to hold the caller to it.
struct ParameterInfo {
  std::string name;
  uint32_t group = 0;
  uint32_t index = kNotRouted;  // of the runtime's optimizer
  Layout param, grad;
  bool caller_states = false;
  std::vector<StateInfo> states;  // after prepare
};

/// A parameter that gets its group in prepare.
struct WaitingParameter {
  uint32_t id;
  runtime::NewParameter added;
};

struct GroupInfo {
  std::string name;             // of a config's group; else empty
  runtime::GroupPolicy policy;  // what a config makes of an lr
};

struct OptimizerObject {
  std::shared_ptr<const runtime::Context> context;  // outlives the optimizer
  runtime::Optimizer optimizer;
  std::vector<GroupInfo> groups;          // by the numbers of the runtime's optimizer
  std::optional<runtime::Router> router;  // of the config that was loaded
  std::vector<WaitingParameter> waiting;
  std::optional<runtime::Routes> routes;  // of `waiting`, which is closed then
  std::vector<uint32_t> routed_groups;    // by Routes::groups, as far as they were added
  std::vector<ParameterInfo> parameters;
  std::map<std::string, uint32_t, std::less<>> ids;
  bool prepared = false;
  std::atomic_flag in_use;

  OptimizerObject(std::shared_ptr<const runtime::Context> shared, runtime::Optimizer made)
      : context(std::move(shared)), optimizer(std::move(made)) {}

  Result<ParameterInfo*> parameter(uint32_t id);
  /// The parameter, if it has its group; `call` is for the message.
  Result<ParameterInfo*> routed_parameter(uint32_t id, std::string_view call);
  /// What a hyperparameter becomes in a group: a config may scale and bound its lr.
  double effective(uint32_t group, std::string_view key, double value) const;
  Outcome require_prepared(std::string_view call) const;
};

tl::unexpected<Status> unknown_state(const ParameterInfo& info, std::string_view key);

/// The settings of a context that concern an optimizer.
runtime::OptimizerSettings optimizer_settings(std::shared_ptr<const runtime::Context> context);

/// An optimizer while a call is in it; a second call at the same time is refused.
class Turn {
 public:
  explicit Turn(OptimizerObject& object) : object_(object.in_use.test_and_set() ? nullptr : &object) {}
  ~Turn() {
    if (object_ != nullptr) object_->in_use.clear();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  explicit operator bool() const { return object_ != nullptr; }

 private:
  OptimizerObject* object_;
};

/// Runs `body` on the object behind a handle and gives the status of the C function.
template <class Body>
stepfuse_status with_context(stepfuse_context* handle, Body body) noexcept {
  return answer([&]() -> Reply {
    STEPFUSE_ASSIGN(const std::shared_ptr<void> object, find_handle(HandleKind::Context, handle));
    return body(*static_cast<const ContextObject*>(object.get())->context);
  });
}

template <class Body>
stepfuse_status with_optimizer(stepfuse_optimizer* handle, Body body) noexcept {
  return answer([&]() -> Reply {
    STEPFUSE_ASSIGN(const std::shared_ptr<void> held, find_handle(HandleKind::Optimizer, handle));
    auto& object = *static_cast<OptimizerObject*>(held.get());
    const Turn turn(object);
    if (!turn)
      return tl::unexpected(Failure(STEPFUSE_BUSY, "another thread is in a call on this optimizer",
                                    "use an optimizer from one thread at a time; nothing was done"));
    return body(object);
  });
}

/// Copies `bytes` into the caller's buffer and tells how many it takes. A null buffer of size 0 only asks.
Reply copy_out(const void* bytes, size_t count, void* buffer, size_t size, size_t* needed);
/// The same for a text, with its final 0.
inline Reply copy_text(const std::string& text, char* buffer, size_t size, size_t* needed) {
  return copy_out(text.c_str(), text.size() + 1, buffer, size, needed);
}

}  // namespace stepfuse::api
