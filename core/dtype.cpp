// Names of dtypes, the promotion rules and the default dtype.
#include "lathe/core/dtype.h"

#include <atomic>

#include "lathe/core/error.h"

namespace lathe {

namespace {
constexpr std::string_view kDTypeNames[kNumDTypes] = {"bool", "u8",  "i8",   "i16", "i32",
                                                      "i64",  "f16", "bf16", "f32", "f64"};
constexpr std::string_view kLongNames[kNumDTypes] = {"bool",    "uint8",  "int8",    "int16",
                                                     "int32",   "int64",  "float16", "bfloat16",
                                                     "float32", "float64"};
std::atomic<DType> g_default_dtype{DType::kF32};
}  // namespace

std::string_view name_of(DType dtype) { return kDTypeNames[static_cast<int>(dtype)]; }
void append_text(std::string& out, DType dtype) { out.append(name_of(dtype)); }

DType dtype_from_name(std::string_view name) {
  for (int i = 0; i < kNumDTypes; ++i) {
    if (name == kDTypeNames[i] || name == kLongNames[i]) return static_cast<DType>(i);
  }
  LATHE_FAIL(ValueError, "dtype: no dtype is called \"", name, "\"");
}

DType promote_types(DType a, DType b) {
  if (a == b) return a;
  const int category_a = category_of(a), category_b = category_of(b);
  if (category_a != category_b) return category_a > category_b ? a : b;
  if (category_a == 2) {  // neither of f16 and bf16 holds the other: f32 does
    return is_half(a) && is_half(b) ? DType::kF32 : (a > b ? a : b);
  }
  const bool has_u8 = a == DType::kU8 || b == DType::kU8;
  const DType wider = a > b ? a : b;
  return has_u8 && wider == DType::kI8 ? DType::kI16 : wider;
}

DType default_dtype() noexcept { return g_default_dtype.load(std::memory_order_relaxed); }

void set_default_dtype(DType dtype) {
  LATHE_CHECK(DTypeError, is_floating(dtype), "set_default_dtype: expected a floating dtype, got ",
              dtype);
  g_default_dtype.store(dtype, std::memory_order_relaxed);
}

}  // namespace lathe
