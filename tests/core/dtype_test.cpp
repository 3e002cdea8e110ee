// Element types: names, sizes, PyTorch's promotion rules, the default dtype.
#include "lathe/core/dtype.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "lathe/core/error.h"
#include "lathe/core/half.h"
#include "lathe/ops/creation.h"

using namespace lathe;

namespace {
constexpr DType kAll[] = {kBool, kU8, kI8, kI16, kI32, kI64, kF16, kBF16, kF32, kF64};
}  // namespace

TEST_CASE("dtype: names and sizes") {
  for (const DType dtype : kAll) {
    CHECK(dtype_from_name(name_of(dtype)) == dtype);
    CHECK(zeros({3}, {.dtype = dtype}).bytes() == 3 * static_cast<int64_t>(size_of(dtype)));
  }
  CHECK(dtype_from_name("float32") == kF32);
  CHECK(dtype_from_name("bfloat16") == kBF16);
  CHECK(dtype_from_name("uint8") == kU8);
  CHECK_THROWS_WITH_AS(dtype_from_name("f8"), doctest::Contains("no dtype is called \"f8\""),
                       ValueError);
  CHECK(size_of(kBool) == sizeof(bool));
  CHECK(size_of(kF16) == sizeof(Half));
  CHECK(size_of(kBF16) == sizeof(BFloat16));
  CHECK(size_of(kI64) == sizeof(int64_t));
  CHECK(size_of(kF64) == sizeof(double));
}

TEST_CASE("promote_types: the narrowest dtype that holds both, category before width") {
  // What each type can hold exactly: category, bits of the whole part, bits of the exponent.
  struct Range {
    int category, digits, exponent;
    bool negative;
  };
  const auto range_of = [](DType dtype) -> Range {
    switch (dtype) {
      case DType::kBool: return {0, 1, 0, false};
      case DType::kU8: return {1, 8, 0, false};
      case DType::kI8: return {1, 7, 0, true};
      case DType::kI16: return {1, 15, 0, true};
      case DType::kI32: return {1, 31, 0, true};
      case DType::kI64: return {1, 63, 0, true};
      case DType::kF16: return {2, 11, 5, true};
      case DType::kBF16: return {2, 8, 8, true};
      case DType::kF32: return {2, 24, 8, true};
      case DType::kF64: return {2, 53, 11, true};
    }
    return {};
  };
  const auto holds = [&](DType wide, DType narrow) {
    const Range w = range_of(wide), n = range_of(narrow);
    if (w.category != n.category) return w.category > n.category;
    return w.digits >= n.digits && w.exponent >= n.exponent && (w.negative || !n.negative);
  };
  for (const DType a : kAll) {
    for (const DType b : kAll) {
      CAPTURE(concat(a, " with ", b));
      const DType got = promote_types(a, b);
      CHECK(got == promote_types(b, a));
      CHECK(holds(got, a));
      CHECK(holds(got, b));
      for (const DType other : kAll) {  // no narrower one of the same category would do
        if (category_of(other) == category_of(got) && size_of(other) < size_of(got)) {
          CHECK_FALSE((holds(other, a) && holds(other, b)));
        }
      }
    }
  }
}

TEST_CASE("default dtype: that of new tensors and of integers that must become floating") {
  CHECK(default_dtype() == kF32);
  CHECK(zeros({2}).dtype() == kF32);
  set_default_dtype(kF64);
  const DType of_zeros = zeros({2}).dtype(), of_range = arange(0.0, 1.0, 0.5).dtype();
  set_default_dtype(kF32);
  CHECK(of_zeros == kF64);
  CHECK(of_range == kF64);
  CHECK_THROWS_WITH_AS(set_default_dtype(kI32), doctest::Contains("got i32"), DTypeError);
  CHECK(default_dtype() == kF32);
}
