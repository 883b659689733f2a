// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/support/status.h"

#include <exception>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace stepfuse::runtime {

/// Shared values by key, each made once however many threads ask for it at the same time. An error or an exception of
/// the maker reaches all who wait and leaves nothing behind: the next request tries again.
template <class T>
class SingleFlight {
 public:
  using Pointer = std::shared_ptr<const T>;

  /// Values that nobody else uses are dropped when more than `most_idle` are held.
  explicit SingleFlight(size_t most_idle) : most_idle_(most_idle) {}

  /// `make` returns Result<Pointer>. `made` says whether this call ran it.
  template <class Make>
  Result<Pointer> get(const std::string& key, Make&& make, bool& made) {
    made = false;
    std::promise<Result<Pointer>> promise;
    {
      std::unique_lock lock(mutex_);
      if (const auto it = held_.find(key); it != held_.end()) return it->second;
      if (const auto it = flying_.find(key); it != flying_.end()) {
        const auto result = it->second;
        lock.unlock();
        return result.get();
      }
      flying_.emplace(key, promise.get_future().share());
    }
    made = true;
    return fly(key, std::forward<Make>(make), promise);
  }

  size_t held() const {
    const std::lock_guard lock(mutex_);
    return held_.size();
  }

 private:
  template <class Make>
  Result<Pointer> fly(const std::string& key, Make&& make, std::promise<Result<Pointer>>& promise) {
    try {
      Result<Pointer> result = make();
      land(key, result ? *result : nullptr);
      promise.set_value(result);
      return result;
    } catch (...) {
      land(key, nullptr);
      promise.set_exception(std::current_exception());
      throw;
    }
  }

  void land(const std::string& key, Pointer value) {
    const std::lock_guard lock(mutex_);
    flying_.erase(key);
    if (value == nullptr) return;
    if (held_.size() >= most_idle_) std::erase_if(held_, [](const auto& item) { return item.second.use_count() == 1; });
    held_.emplace(key, std::move(value));
  }

  size_t most_idle_;
  mutable std::mutex mutex_;
  std::map<std::string, Pointer> held_;
  std::map<std::string, std::shared_future<Result<Pointer>>> flying_;
};

}  // namespace stepfuse::runtime
