// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "ir/interp_value.h"

#include <cmath>

namespace stepfuse::ir {

namespace {

template <class T>
T sign_of(T a) {
  if (std::isnan(a)) return a;
  return a > 0 ? T(1) : a < 0 ? T(-1) : T(0);
}

template <class T>
T smaller(T a, T b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<T>::quiet_NaN();
  if (a == b) return std::signbit(a) ? a : b;
  return a < b ? a : b;
}

template <class T>
T larger(T a, T b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<T>::quiet_NaN();
  if (a == b) return std::signbit(a) ? b : a;
  return a > b ? a : b;
}

template <class T>
T lerp_of(T a, T b, T w) {
  const T difference = b - a;
  return std::fabs(w) < T(0.5) ? std::fma(w, difference, a) : std::fma(w - T(1), difference, b);
}

template <class T>
T truth(bool value) {
  return value ? T(1) : T(0);
}

/// Calls `use` with the op's function of up to four operands, as ops.def defines it; bool is 0 or 1.
template <class T, class Use>
void with_function(Op op, Use use) {
#define STEPFUSE_CASE(id, expression)                                                                       \
  case Op::id:                                                                                              \
    return use([]([[maybe_unused]] T a, [[maybe_unused]] T b, [[maybe_unused]] T c, [[maybe_unused]] T d) { \
      return static_cast<T>(expression);                                                                    \
    })
  switch (op) {
    STEPFUSE_CASE(Add, a + b);
    STEPFUSE_CASE(Sub, a - b);
    STEPFUSE_CASE(Mul, a * b);
    STEPFUSE_CASE(Div, a / b);
    STEPFUSE_CASE(Neg, -a);
    STEPFUSE_CASE(Abs, std::fabs(a));
    STEPFUSE_CASE(Sign, sign_of(a));
    STEPFUSE_CASE(Sqrt, std::sqrt(a));
    STEPFUSE_CASE(Min, smaller(a, b));
    STEPFUSE_CASE(Max, larger(a, b));
    STEPFUSE_CASE(Axpy, std::fma(a, b, c));
    STEPFUSE_CASE(Lerp, lerp_of(a, b, c));
    STEPFUSE_CASE(Addcmul, std::fma(b * c, d, a));
    STEPFUSE_CASE(Addcdiv, a + (b * c) / d);
    STEPFUSE_CASE(Select, a != T(0) ? b : c);
    STEPFUSE_CASE(Lt, truth<T>(a < b));
    STEPFUSE_CASE(Le, truth<T>(a <= b));
    STEPFUSE_CASE(Gt, truth<T>(a > b));
    STEPFUSE_CASE(Ge, truth<T>(a >= b));
    STEPFUSE_CASE(Eq, truth<T>(a == b));
    STEPFUSE_CASE(Ne, truth<T>(a != b));
    STEPFUSE_CASE(And, truth<T>(a != T(0) && b != T(0)));
    STEPFUSE_CASE(Or, truth<T>(a != T(0) || b != T(0)));
    STEPFUSE_CASE(Not, truth<T>(a == T(0)));
    STEPFUSE_CASE(IsFinite, truth<T>(std::isfinite(a)));
    STEPFUSE_CASE(Cast, a);
    case Op::Input:
    case Op::Const:
    case Op::Powi:
    case Op::Fresh:
    case Op::Transpose:
    case Op::Slice:
    case Op::Concat:
    case Op::AddDiag:
    case Op::Sum:
    case Op::SumSq:
    case Op::Norm:
    case Op::Amax:
    case Op::Any:
    case Op::Matmul:
      break;
  }
#undef STEPFUSE_CASE
  STEPFUSE_CHECK(false, "{} is not elementwise", op_info(op).mnemonic);
}

/// An operand read in step with the result: stride 0 along dimensions it repeats in.
template <class T>
struct Stream {
  const T* base = nullptr;
  Dims3 stride{};

  Stream(const T* data, const Dims3& extents, const Dims3& over) : base(data) {
    int64_t step = 1;
    for (size_t i = 3; i-- > 0;) {
      stride[i] = extents[i] == 1 && over[i] != 1 ? 0 : step;
      step *= extents[i];
    }
  }
  const T* row(int64_t i, int64_t j) const { return base + i * stride[0] + j * stride[1]; }
};

template <class T>
void run(OpCall& call, Evaluation evaluation) {
  // Unused operands read one zero, again and again.
  static const Array kZero{DType::F64, 0, {1, 1, 1}, std::vector<double>{0}};
  const Elements<T> a(*call.args[0]);
  const Elements<T> b(call.args.size() > 1 ? *call.args[1] : kZero);
  const Elements<T> c(call.args.size() > 2 ? *call.args[2] : kZero);
  const Elements<T> d(call.args.size() > 3 ? *call.args[3] : kZero);
  const Dims3& over = call.result.dims;
  const auto stream = [&](const Elements<T>& elements, size_t i) {
    return Stream<T>(elements.data(), i < call.args.size() ? call.args[i]->dims : kZero.dims, over);
  };
  const Stream<T> sa = stream(a, 0), sb = stream(b, 1), sc = stream(c, 2), sd = stream(d, 3);
  std::vector<T> out(static_cast<size_t>(elements_of(over)));
  with_function<T>(call.node.op, [&](auto function) {
    T* to = out.data();
    for (int64_t i = 0; i < over[0]; ++i) {
      for (int64_t j = 0; j < over[1]; ++j) {
        const T *pa = sa.row(i, j), *pb = sb.row(i, j), *pc = sc.row(i, j), *pd = sd.row(i, j);
        for (int64_t k = 0; k < over[2]; ++k)
          *to++ = function(pa[k * sa.stride[2]], pb[k * sb.stride[2]], pc[k * sc.stride[2]], pd[k * sd.stride[2]]);
      }
    }
  });
  store(call.result, std::move(out), evaluation);
}

/// Squaring from the lowest bit. A negative power is the reciprocal of the positive one; a power that is no integer
/// gives NaN.
double integer_power(double base, double exponent) {
  if (!(std::fabs(exponent) <= 0x1p53) || exponent != std::trunc(exponent))
    return std::numeric_limits<double>::quiet_NaN();
  auto bits = static_cast<uint64_t>(std::fabs(exponent));
  double result = 1;
  for (; bits != 0; bits >>= 1, base *= base)
    if ((bits & 1u) != 0) result *= base;
  return exponent < 0 ? 1 / result : result;
}

}  // namespace

void run_elementwise(OpCall& call, Evaluation evaluation) {
  // A scalar condition is tested as it is, before it would be rounded to the math type.
  static const Array kFalse{DType::F64, 0, {1, 1, 1}, std::vector<double>{0}};
  static const Array kTrue{DType::F64, 0, {1, 1, 1}, std::vector<double>{1}};
  if (call.node.op == Op::Select && call.args[0]->size() == 1) {
    const bool cond = std::visit([](const auto& elements) { return elements.front() != 0; }, call.args[0]->data);
    call.args[0] = cond ? &kTrue : &kFalse;
  }
  call.math == DType::F64 ? run<double>(call, evaluation) : run<float>(call, evaluation);
}

double run_scalar(Op op, const std::array<double, kMaxOperands>& operands) {
  if (op == Op::Powi) return integer_power(operands[0], operands[1]);
  double result = 0;
  with_function<double>(op,
                        [&](auto function) { result = function(operands[0], operands[1], operands[2], operands[3]); });
  return result;
}

}  // namespace stepfuse::ir
