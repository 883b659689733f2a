// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/vgpu/ptx/machine.h"

#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace stepfuse::vgpu {

/// A module with memory of its own, and arrays that come and go.
class TestModule {
 public:
  explicit TestModule(const std::string& ptx, MachineOptions options = {})
      : module_(Module::load(ptx, memory_, options)) {}

  template <class T>
  uint64_t upload(const std::vector<T>& values) {
    const uint64_t address = memory_.allocate(values.size() * sizeof(T), 16);
    std::memcpy(memory_.resolve(address, values.size() * sizeof(T), true), values.data(), values.size() * sizeof(T));
    return address;
  }

  template <class T>
  std::vector<T> download(uint64_t address, size_t count) {
    std::vector<T> values(count);
    std::memcpy(values.data(), memory_.resolve(address, count * sizeof(T), false), count * sizeof(T));
    return values;
  }

  /// Parameters one after another at their own alignment.
  template <class... T>
  void run(const std::string& kernel, const Launch& launch, const T&... values) {
    std::vector<std::byte> block;
    (append(block, values), ...);
    module_->run(kernel, launch, block.data());
  }

  Module& module() { return *module_; }
  TestMemory& memory() { return memory_; }

 private:
  template <class T>
  static void append(std::vector<std::byte>& block, const T& value) {
    const size_t offset = (block.size() + alignof(T) - 1) / alignof(T) * alignof(T);
    block.resize(offset + sizeof(T));
    std::memcpy(block.data() + offset, &value, sizeof(T));
  }

  TestMemory memory_;
  std::unique_ptr<Module> module_;
};

inline std::string ptx_header(int capability = 90) {
  return ".version 8.6\n.target sm_" + std::to_string(capability) + "\n.address_size 64\n";
}

}  // namespace stepfuse::vgpu
