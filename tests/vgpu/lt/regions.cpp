// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/lt/regions.h"

#include <algorithm>

namespace stepfuse::vgpu::lt {
namespace {

using Ranges = std::vector<VgpuRange>;

bool before(const VgpuRange& left, const VgpuRange& right) { return left.address < right.address; }

void append(Ranges& ranges, const Ranges& more) { ranges.insert(ranges.end(), more.begin(), more.end()); }

/// All matrices of the batch that `member` of an Addresses names. One that serves several products comes once.
Ranges batch_of(const Matrix& matrix, std::span<const Addresses> products, uint64_t Addresses::* member) {
  std::vector<uint64_t> bases;
  for (const Addresses& product : products) bases.push_back(product.*member);
  std::sort(bases.begin(), bases.end());
  bases.erase(std::unique(bases.begin(), bases.end()), bases.end());
  Ranges ranges;
  for (const uint64_t base : bases) append(ranges, lines_of(matrix, base));
  return ranges;
}

bool overlap_each_other(const Ranges& sorted) {
  for (size_t i = 1; i < sorted.size(); ++i) {
    if (sorted[i - 1].address + sorted[i - 1].bytes > sorted[i].address) return true;
  }
  return false;
}

/// `ranges` may overlap each other, `sorted` ones do not.
bool overlap(const Ranges& ranges, const Ranges& sorted) {
  for (const VgpuRange& range : ranges) {
    const VgpuRange end{range.address + range.bytes, 0};
    const auto behind = std::lower_bound(sorted.begin(), sorted.end(), end, before);
    if (behind == sorted.begin()) continue;
    const VgpuRange& last = *std::prev(behind);
    if (last.address + last.bytes > range.address) return true;
  }
  return false;
}

bool in_place(const Problem& problem, const Addresses& product) {
  return product.c == product.d && problem.c.row_stride == problem.d.row_stride &&
         problem.c.col_stride == problem.d.col_stride;
}

bool some_d_is_shared(const Problem& problem, std::span<const Addresses> products, Ranges& sorted) {
  for (const Addresses& product : products) append(sorted, lines_of(problem.d, product.d));
  std::sort(sorted.begin(), sorted.end(), before);
  return overlap_each_other(sorted);
}

}  // namespace

Ranges lines_of(const Matrix& matrix, uint64_t base) {
  if (matrix.ld == matrix.line_length || matrix.lines == 1) return {{base, matrix.extent_bytes()}};
  Ranges ranges;
  for (int64_t line = 0; line < matrix.lines; ++line) {
    ranges.push_back({base + static_cast<uint64_t>(line * matrix.ld) * matrix.element, matrix.line_bytes()});
  }
  return ranges;
}

std::string find_overlap(const Problem& problem, std::span<const Addresses> products, bool c_is_read,
                         const VgpuRange& workspace) {
  Ranges outputs;
  if (some_d_is_shared(problem, products, outputs)) return "two matrices D of the batch overlap";
  if (overlap(batch_of(problem.a, products, &Addresses::a), outputs)) return "D overlaps A";
  if (overlap(batch_of(problem.b, products, &Addresses::b), outputs)) return "D overlaps B";
  Ranges others;
  for (const Addresses& product : products) {
    if (c_is_read && !in_place(problem, product)) append(others, lines_of(problem.c, product.c));
  }
  if (overlap(others, outputs)) return "D overlaps C, and is not C in the same layout";
  if (workspace.bytes == 0) return {};
  Regions regions = regions_of(problem, products, c_is_read);
  append(regions.reads, regions.writes);
  return overlap(regions.reads, {workspace}) ? "the workspace overlaps a matrix" : "";
}

Regions regions_of(const Problem& problem, std::span<const Addresses> products, bool c_is_read) {
  Regions regions;
  regions.reads = batch_of(problem.a, products, &Addresses::a);
  append(regions.reads, batch_of(problem.b, products, &Addresses::b));
  if (c_is_read) append(regions.reads, batch_of(problem.c, products, &Addresses::c));
  regions.writes = batch_of(problem.d, products, &Addresses::d);
  return regions;
}

}  // namespace stepfuse::vgpu::lt
