// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/plan.h"
#include "runtime/cuda/cuda_kernels.h"

#include <memory>
#include <string>

namespace stepfuse::runtime {

/// The kernel made from the file that the setting override_dir has for this one: <name>.<variant>.<hash>.cu, else
/// <name>.<variant>.cu (kernels without variants: without that part); null where there is none. It keeps to the
/// generated text's function and row. No cache on disk is read or written; in memory it goes by its text. A file that
/// does not compile is InvalidData.
Result<std::shared_ptr<const CudaKernel>> cuda_override_kernel(const Context& context, const CudaKernelRequest& request,
                                                               bool& compiled);

/// "stepfuse_adamw_update_f32.aligned": how files are named after a kernel.
std::string kernel_file_stem(const CudaKernelRequest& request);
/// "3f2a9c01": tells kernels of one stem apart.
std::string kernel_file_hash(const CudaKernelRequest& request);

}  // namespace stepfuse::runtime
