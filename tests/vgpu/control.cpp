// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/control.h"

#include "runtime/cuda/driver.h"
#include "runtime/cuda/nvrtc.h"

#include <dlfcn.h>

namespace stepfuse::tests {

namespace {

template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
}

const VirtualDriver* look() {
  void* const library = ::dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr || ::dlsym(library, "vgpu_set_seed") == nullptr) return nullptr;
  static VirtualDriver found;
  find(library, "vgpu_counters", found.counters);
  find(library, "vgpu_reset_counters", found.reset_counters);
  find(library, "vgpu_call_count", found.call_count);
  find(library, "vgpu_set_seed", found.set_seed);
  find(library, "vgpu_set_eager", found.set_eager);
  find(library, "vgpu_fail_allocations", found.fail_allocations);
  find(library, "vgpu_last_fault", found.last_fault);
  find(library, "vgpu_set_find_races", found.set_find_races);
  return &found;
}

}  // namespace

const VirtualDriver* virtual_driver() {
  static const VirtualDriver* const found = look();
  return found;
}

std::string why_no_device() {
  const auto settings = runtime::Settings::resolve({}, runtime::Settings::process_environment()).value();
  if (const auto driver = runtime::Driver::open(settings); !driver) return driver.error().message;
  if (const auto nvrtc = runtime::Nvrtc::open(settings); !nvrtc) return nvrtc.error().message;
  return "";
}

}  // namespace stepfuse::tests
