// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// Both public headers as C++17, compiled with every warning as an error.
#include <stepfuse/stepfuse.h>
#include <stepfuse/stepfuse.hpp>

extern "C" int stepfuse_header_test_c99(void);
bool stepfuse_header_test_cxx17();

bool stepfuse_header_test_cxx17() {
  const stepfuse_binding binding = stepfuse_binding_init();
  return binding.struct_size == sizeof(binding) && stepfuse::kRouted.index == STEPFUSE_GROUP_ROUTED &&
         stepfuse_header_test_c99() == 1;
}
