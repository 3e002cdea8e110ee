// From a run-time DType to a compile-time type:
//   visit_float(x.dtype(), "relu", [&](auto tag) { using T = typename decltype(tag)::type; … });
#pragma once

#include <utility>

#include "lathe/core/dtype.h"
#include "lathe/core/error.h"
#include "lathe/core/half.h"

namespace lathe {

template <class T>
struct TypeTag {
  using type = T;
};

/// The type in which arithmetic on `T` is done: float for the half types, which are only stored in
/// 16 bits, and T for all others.
template <class T>
struct ComputeTypeOf {
  using type = T;
};
template <>
struct ComputeTypeOf<Half> {
  using type = float;
};
template <>
struct ComputeTypeOf<BFloat16> {
  using type = float;
};
template <class T>
using ComputeType = typename ComputeTypeOf<T>::type;

/// The compute type of a run-time dtype: f32 for the half types, every other dtype itself.
constexpr DType compute_dtype(DType dtype) { return is_half(dtype) ? kF32 : dtype; }

/// The type in which many `T` are summed: float for half types, i64 for integers and bool.
template <class T>
struct SumTypeOf {
  using type = std::conditional_t<std::is_integral_v<T>, int64_t, ComputeType<T>>;
};
template <class T>
using SumType = typename SumTypeOf<T>::type;

/// Calls f(TypeTag<T>) for f16, bf16, f32, f64.
/// throws: DTypeError that names `op`.
template <class F>
decltype(auto) visit_float(DType dtype, const char* op, F&& f) {
  switch (dtype) {
    case DType::kF16: return f(TypeTag<Half>{});
    case DType::kBF16: return f(TypeTag<BFloat16>{});
    case DType::kF32: return f(TypeTag<float>{});
    case DType::kF64: return f(TypeTag<double>{});
    default: break;
  }
  LATHE_FAIL(DTypeError, op, ": expected a floating dtype, got ", dtype);
}

/// Calls f(TypeTag<T>) for u8, i8, i16, i32, i64.
/// throws: DTypeError that names `op`.
template <class F>
decltype(auto) visit_integer(DType dtype, const char* op, F&& f) {
  switch (dtype) {
    case DType::kU8: return f(TypeTag<uint8_t>{});
    case DType::kI8: return f(TypeTag<int8_t>{});
    case DType::kI16: return f(TypeTag<int16_t>{});
    case DType::kI32: return f(TypeTag<int32_t>{});
    case DType::kI64: return f(TypeTag<int64_t>{});
    default: break;
  }
  LATHE_FAIL(DTypeError, op, ": expected an integer dtype, got ", dtype);
}

/// Calls f(TypeTag<T>) for every number type: all but bool.
/// throws: DTypeError that names `op`.
template <class F>
decltype(auto) visit_number(DType dtype, const char* op, F&& f) {
  LATHE_CHECK(DTypeError, dtype != DType::kBool, op, ": not defined for bool");
  return is_floating(dtype) ? visit_float(dtype, op, f) : visit_integer(dtype, op, f);
}

/// Calls f(TypeTag<T>) for all ten types.
template <class F>
decltype(auto) visit_all(DType dtype, F&& f) {
  return dtype == DType::kBool ? f(TypeTag<bool>{}) : visit_number(dtype, "", f);
}

}  // namespace lathe
