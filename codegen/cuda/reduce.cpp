// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "codegen/cuda/reduce.h"

namespace stepfuse::codegen {

namespace {

using ir::DType;
using ir::Op;

std::string_view lane_type(const Reduction& r) {
  if (r.op == Op::Any) return "unsigned";
  return r.math == DType::F64 ? "double" : "float";
}

}  // namespace

/// The function that joins two lanes, or two partials (f64, whatever the lanes are).
std::string CudaReductions::combine(const Reduction& r, bool of_partials) {
  const bool f64 = r.math == DType::F64;
  if (r.op == Op::Any) {
    t_.helpers.use(of_partials ? CudaHelper::EitherDouble : CudaHelper::EitherUnsigned);
    return "either";
  }
  if (r.op == Op::Amax) {
    t_.helpers.use(of_partials || f64 ? CudaHelper::MaximumDouble : CudaHelper::MaximumFloat);
    return "maximum";
  }
  if (of_partials && !f64) {
    t_.helpers.use(CudaHelper::AddFloats);
    return "add_floats";
  }
  t_.helpers.use(f64 ? CudaHelper::AddDouble : CudaHelper::AddFloat);
  return "add";
}

void CudaReductions::declare_lanes() {
  for (size_t r = 0; r < t_.spec.reductions.size(); ++r) {
    t_.out.line("{} {}_lanes[{}] = {{}};", lane_type(t_.spec.reductions[r]), t_.names.reductions[r], t_.geometry.lanes);
  }
}

void CudaReductions::accumulate(const std::string& lane, const std::string& condition) {
  if (t_.spec.reductions.empty()) return;
  if (!condition.empty()) t_.out.open("if ({})", condition);
  for (size_t i = 0; i < t_.spec.reductions.size(); ++i) {
    const Reduction& r = t_.spec.reductions[i];
    const std::string sum = fmt::format("{}_lanes[{}]", t_.names.reductions[i], lane);
    if (r.op == Op::Any) {
      t_.out.line("{} |= {};", sum, values_.truth(r.value));
      continue;
    }
    const Arithmetic math = t_.arithmetic(r.math);
    const std::string value = values_.number(r.value, r.math);
    if (r.op == Op::Sum) {
      t_.out.line("{} = {};", sum, math.add(sum, value));
    } else if (r.op == Op::Amax) {
      t_.out.line("{0} = {1}({0}, {2}({3}));", sum, combine(r, false), math.abs(), value);
    } else {
      t_.out.line("{0} = {1}({2}, {2}, {0});", sum, math.fma(), value);
    }
  }
  if (!condition.empty()) t_.out.close();
}

void CudaReductions::fold() {
  const bool columns = t_.spec.scheme == Scheme::Cols;
  t_.helpers.use(columns ? CudaHelper::FoldColumns : CudaHelper::FoldLanes);
  for (size_t i = 0; i < t_.spec.reductions.size(); ++i) {
    const Reduction& r = t_.spec.reductions[i];
    t_.out.line("const double {0} = {1}<{2}, {3}>({0}_lanes);", t_.names.reductions[i],
                columns ? "fold_columns" : "fold_lanes", lane_type(r), combine(r, false));
  }
}

std::string CudaReductions::store_results_text() {
  CodeWriter out;
  out.blank();
  out.line("/// Finishes sums (square root, the one rounding) and stores the results.");
  std::string parameters;
  for (const std::string& name : t_.names.reductions) parameters += ", double " + name;
  out.open("__device__ __forceinline__ void store_results(const Row& row, long long result{})", parameters);
  for (size_t i = 0; i < t_.spec.reductions.size(); ++i) {
    const Reduction& r = t_.spec.reductions[i];
    const std::string& name = t_.names.reductions[i];
    const std::string sum = r.op == Op::Norm ? fmt::format("__dsqrt_rn({})", name) : name;
    out.line("row.{}[result] = {};", name, values_.rounded({sum, DType::F64}, r.result));
  }
  out.close();
  return out.text();
}

void CudaReductions::store_results(std::string_view at) {
  std::string arguments;
  for (const std::string& name : t_.names.reductions) arguments += ", " + name;
  t_.out.line("store_results(row, {}{});", at, arguments);
}

void CudaReductions::store_partials(std::string_view at) {
  for (const std::string& name : t_.names.reductions) t_.out.line("row.{0}_partials[{1}] = {0};", name, at);
}

void CudaReductions::fold_partials(std::string_view first) {
  const bool columns = t_.spec.scheme == Scheme::Cols;
  t_.helpers.use(columns ? CudaHelper::FoldColumn : CudaHelper::FoldPartials);
  for (size_t i = 0; i < t_.spec.reductions.size(); ++i) {
    t_.out.line("const double {0} = {1}<{2}>(row.{0}_partials + {3}, parts);", t_.names.reductions[i],
                columns ? "fold_column" : "fold_partials", combine(t_.spec.reductions[i], true), first);
  }
}

}  // namespace stepfuse::codegen
