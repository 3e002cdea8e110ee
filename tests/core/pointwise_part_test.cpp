#include "lathe/core/gpu/pointwise_part.h"

#include <vector>

#include <doctest/doctest.h>

#include "lathe/core/error.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/views.h"

using namespace lathe;

namespace {

std::vector<PointwisePart> parts(std::vector<PointwiseOperand> operands, int packet) {
  std::vector<PointwisePart> found;
  each_pointwise_part(operands, packet, [&](const PointwisePart& part) { found.push_back(part); });
  return found;
}

}  // namespace

TEST_CASE("pointwise part: dense operands in packets, and what is left over") {
  const Tensor out = empty({3, 5}), x = empty({3, 5});
  const auto found = parts({{out, DType::kF32}, {x, DType::kF32}}, 4);
  REQUIRE(found.size() == 1);
  CHECK(found[0].packed);
  CHECK(found[0].count == 3);
  CHECK(found[0].left == 3);
  CHECK(found[0].repeated == 0);
  CHECK(found[0].data[0] == out.raw_data());
  CHECK(found[0].data[1] == x.raw_data());
}

TEST_CASE("pointwise part: a number has no data, a broadcast column is repeated") {
  const Tensor out = empty({3, 8}), number = full({}, 2.0), column = empty({3, 1});
  const auto found = parts({{out, DType::kF32}, {number, DType::kF32}, {column, DType::kF32}}, 4);
  REQUIRE(found.size() == 1);
  CHECK(found[0].packed);
  CHECK(found[0].count == 6);
  CHECK(found[0].left == 0);
  CHECK(found[0].repeated == 0b11);
  CHECK(found[0].data[1] == nullptr);
}

TEST_CASE(
    "pointwise part: element by element where rows are no multiple, not aligned, or strided") {
  const Tensor out = empty({3, 8}), dense = empty({3, 9});
  const auto packed = [&](const Tensor& x) {
    const auto found = parts({{out, DType::kF32}, {x, DType::kF32}}, 4);
    REQUIRE(found.size() == 1);
    CHECK(found[0].count == (found[0].packed ? 6u : 24u));
    return found[0].packed;
  };
  CHECK(packed(empty({3, 8})));
  CHECK_FALSE(packed(dense.slice(1, 0, 8)));                         // rows 9 apart
  CHECK_FALSE(packed(empty({25}).slice(0, 1, 25).reshape({3, 8})));  // 4 bytes beyond a packet
  CHECK_FALSE(packed(empty({3, 16}).slice(1, 0, 16, 2)));
  CHECK(parts({{empty({0, 8}), DType::kF32}}, 4).empty());
}

TEST_CASE("pointwise part: a kernel for another dtype or number of operands is refused") {
  const Tensor out = empty({4}), x = empty({4}, {.dtype = DType::kF64});
  CHECK_THROWS_WITH_AS(parts({{out, DType::kF32}, {x, DType::kF32}}, 4),
                       doctest::Contains("pointwise: the kernel takes f32, not f64[4]@cpu"),
                       DTypeError);
  CHECK_THROWS_AS(parts({}, 4), ValueError);
  CHECK_THROWS_AS(parts(std::vector<PointwiseOperand>(5, {out, DType::kF32}), 4), ValueError);
}
