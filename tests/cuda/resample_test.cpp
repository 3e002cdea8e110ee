// The kernels of ops/window_kernels/resample_cuda.cu against the CPU's, for the maps of pooling and upsampling and
// their adjoints.
#include "lathe/ops/resample.h"

#include "on_device.h"

using namespace lathe;
using namespace lathe::test;

namespace {

PlaneMap adjoint(const PlaneMap& map) { return {transposed(map.rows), transposed(map.columns)}; }

void compare(const Shape& planes, const PlaneMap& map, DType dtype = kF32) {
  const Shape in{planes[0], planes[1], map.rows.in, map.columns.in};
  const Shape out{planes[0], planes[1], map.rows.out(), map.columns.out()};
  for (const MemoryFormat format : {kContiguous, kChannelsLast}) {
    const Tensor x = randn(in, {.dtype = dtype}).contiguous(format);
    const MemoryFormat order = x.is_contiguous() ? kContiguous : format;  // 1x1 planes are both
    const Tensor y = empty(out, {.dtype = dtype}).contiguous(order), got = on_device(y.clone());
    cpu::resample(y, x, map);
    cuda::resample(got, on_device(x), map);
    const std::string text = difference(on_host(got), y, tolerance_of(dtype));
    CHECK_MESSAGE(text.empty(), concat(in, " to ", out, format == kContiguous ? "" : " NHWC"), ": ",
                  text);
  }
}

void compare_both(const Shape& planes, const PlaneMap& map, DType dtype = kF32) {
  compare(planes, map, dtype);
  compare(planes, adjoint(map), dtype);
}

}  // namespace

TEST_CASE("resample kernels: agree with the CPU for every kind of map and dtype") {
  manual_seed(52);
  const Window1d window{.kernel = 3, .stride = 2, .pad = 1, .dilation = 1, .ceil_mode = true};
  compare_both({2, 3}, {average_map(7, window, true), average_map(9, window, false)});
  compare_both({2, 8}, {adaptive_average_map(5, 3), adaptive_average_map(4, 4)});
  compare_both({1, 2}, {nearest_map(3, 7, 3.0 / 7), nearest_map(4, 3, 4.0 / 3)});
  compare_both({1, 4}, {linear_map(5, 8, 5.0 / 8, false), linear_map(4, 9, 4.0 / 9, true)});
  compare({0, 4}, {nearest_map(2, 4, 0.5), nearest_map(2, 4, 0.5)});
  for (const DType dtype : {kF16, kBF16, kF64}) {
    compare_both({1, 8}, {adaptive_average_map(5, 3), linear_map(4, 6, 4.0 / 6, false)}, dtype);
  }
}

TEST_CASE("resample kernels: global pooling, and tables too large for the parameters") {
  manual_seed(53);
  for (const DType dtype : {kF32, kF16, kBF16, kF64}) {
    compare_both({2, 5}, {adaptive_average_map(9, 1), adaptive_average_map(11, 1)}, dtype);
  }
  compare_both({1, 1}, {adaptive_average_map(300, 2), adaptive_average_map(33, 1)});
  compare_both({1, 4}, {linear_map(3, 150, 3.0 / 150, false), nearest_map(2, 3, 2.0 / 3)});
}
