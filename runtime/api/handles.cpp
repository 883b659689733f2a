// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/api/handles.h"

#include <mutex>
#include <string_view>
#include <vector>

namespace stepfuse::api {

namespace {

static_assert(sizeof(void*) == 8, "handles are 64 bits wide");

// From the top: 8 bits of mark, 8 of kind, 24 of generation, 24 of index. No address of a Linux program begins with the
// mark, so no pointer to anything is taken for a handle.
constexpr uint64_t kMark = 0x5F;
constexpr uint32_t kMaxField = (uint32_t{1} << 24) - 1;

struct Fields {
  uint64_t mark;
  HandleKind kind;
  uint32_t generation, index;
};

void* encode(HandleKind kind, uint32_t generation, uint32_t index) {
  const uint64_t bits =
      kMark << 56 | uint64_t{static_cast<uint8_t>(kind)} << 48 | uint64_t{generation} << 24 | uint64_t{index};
  return reinterpret_cast<void*>(static_cast<uintptr_t>(bits));
}

Fields decode(const void* handle) {
  const uint64_t bits = reinterpret_cast<uintptr_t>(handle);
  return {bits >> 56, static_cast<HandleKind>(bits >> 48 & 0xFF), static_cast<uint32_t>(bits >> 24 & kMaxField),
          static_cast<uint32_t>(bits & kMaxField)};
}

std::string_view name_of(HandleKind kind) { return kind == HandleKind::Context ? "context" : "optimizer"; }

struct Slot {
  std::shared_ptr<void> object;  // null while the slot is free
  HandleKind kind = HandleKind::Context;
  uint32_t generation = 1;  // of the handle that is in use, or will be next
};

class Table {
 public:
  void* insert(HandleKind kind, std::shared_ptr<void> object) {
    const std::scoped_lock lock(mutex_);
    if (free_.empty()) {
      if (slots_.size() > kMaxField) throw std::bad_alloc();
      slots_.emplace_back();
      free_.reserve(slots_.capacity());  // so that remove() cannot fail
      free_.push_back(static_cast<uint32_t>(slots_.size() - 1));
    }
    const uint32_t index = free_.back();
    free_.pop_back();
    Slot& slot = slots_[index];
    slot.object = std::move(object);
    slot.kind = kind;
    return encode(kind, slot.generation, index);
  }

  Result<std::shared_ptr<void>> find(HandleKind kind, const void* handle) {
    const std::scoped_lock lock(mutex_);
    return locate(kind, handle).map([](Slot* slot) { return slot->object; });
  }

  Result<std::shared_ptr<void>> remove(HandleKind kind, const void* handle) {
    const std::scoped_lock lock(mutex_);
    STEPFUSE_ASSIGN(Slot * slot, locate(kind, handle));
    // A slot whose generations are used up is left alone, lest an old handle become good again.
    if (++slot->generation <= kMaxField) free_.push_back(decode(handle).index);
    return std::move(slot->object);
  }

 private:
  Result<Slot*> locate(HandleKind kind, const void* handle) {
    const std::string_view wanted = name_of(kind);
    if (handle == nullptr)
      return with_hint(fail(StatusCode::InvalidArgument, "the {} is null", wanted),
                       fmt::format("pass what stepfuse_{}_create gave", wanted));
    const Fields fields = decode(handle);
    const bool known = fields.kind == HandleKind::Context || fields.kind == HandleKind::Optimizer;
    const bool issued = fields.mark == kMark && known && fields.index < slots_.size() && fields.generation > 0 &&
                        fields.generation <= slots_[fields.index].generation;
    if (!issued)
      return with_hint(fail(StatusCode::InvalidArgument, "{} is no {}", fmt::ptr(handle), wanted),
                       fmt::format("pass what stepfuse_{}_create gave; it must not be changed", wanted));
    if (fields.kind != kind)
      return with_hint(
          fail(StatusCode::InvalidArgument, "the handle is of kind {}, not {}", name_of(fields.kind), wanted),
          fmt::format("pass what stepfuse_{}_create gave", wanted));
    Slot& slot = slots_[fields.index];
    if (fields.generation != slot.generation || slot.object == nullptr || slot.kind != kind)
      return with_hint(fail(StatusCode::InvalidArgument, "the {} was destroyed before", wanted),
                       fmt::format("stepfuse_{}_destroy ends its use", wanted));
    return &slot;
  }

  std::mutex mutex_;
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_;
};

/// Never destroyed: handles may be used by destructors that run at exit.
Table& table() {
  static Table* const instance = new Table;
  return *instance;
}

}  // namespace

void* insert_handle(HandleKind kind, std::shared_ptr<void> object) { return table().insert(kind, std::move(object)); }
Result<std::shared_ptr<void>> find_handle(HandleKind kind, const void* handle) { return table().find(kind, handle); }
Result<std::shared_ptr<void>> remove_handle(HandleKind kind, const void* handle) {
  return table().remove(kind, handle);
}

}  // namespace stepfuse::api
