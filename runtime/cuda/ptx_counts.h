// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace stepfuse::runtime {

/// How the instructions of a PTX text move data to and from global memory (or through generic addresses), by bytes of
/// one access: {16: 5} is five accesses of 16 bytes. Instructions are counted as they stand in the text, not as often
/// as they run; parameters, constants and shared memory are left out.
struct PtxCounts {
  std::map<int, int> loads, stores;
};
PtxCounts count_accesses(std::string_view ptx);

/// "16 bytes x 5, 4 bytes x 1", the widest first; "none".
std::string counts_text(const std::map<int, int>& by_bytes);

}  // namespace stepfuse::runtime
