// New tensors: values, dtypes, layouts, errors.
#include "lathe/ops/creation.h"

#include <limits>

#include "compare.h"
#include "lathe/core/memory/host_allocator.h"

using namespace lathe;
using namespace lathe::test;

TEST_CASE("creation: values, dtypes and errors") {
  CHECK(arange(5).dtype() == kI64);
  CHECK(difference(arange(1.0, 0.0, -0.25), {1, 0.75, 0.5, 0.25}, 1e-6).empty());
  CHECK(arange(3, 3).numel() == 0);
  CHECK_THROWS_AS(arange(0, 5, -1), ValueError);
  CHECK_THROWS_AS(arange(0, 5, 0), ValueError);
  CHECK(difference(linspace(0, 1, 5), {0, 0.25, 0.5, 0.75, 1}, 0).empty());
  CHECK(difference(eye(2, 3, {}), {1, 0, 0, 0, 1, 0}, 0).empty());
  CHECK(full({2}, true).dtype() == kBool);
  CHECK(difference(ones({2}), {1, 1}, 0).empty());
  CHECK(difference(zeros({0, 2}), std::vector<double>{}, 0).empty());
  CHECK(tensor({{1, 2}, {3, 4}}).shape() == Shape{2, 2});
  CHECK_THROWS_AS(tensor({{1, 2}, {3}}), ShapeError);
  CHECK_THROWS_AS(zeros({-1}), ShapeError);
  CHECK_THROWS_AS(zeros({int64_t{1} << 40, int64_t{1} << 40}), ShapeError);
  CHECK_THROWS_AS(zeros({1, 1, 1, 1, 1, 1, 1, 1, 1}), ShapeError);
  CHECK_THROWS_AS(zeros({2}, {.device = "cuda:99"}), DeviceError);
}

TEST_CASE("arange: integers are exact over all of i64") {
  constexpr int64_t kTwo53 = int64_t{1} << 53;
  CHECK(arange(kTwo53, kTwo53 + 3).to_vector<int64_t>() ==
        std::vector<int64_t>{kTwo53, kTwo53 + 1, kTwo53 + 2});
  CHECK(arange(INT64_MAX - 3, INT64_MAX, 2).to_vector<int64_t>() ==
        std::vector<int64_t>{INT64_MAX - 3, INT64_MAX - 1});
  CHECK(arange(INT64_MIN, INT64_MAX, int64_t{1} << 62).to_vector<int64_t>() ==
        std::vector<int64_t>{INT64_MIN, -(int64_t{1} << 62), 0, int64_t{1} << 62});
  CHECK(arange(INT64_MAX, INT64_MIN, INT64_MIN).to_vector<int64_t>() ==
        std::vector<int64_t>{INT64_MAX, -1});
  CHECK(arange(5, 0, -2, {.dtype = kF32}).to_vector<float>() == std::vector<float>{5, 3, 1});
}

TEST_CASE("arange, linspace: too many numbers, and those that are none, are typed errors") {
  const auto refused = [](auto f) {  // with all memory as it was before
    const size_t before = host_allocator().stats().allocated_bytes;
    try {
      f();
    } catch (const ShapeError&) {
      return host_allocator().stats().allocated_bytes == before;
    } catch (const OutOfMemoryError&) {
      return host_allocator().stats().allocated_bytes == before;
    }
    return false;
  };
  CHECK(refused([] { arange(INT64_MIN, INT64_MAX); }));
  CHECK(refused([] { arange(int64_t{1} << 55); }));
  CHECK(refused([] { arange(0.0, 1e300, 1.0); }));
  CHECK(refused([] { arange(-1.7e308, 1.7e308, 1.0); }));
  CHECK(refused([] { arange(0.0, 1e17, 1.0); }));
  CHECK(refused([] { linspace(0, 1, INT64_MAX); }));
  CHECK(refused([] { linspace(0, 1, int64_t{1} << 55); }));
  CHECK_THROWS_AS(arange(0.0, 1e-200, -1e-200), ValueError);  // the product of the two is 0
  CHECK_THROWS_AS(arange(0.0, std::numeric_limits<double>::infinity(), 1.0), ValueError);
  CHECK_THROWS_AS(linspace(0, std::nan(""), 3), ValueError);
  CHECK_THROWS_AS(linspace(-1.7e308, 1.7e308, 3), ValueError);
}

TEST_CASE("creation: _like forms have the other tensor's shape, dtype and stride order") {
  const Tensor nhwc = zeros({2, 3, 4, 5}, {.dtype = kF16}).contiguous(kChannelsLast);
  REQUIRE(nhwc.stride(1) == 1);
  const Tensor likes[] = {empty_like(nhwc), zeros_like(nhwc), ones_like(nhwc),
                          full_like(nhwc, 2.5)};
  for (const Tensor& t : likes) {
    CHECK(t.shape() == nhwc.shape());
    CHECK(t.dtype() == kF16);
    CHECK(t.strides() == nhwc.strides());
  }
  CHECK(difference(likes[1], std::vector<double>(120, 0), 0).empty());
  CHECK(difference(likes[2], std::vector<double>(120, 1), 0).empty());
  CHECK(difference(likes[3], std::vector<double>(120, 2.5), 0).empty());
  CHECK((nhwc + 1.0).strides() == nhwc.strides());
}

TEST_CASE("from_blob: shows the caller's memory, and says when it is done with it") {
  float values[] = {1, 2, 3, 4, 5, 6};
  bool released = false;
  {
    Tensor t = from_blob(values, {2, 3}, kF32, kCPU, [&] { released = true; });
    values[4] = 50;
    CHECK(t.select(0, 1).to_vector<float>() == std::vector<float>{4, 50, 6});
    t.mul_(2);
    CHECK(values[0] == 2);
    const Tensor view = t.select(0, 0);
    t = {};
    CHECK_FALSE(released);  // the view still looks at it
    CHECK(view.shares_storage(view.slice(0, 0, 1)));
  }
  CHECK(released);
  CHECK(from_blob(static_cast<float*>(nullptr), {0}).numel() == 0);
  CHECK_THROWS_AS(from_blob(static_cast<float*>(nullptr), {1}), ValueError);
}
