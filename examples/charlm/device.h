// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>

namespace charlm {

/// A copy of the model's parameters and gradients on a CUDA device, for an optimizer that runs there while the model
/// runs on the CPU. It stands for what a trainer on a GPU has anyway: a context, a stream and device memory. Opens the
/// driver by itself, so that building needs no CUDA. Throws Failure.
class DeviceCopy {
 public:
  /// The first device; its context is current afterwards. `count`: elements of the parameters, and of the gradients.
  explicit DeviceCopy(std::size_t count);
  ~DeviceCopy();
  DeviceCopy(const DeviceCopy&) = delete;
  DeviceCopy& operator=(const DeviceCopy&) = delete;

  /// The copies, in the order of the originals; device pointers.
  float* values() const;
  const float* gradients() const;
  void* stream() const;

  void upload_values(const float* from);
  void upload_gradients(const float* from);
  /// Waits for the stream.
  void download_values(float* to);

 private:
  struct Driver;
  std::unique_ptr<Driver> driver_;
};

}  // namespace charlm
