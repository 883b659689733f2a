// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/kernel_model.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <random>

namespace stepfuse::test {

namespace {

using codegen::Instr;
using codegen::KernelSpec;
using codegen::Operand;
using codegen::Reduction;
using codegen::Scheme;
using codegen::Varies;
using ir::DType;
using ir::Op;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

struct Format {
  int digits;        // of the significand, the hidden one included
  int min_exponent;  // of the smallest normal number
  double max;
};

Format format_of(DType dtype) {
  if (dtype == DType::F16) return {11, -14, 65504.0};
  return {8, -126, std::ldexp(255.0, 120)};
}

uint16_t encode16(double value, DType dtype) {
  if (dtype == DType::BF16) return static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(value)) >> 16);
  const auto sign = static_cast<uint16_t>(std::signbit(value) ? 0x8000 : 0);
  const double magnitude = std::fabs(value);
  if (std::isnan(value)) return 0x7e00;
  if (std::isinf(value)) return static_cast<uint16_t>(sign | 0x7c00);
  if (magnitude < std::ldexp(1.0, -14))
    return static_cast<uint16_t>(sign | static_cast<int>(std::ldexp(magnitude, 24)));
  const int exponent = std::ilogb(magnitude);
  const int fraction = static_cast<int>(std::ldexp(magnitude, 10 - exponent)) - 1024;
  return static_cast<uint16_t>(sign | ((exponent + 15) << 10) | fraction);
}

double decode16(uint16_t bits, DType dtype) {
  if (dtype == DType::BF16) return static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(bits) << 16));
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  const int exponent = (bits >> 10) & 31;
  const int fraction = bits & 1023;
  if (exponent == 31) return fraction != 0 ? kNan : sign * kInf;
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

// ---- one operation, in float or double ----

template <class T>
T smaller(T a, T b) {
  if (std::isnan(a) || std::isnan(b)) return static_cast<T>(kNan);
  if (a == b) return std::signbit(a) ? a : b;
  return a < b ? a : b;
}

template <class T>
T lerp(T from, T to, T weight) {
  if (std::fabs(weight) < T{0.5}) return std::fma(weight, to - from, from);
  return std::fma(weight - T{1}, to - from, to);
}

template <class T>
T sign_of(T a) {
  if (std::isnan(a)) return a;
  return static_cast<T>(a > 0 ? 1 : a < 0 ? -1 : 0);
}

template <class T>
using Values = std::vector<T>;

/// ir/ops.def, once more. And, Or, Not and the first operand of Select are 0 or 1 here.
template <class T>
const std::map<Op, std::function<T(const Values<T>&)>>& definitions() {
  using V = Values<T>;
  static const std::map<Op, std::function<T(const V&)>> kDefinitions{
      {Op::Add, [](const V& v) { return v[0] + v[1]; }},
      {Op::Sub, [](const V& v) { return v[0] - v[1]; }},
      {Op::Mul, [](const V& v) { return v[0] * v[1]; }},
      {Op::Div, [](const V& v) { return v[0] / v[1]; }},
      {Op::Neg, [](const V& v) { return -v[0]; }},
      {Op::Abs, [](const V& v) { return std::fabs(v[0]); }},
      {Op::Sign, [](const V& v) { return sign_of(v[0]); }},
      {Op::Sqrt, [](const V& v) { return std::sqrt(v[0]); }},
      {Op::Min, [](const V& v) { return smaller(v[0], v[1]); }},
      {Op::Max, [](const V& v) { return -smaller(-v[0], -v[1]); }},
      {Op::Axpy, [](const V& v) { return std::fma(v[0], v[1], v[2]); }},
      {Op::Lerp, [](const V& v) { return lerp(v[0], v[1], v[2]); }},
      {Op::Addcmul, [](const V& v) { return std::fma(v[1] * v[2], v[3], v[0]); }},
      {Op::Addcdiv, [](const V& v) { return v[0] + (v[1] * v[2]) / v[3]; }},
      {Op::Select, [](const V& v) { return v[0] != 0 ? v[1] : v[2]; }},
      {Op::Lt, [](const V& v) { return T(v[0] < v[1]); }},
      {Op::Le, [](const V& v) { return T(v[0] <= v[1]); }},
      {Op::Gt, [](const V& v) { return T(v[0] > v[1]); }},
      {Op::Ge, [](const V& v) { return T(v[0] >= v[1]); }},
      {Op::Eq, [](const V& v) { return T(v[0] == v[1]); }},
      {Op::Ne, [](const V& v) { return T(v[0] != v[1]); }},
      {Op::And, [](const V& v) { return v[0] * v[1]; }},
      {Op::Or, [](const V& v) { return std::max(v[0], v[1]); }},
      {Op::Not, [](const V& v) { return 1 - v[0]; }},
      {Op::IsFinite, [](const V& v) { return T(std::isfinite(v[0])); }},
      {Op::Cast, [](const V& v) { return v[0]; }}};
  return kDefinitions;
}

template <class T>
T apply(Op op, const std::vector<double>& operands) {
  Values<T> values;
  for (size_t i = 0; i < operands.size(); ++i) {
    const bool truth = ir::is_bool_logic(op) || (op == Op::Select && i == 0);
    values.push_back(static_cast<T>(truth ? operands[i] != 0 : operands[i]));
  }
  return definitions<T>().at(op)(values);
}

double compute(const Instr& instr, const std::vector<double>& operands) {
  const double result = instr.math == DType::F64 ? apply<double>(instr.op, operands)
                                                 : static_cast<double>(apply<float>(instr.op, operands));
  return round_to(result, instr.dtype);
}

// ---- canonical sums ----

double combine(const Reduction& r, double sum, double x) {
  if (r.op == Op::SumSq || r.op == Op::Norm) return std::fma(x, x, sum);
  if (r.op == Op::Amax) return std::isnan(sum) || std::isnan(x) ? kNan : std::max(sum, std::fabs(x));
  if (r.op == Op::Any) return sum != 0 || x != 0 ? 1.0 : 0.0;
  if (r.math == DType::F64) return sum + x;
  return static_cast<double>(static_cast<float>(sum) + static_cast<float>(x));
}

double join(const Reduction& r, double low, double high) {
  if (r.op != Op::SumSq && r.op != Op::Norm) return combine(r, low, high);
  return low + high;
}

double partial_of(const Reduction& r, const std::vector<double>& elements) {
  std::array<double, codegen::kLanes> lanes{};
  for (size_t i = 0; i < elements.size(); ++i) {
    double& lane = lanes[i % lanes.size()];
    lane = combine(r, lane, round_to(elements[i], r.math));
  }
  for (size_t half = lanes.size() / 2; half >= 1; half /= 2) {
    for (size_t l = 0; l < half; ++l) lanes[l] = join(r, lanes[l], lanes[l + half]);
  }
  return lanes[0];
}

std::vector<double> partials_of(const Reduction& r, const std::vector<double>& elements) {
  std::vector<double> out;
  for (size_t i = 0; i < elements.size(); i += codegen::kChunk) {
    const auto first = elements.begin() + static_cast<std::ptrdiff_t>(i);
    const size_t count = std::min<size_t>(codegen::kChunk, elements.size() - i);
    out.push_back(partial_of(r, {first, first + static_cast<std::ptrdiff_t>(count)}));
  }
  return out;
}

// ---- a whole phase ----

int64_t offset(const std::array<int64_t, 3>& strides, const Varies& varies, const std::array<int64_t, 3>& at) {
  int64_t sum = 0;
  for (size_t d = 0; d < 3; ++d) sum += varies[d] ? at[d] * strides[d] : 0;
  return sum;
}

struct PositionModel {
  const KernelSpec& spec;
  const Launch& launch;
  std::array<int64_t, 3> at;
  std::vector<double> values;

  double read(const Operand& operand) const {
    switch (operand.kind) {
      case Operand::Kind::Arg:
        return launch.args[operand.index].get(
            offset(launch.strides[operand.index], spec.args[operand.index].varies, at));
      case Operand::Kind::Instr:
        return values[operand.index];
      case Operand::Kind::Scalar:
        return launch.scalars[operand.index];
      case Operand::Kind::Const:
        return operand.value;
    }
    return kNan;
  }

  void run() {
    for (const Instr& instr : spec.instrs) {
      std::vector<double> operands;
      for (const Operand& operand : instr.operands) operands.push_back(read(operand));
      values.push_back(compute(instr, operands));
    }
  }
};

/// The index under which an element's reduction is collected: unit, row, or column.
size_t reduction_group(Scheme scheme, const Launch& launch, const std::array<int64_t, 3>& at) {
  if (scheme == Scheme::Linear) return static_cast<size_t>(at[0]);
  if (scheme == Scheme::Rows) return static_cast<size_t>(at[0] * launch.dims[1] + at[1]);
  return static_cast<size_t>(at[0] * launch.dims[2] + at[2]);
}

void for_each_position(const std::array<int64_t, 3>& dims, const std::function<void(std::array<int64_t, 3>)>& body) {
  for (int64_t i = 0; i < dims[0]; ++i) {
    for (int64_t j = 0; j < dims[1]; ++j) {
      for (int64_t k = 0; k < dims[2]; ++k) body({i, j, k});
    }
  }
}

size_t partial_count(Scheme scheme, const std::array<int64_t, 3>& d) {
  if (scheme == Scheme::Linear) return static_cast<size_t>(d[0] * codegen::chunks_of(d[1] * d[2]));
  if (scheme == Scheme::Rows) return static_cast<size_t>(d[0] * d[1] * codegen::chunks_of(d[2]));
  return static_cast<size_t>(d[0] * d[2] * codegen::chunks_of(d[1]));
}

double awkward_value(DType dtype, std::mt19937_64& random) {
  static const std::array<double, 18> kSpecial{0.0,
                                               -0.0,
                                               kInf,
                                               -kInf,
                                               kNan,
                                               1e-40,
                                               -1e-40,
                                               5.9604644775390625e-8,
                                               3.4028234663852886e38,
                                               65504.,
                                               65520.,
                                               1e-310,
                                               1.0,
                                               -1.0,
                                               0.5,
                                               2.0,
                                               1.00390625,
                                               -1.01171875};
  if (dtype == DType::Bool) return static_cast<double>(random() & 1);
  if (random() % 8 == 0) return kSpecial[random() % kSpecial.size()];
  const double magnitude =
      std::ldexp(1.0 + std::ldexp(static_cast<double>(random() >> 12), -52), static_cast<int>(random() % 12) - 8);
  return (random() & 1) != 0 ? -magnitude : magnitude;
}

bool same(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

}  // namespace

double round_to(double value, DType dtype) {
  if (dtype == DType::F64) return value;
  if (dtype == DType::F32) return static_cast<double>(static_cast<float>(value));
  if (dtype == DType::Bool) return value != 0 ? 1.0 : 0.0;
  if (value == 0 || !std::isfinite(value)) return value;
  const Format format = format_of(dtype);
  const int exponent = std::max(std::ilogb(value), format.min_exponent) - (format.digits - 1);
  const double rounded = std::ldexp(std::nearbyint(std::ldexp(value, -exponent)), exponent);
  return std::fabs(rounded) > format.max ? std::copysign(kInf, value) : std::copysign(rounded, value);
}

Buffer::Buffer(DType dtype, int64_t elements)
    : dtype_(dtype), elements_(elements), bytes_(static_cast<size_t>(elements * ir::dtype_bytes(dtype))) {}

double Buffer::get(int64_t index) const {
  const unsigned char* at = bytes_.data() + index * ir::dtype_bytes(dtype_);
  if (dtype_ == DType::Bool) return *at;
  if (dtype_ == DType::F64) {
    double value;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  if (dtype_ == DType::F32) {
    float value;
    std::memcpy(&value, at, sizeof value);
    return static_cast<double>(value);
  }
  uint16_t bits;
  std::memcpy(&bits, at, sizeof bits);
  return decode16(bits, dtype_);
}

void Buffer::set(int64_t index, double value) {
  unsigned char* at = bytes_.data() + index * ir::dtype_bytes(dtype_);
  const double rounded = round_to(value, dtype_);
  if (dtype_ == DType::Bool) {
    *at = static_cast<unsigned char>(rounded);
  } else if (dtype_ == DType::F64) {
    std::memcpy(at, &rounded, sizeof rounded);
  } else if (dtype_ == DType::F32) {
    const auto narrow = static_cast<float>(rounded);
    std::memcpy(at, &narrow, sizeof narrow);
  } else {
    const uint16_t bits = encode16(rounded, dtype_);
    std::memcpy(at, &bits, sizeof bits);
  }
}

Launch make_launch(const KernelSpec& spec, std::array<int64_t, 3> dims, uint64_t seed) {
  std::mt19937_64 random(seed);
  Launch launch;
  launch.dims = dims;
  for (const codegen::KernelArg& arg : spec.args) {
    std::array<int64_t, 3> strides{};
    int64_t elements = 1;
    for (size_t d = 3; d-- > 0;) {
      if (!arg.varies[d]) continue;
      strides[d] = elements;
      elements *= dims[d];
    }
    launch.strides.push_back(strides);
    Buffer& buffer = launch.args.emplace_back(arg.dtype, elements);
    for (int64_t i = 0; i < elements; ++i) buffer.set(i, awkward_value(arg.dtype, random));
  }
  for (uint32_t s = 0; s < spec.num_scalars; ++s) launch.scalars.push_back(0.3 * (s + 1));
  for (size_t r = 0; r < spec.reductions.size(); ++r)
    launch.partials.emplace_back(partial_count(spec.scheme, dims), -7.0);
  return launch;
}

void run_kernel(codegen::KernelFn function, const KernelSpec& spec, Launch& launch, int64_t task) {
  std::vector<void*> args;
  for (Buffer& buffer : launch.args) args.push_back(buffer.data());
  std::vector<double*> partials;
  for (auto& list : launch.partials) partials.push_back(list.data());
  const bool strided = spec.scheme != Scheme::Linear || !spec.contiguous;
  const codegen::KernelCall call{args.data(),
                                 strided ? launch.strides.data()->data() : nullptr,
                                 {launch.dims[0], launch.dims[1], launch.dims[2]},
                                 launch.scalars.data(),
                                 partials.data()};
  const auto& d = launch.dims;
  const int64_t units = spec.scheme == Scheme::Rows ? 1 : d[0];
  const int64_t extent = spec.scheme == Scheme::Linear ? d[1] * d[2] : spec.scheme == Scheme::Rows ? d[0] * d[1] : d[2];
  const int64_t step = spec.scheme == Scheme::Linear ? task * codegen::kChunk : task;
  for (int64_t unit = units; unit-- > 0;) {
    for (int64_t i = (extent + step - 1) / step; i-- > 0;) {
      function(&call, unit, i * step, std::min(extent, (i + 1) * step));
    }
  }
}

void run_model(const KernelSpec& spec, Launch& launch) {
  const Launch before = launch;
  std::vector<std::vector<std::vector<double>>> elements(spec.reductions.size());
  for_each_position(launch.dims, [&](std::array<int64_t, 3> at) {
    PositionModel position{spec, before, at, {}};
    position.run();
    for (const codegen::Store& store : spec.stores) {
      const Varies& varies = spec.args[store.arg].varies;
      const bool owner = (varies[0] || at[0] == 0) && (varies[1] || at[1] == 0) && (varies[2] || at[2] == 0);
      if (owner) launch.args[store.arg].set(offset(launch.strides[store.arg], varies, at), position.read(store.value));
    }
    const size_t group = reduction_group(spec.scheme, launch, at);
    for (size_t r = 0; r < spec.reductions.size(); ++r) {
      if (elements[r].size() <= group) elements[r].resize(group + 1);
      elements[r][group].push_back(position.read(spec.reductions[r].value));
    }
  });
  for (size_t r = 0; r < spec.reductions.size(); ++r) {
    std::vector<double> all;
    for (const auto& group : elements[r]) {
      const std::vector<double> some = partials_of(spec.reductions[r], group);
      all.insert(all.end(), some.begin(), some.end());
    }
    launch.partials[r] = all;
  }
}

std::string difference(const Launch& got, const Launch& want) {
  for (size_t k = 0; k < want.args.size(); ++k) {
    for (int64_t i = 0; i < want.args[k].size(); ++i) {
      const double a = got.args[k].get(i);
      const double b = want.args[k].get(i);
      if (!same(a, b)) return fmt::format("argument {} element {}: {:a}, expected {:a}", k, i, a, b);
    }
  }
  for (size_t r = 0; r < want.partials.size(); ++r) {
    if (got.partials[r].size() != want.partials[r].size()) return fmt::format("reduction {}: number of partials", r);
    for (size_t i = 0; i < want.partials[r].size(); ++i) {
      const double a = got.partials[r][i];
      const double b = want.partials[r][i];
      if (!same(a, b)) return fmt::format("reduction {} partial {}: {:a}, expected {:a}", r, i, a, b);
    }
  }
  return {};
}

}  // namespace stepfuse::test
