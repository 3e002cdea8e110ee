// Element types, their properties, and PyTorch's promotion rules.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>

#include "lathe/core/config.h"

namespace lathe {

struct Half;      // core/half.h
struct BFloat16;  // core/half.h

enum class DType : uint8_t { kBool, kU8, kI8, kI16, kI32, kI64, kF16, kBF16, kF32, kF64 };

inline constexpr DType kBool = DType::kBool, kU8 = DType::kU8, kI8 = DType::kI8, kI16 = DType::kI16,
                       kI32 = DType::kI32, kI64 = DType::kI64, kF16 = DType::kF16,
                       kBF16 = DType::kBF16, kF32 = DType::kF32, kF64 = DType::kF64;
inline constexpr int kNumDTypes = 10;

// The same under LibTorch's names, for code that is ported.
inline constexpr DType kByte = kU8, kUInt8 = kU8, kChar = kI8, kInt8 = kI8, kShort = kI16,
                       kInt16 = kI16, kInt = kI32, kInt32 = kI32, kLong = kI64, kInt64 = kI64,
                       kHalf = kF16, kFloat16 = kF16, kBFloat16 = kBF16, kFloat = kF32,
                       kFloat32 = kF32, kDouble = kF64, kFloat64 = kF64;

/// Bytes of one element.
constexpr size_t size_of(DType dtype) {
  constexpr uint8_t kSizes[kNumDTypes] = {1, 1, 1, 2, 4, 8, 2, 2, 4, 8};
  return kSizes[static_cast<int>(dtype)];
}
constexpr bool is_floating(DType dtype) { return dtype >= DType::kF16; }
constexpr bool is_half(DType dtype) { return dtype == DType::kF16 || dtype == DType::kBF16; }
constexpr bool is_integer(DType dtype) { return dtype >= DType::kU8 && dtype <= DType::kI64; }

/// "f32", "i64", "bool", …
LATHE_API std::string_view name_of(DType dtype);
LATHE_API void append_text(std::string& out, DType dtype);
LATHE_API std::ostream& operator<<(std::ostream& out, DType dtype);

/// The dtype called `name`: "f32", or "float32" as in NumPy and PyTorch.
/// throws: ValueError for any other name.
LATHE_API DType dtype_from_name(std::string_view name);

/// The dtype of a result that is computed from a and b. The higher category (bool < integer <
/// float) wins; within a category the wider dtype wins. u8 with i8 gives i16, and f16 with bf16
/// gives f32.
/// ref: PyTorch's type promotion table.
LATHE_API DType promote_types(DType a, DType b);

/// The category of a dtype: 0 bool, 1 integer, 2 float. Scalars and 0-d tensors can raise the
/// category of a result, but not its width.
constexpr int category_of(DType dtype) {
  return dtype == DType::kBool ? 0 : is_floating(dtype) ? 2 : 1;
}

/// The floating dtype of new tensors, and of integers that must become floating. f32 unless set.
LATHE_API DType default_dtype() noexcept;
/// Sets the default dtype for the whole process.
/// throws: DTypeError unless `dtype` is floating.
LATHE_API void set_default_dtype(DType dtype);

/// C++ type → DType.
template <class T>
inline constexpr DType dtype_of = [] {
  static_assert(sizeof(T) == 0, "no lathe::DType holds this C++ type");
  return DType::kBool;
}();
template <>
inline constexpr DType dtype_of<bool> = DType::kBool;
template <>
inline constexpr DType dtype_of<uint8_t> = DType::kU8;
template <>
inline constexpr DType dtype_of<int8_t> = DType::kI8;
template <>
inline constexpr DType dtype_of<int16_t> = DType::kI16;
template <>
inline constexpr DType dtype_of<int32_t> = DType::kI32;
template <>
inline constexpr DType dtype_of<int64_t> = DType::kI64;
template <>
inline constexpr DType dtype_of<long long> = DType::kI64;
template <>
inline constexpr DType dtype_of<Half> = DType::kF16;
template <>
inline constexpr DType dtype_of<BFloat16> = DType::kBF16;
template <>
inline constexpr DType dtype_of<float> = DType::kF32;
template <>
inline constexpr DType dtype_of<double> = DType::kF64;

}  // namespace lathe
