// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/vgpu/corpus/compile.h"
#include "tests/vgpu/ptx/machine.h"

#include <cstring>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

namespace stepfuse::vgpu::corpus {

/// An array of the device. Handed to a kernel it is a pointer.
template <class T>
struct Array {
  uint64_t address = 0;
  size_t size = 0;
};

/// One argument of a kernel, as the bytes the parameter block holds.
struct Argument {
  template <class T>
  Argument(const Array<T>& array) : bytes(sizeof array.address) {  // NOLINT(google-explicit-constructor)
    std::memcpy(bytes.data(), &array.address, sizeof array.address);
  }
  template <class T, class = std::enable_if_t<std::is_trivially_copyable_v<T>>>
  Argument(const T& value) : bytes(sizeof value) {  // NOLINT(google-explicit-constructor)
    std::memcpy(bytes.data(), &value, sizeof value);
  }
  std::vector<std::byte> bytes;
};

/// The machine with one source's module loaded: what a case uses to run its kernels. Memory lives until the end.
class Device {
 public:
  Device(std::string_view source, const Target& target, uint64_t seed, bool find_races);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  template <class T>
  Array<T> upload(const std::vector<T>& values) {
    Array<T> array = allocate<T>(values.size());
    if (!values.empty())
      std::memcpy(host(array.address, array.size * sizeof(T)), values.data(), array.size * sizeof(T));
    return array;
  }

  /// Poisoned: a kernel that leaves an element unwritten gives itself away.
  template <class T>
  Array<T> allocate(size_t size) {
    return {allocate_bytes(size * sizeof(T), alignof(T) > 16 ? alignof(T) : 16), size};
  }

  template <class T>
  std::vector<T> download(const Array<T>& array) {
    std::vector<T> values(array.size);
    if (array.size != 0)
      std::memcpy(values.data(), host(array.address, array.size * sizeof(T)), array.size * sizeof(T));
    return values;
  }

  /// A module's variable as an array.
  template <class T>
  Array<T> variable(std::string_view name) {
    const std::pair<uint64_t, size_t> found = find_variable(name);
    return {found.first, found.second / sizeof(T)};
  }
  template <class T>
  void write(const Array<T>& array, const std::vector<T>& values) {
    std::memcpy(host(array.address, array.size * sizeof(T)), values.data(), values.size() * sizeof(T));
  }

  /// Throws if the arguments do not have the count and the sizes of the kernel's parameters.
  void launch(std::string_view kernel, Dim3 grid, Dim3 block, const std::vector<Argument>& arguments,
              uint32_t dynamic_shared_bytes = 0, bool cooperative = false);

  std::mt19937_64& random() { return random_; }
  int capability() const { return capability_; }
  /// Uniform, both ends included.
  int64_t integer(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }
  double real(double low, double high) { return std::uniform_real_distribution<double>(low, high)(random_); }
  /// `size` numbers of integer(low, high): floats among them add up without any rounding.
  template <class T>
  std::vector<T> integers(size_t size, int64_t low, int64_t high) {
    std::vector<T> values(size);
    for (T& value : values) value = static_cast<T>(integer(low, high));
    return values;
  }
  template <class T>
  std::vector<T> reals(size_t size, double low, double high) {
    std::vector<T> values(size);
    for (T& value : values) value = static_cast<T>(real(low, high));
    return values;
  }

 private:
  uint64_t allocate_bytes(size_t bytes, size_t alignment);
  std::byte* host(uint64_t address, size_t bytes);
  std::pair<uint64_t, size_t> find_variable(std::string_view name);

  TestMemory memory_;
  std::vector<uint64_t> allocations_;
  std::unique_ptr<Module> module_;
  int capability_;
  uint64_t seed_;
  std::mt19937_64 random_;
};

}  // namespace stepfuse::vgpu::corpus
