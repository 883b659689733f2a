// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
// Our declarations of NVRTC against the toolkit's; CMake compiles this where the header is found. Compiling is the
// test.
#include "runtime/cuda/api/nvrtc.h"

#include <type_traits>

#include <nvrtc.h>

namespace stepfuse::cuda {
namespace {

static_assert(int{NVRTC_SUCCESS} == int{::NVRTC_SUCCESS});
static_assert(int{NVRTC_ERROR_OUT_OF_MEMORY} == int{::NVRTC_ERROR_OUT_OF_MEMORY});
static_assert(int{NVRTC_ERROR_COMPILATION} == int{::NVRTC_ERROR_COMPILATION});
static_assert(int{NVRTC_ERROR_BUILTIN_OPERATION_FAILURE} == int{::NVRTC_ERROR_BUILTIN_OPERATION_FAILURE});
static_assert(sizeof(nvrtcResult) == sizeof(::nvrtcResult));
static_assert(std::is_same_v<nvrtcProgram, ::nvrtcProgram>);

/// The library's function type with its enum replaced by ours.
template <class Function>
struct Ours;
template <class Result, class... Parameters>
struct Ours<Result (*)(Parameters...)> {
  using Type = std::conditional_t<std::is_same_v<Result, ::nvrtcResult>, nvrtcResult, Result> (*)(
      std::conditional_t<std::is_same_v<Parameters, ::nvrtcResult>, nvrtcResult, Parameters>...);
};

#define NVRTC_FUNCTION(result, name, parameters) \
  static_assert(std::is_same_v<decltype(NvrtcFunctions::name), Ours<decltype(&::name)>::Type>, #name);
#include "runtime/cuda/api/nvrtc_functions.def"

}  // namespace
}  // namespace stepfuse::cuda
