// Convolution through cuDNN against the CPU: on a GPU, or on the emulated one over the emulated
// cuDNN.
#include "lathe/ops/conv2d.h"

#include <optional>

#include "../cuda_case.h"
#include "../ops/compare.h"
#include "../same_memory.h"
#include "conv_keys.h"
#include "lathe/core/math_mode.h"
#include "lathe/core/stream.h"
#include "lathe/ops/conv/search/conv_search.h"
#include "lathe/ops/conv/search/cudnn_settings.h"

using namespace lathe;
using namespace lathe::test;

TEST_SUITE_BEGIN("cudnn" * cuda_case());

namespace {

const Device kGpu(DeviceType::kCUDA);

/// The rule of products: sums in another order, TF32 off.
double tolerance(DType dtype) { return dtype == kF32 ? kDeviceTolerance : tolerance_of(dtype); }

Tensor there(const Tensor& t) { return same_memory_on(kGpu, t); }

void check_close(const Tensor& got, const Tensor& want, const std::string& name,
                 std::optional<double> tol = {}) {
  for (const MemoryFormat format : kFormats) {
    if (want.is_contiguous(format)) CHECK_MESSAGE(got.is_contiguous(format), name);
  }
  const std::string text = difference(got.cpu(), want, tol.value_or(tolerance(want.dtype())));
  CHECK_MESSAGE(text.empty(), name, ": ", text);
}

/// All three passes on both devices. `x_format`, `dy_format`, `w_format`: how they lie in memory.
void compare(const Conv2dCase& c, DType dtype, MemoryFormat x_format, MemoryFormat dy_format,
             MemoryFormat w_format, std::optional<double> tol = {}) {
  const Conv2dGeometry g = geometry_of(c);
  const auto random = [&](const Shape& shape, MemoryFormat format) {
    return randn(shape, {.dtype = dtype}).contiguous(format);
  };
  const Tensor x = random(c.x, x_format), w = random(c.w, w_format);
  const Tensor dy = random(g.y_shape(), dy_format), bias = randn({g.K}, {.dtype = dtype});
  const std::string name = concat(c.name, " ", dtype, x_format == kContiguous ? "" : " NHWC");
  check_close(cuda::conv2d_forward(g, there(x), there(w), {}), cpu::conv2d_forward(g, x, w, {}),
              name, tol);
  check_close(cuda::conv2d_forward(g, there(x), there(w), there(bias)),
              cpu::conv2d_forward(g, x, w, bias), name + " with bias", tol);
  check_close(cuda::conv2d_backward_input(g, there(dy), there(w)),
              cpu::conv2d_backward_input(g, dy, w), name + " input gradient", tol);
  check_close(cuda::conv2d_backward_weight(g, there(dy), there(x), w_format),
              cpu::conv2d_backward_weight(g, dy, x, w_format), name + " weight gradient", tol);
}
void compare(const Conv2dCase& c, DType dtype, MemoryFormat format) {
  compare(c, dtype, format, format, kContiguous);
}

/// Sets back what a case changes.
struct Settings {
  Settings() { conv_search().clear(); }
  ~Settings() {
    set_deterministic(false);
    set_tf32(false);
    cudnn::set_enabled(true);
    cudnn::set_benchmark(false);
    conv_search().clear();
  }
};

const Conv2dCase kStem{"stem", {2, 3, 9, 8}, {16, 3, 3, 3}, {.pad = 1}};
const Conv2dCase kHead{"10 filters", {2, 16, 5, 5}, {10, 16, 1, 1}};

}  // namespace

TEST_CASE("conv2d: cuDNN agrees with the CPU for every case, dtype and order") {
  const Settings settings;
  manual_seed(71);
  for (const Conv2dCase& c : kConv2dCases) {
    for (const DType dtype : {kF32, kF16, kBF16, kF64}) {
      compare(c, dtype, kContiguous);
      compare(c, dtype, kChannelsLast);
    }
  }
}

TEST_CASE("conv2d: channels that tensor cores do not take are padded with zeros and cut off") {
  const Settings settings;
  manual_seed(72);
  for (const Conv2dCase& c : {kStem, kHead}) {
    for (const DType dtype : {kF16, kBF16}) compare(c, dtype, kChannelsLast);
    set_tf32(true);  // rounds the factors to 10 bits
    compare(c, kF32, kChannelsLast, kChannelsLast, kContiguous, 2e-3);
    set_tf32(false);
  }
}

TEST_CASE("conv2d: operands of mixed orders, filters stored channels-last") {
  const Settings settings;
  manual_seed(73);
  for (const DType dtype : {kF32, kF16}) {
    compare(kStem, dtype, kChannelsLast, kContiguous, kContiguous);
    compare(kStem, dtype, kContiguous, kChannelsLast, kContiguous);
    compare(kStem, dtype, kChannelsLast, kChannelsLast, kChannelsLast);
    compare(kHead, dtype, kContiguous, kContiguous, kChannelsLast);
  }
}

TEST_CASE("conv2d: transposed, sliced and expanded operands") {
  const Settings settings;
  manual_seed(74);
  const Conv2dGeometry g = geometry_of(kStem);
  for (const Layout& layout : layouts()) {
    const Tensor x = layout.apply(randn(kStem.x)), w = layout.apply(randn(kStem.w));
    const Tensor dy = layout.apply(randn(g.y_shape()));
    check_close(cuda::conv2d_forward(g, there(x), there(w), {}), cpu::conv2d_forward(g, x, w, {}),
                layout.name);
    check_close(cuda::conv2d_backward_input(g, there(dy), there(w)),
                cpu::conv2d_backward_input(g, dy, w), layout.name + " input gradient");
    check_close(cuda::conv2d_backward_weight(g, there(dy), there(x)),
                cpu::conv2d_backward_weight(g, dy, x), layout.name + " weight gradient");
  }
  const Tensor one = randn({1, 1, 1, 1}).expand(g.y_shape());  // the gradient of a sum
  check_close(cuda::conv2d_backward_input(g, there(one), there(ones(kStem.w))),
              cpu::conv2d_backward_input(g, one, ones(kStem.w)), "expanded");
  const Tensor x = zeros(kStem.x), w = zeros(kStem.w), bias = randn({32}).slice(0, 0, 32, 2);
  check_close(cuda::conv2d_forward(g, there(x), there(w), there(bias)),
              cpu::conv2d_forward(g, x, w, bias), "every second bias");
}

TEST_CASE("conv2d: memory at odd addresses") {
  const Settings settings;
  manual_seed(75);
  const Conv2dCase c{"odd addresses", {1, 8, 4, 4}, {8, 8, 3, 3}, {.pad = 1}};
  const Conv2dGeometry g = geometry_of(c);
  const auto shifted = [](const Tensor& t) {
    const Tensor room = zeros({t.numel() + 1}, {.dtype = t.dtype()});
    const Tensor view = alias(room, t.shape(), t.strides(), 1);
    view.copy_(t);
    return alias(room.to(kGpu), t.shape(), t.strides(), 1);
  };
  for (const DType dtype : {kF32, kF16}) {
    const Tensor x = randn(c.x, {.dtype = dtype}).contiguous(kChannelsLast);
    const Tensor w = randn(c.w, {.dtype = dtype}).contiguous(kChannelsLast);
    check_close(cuda::conv2d_forward(g, shifted(x), shifted(w), {}),
                cpu::conv2d_forward(g, x, w, {}), c.name);
  }
}

TEST_CASE("conv2d: deterministic mode gives the same bits again, in every pass and dtype") {
  const Settings settings;
  set_deterministic(true);
  manual_seed(76);
  const Conv2dCase c{"several images", {8, 16, 12, 12}, {24, 16, 3, 3}, {.pad = 1}};
  const Conv2dGeometry g = geometry_of(c);
  for (const DType dtype : {kF32, kF16, kBF16}) {
    const auto random = [&](const Shape& shape) {
      return randn(shape, {.dtype = dtype, .device = kGpu}).contiguous(kChannelsLast);
    };
    const Tensor x = random(c.x), w = random(c.w), dy = random(g.y_shape());
    const Tensor y = cuda::conv2d_forward(g, x, w, {}).cpu();
    const Tensor dx = cuda::conv2d_backward_input(g, dy, w).cpu();
    const Tensor dw = cuda::conv2d_backward_weight(g, dy, x).cpu();
    for (int i = 0; i < 3; ++i) {
      CHECK(difference(cuda::conv2d_forward(g, x, w, {}).cpu(), y, 0) == "");
      CHECK(difference(cuda::conv2d_backward_input(g, dy, w).cpu(), dx, 0) == "");
      CHECK(difference(cuda::conv2d_backward_weight(g, dy, x).cpu(), dw, 0) == "");
    }
  }
  for (const auto& [key, choice] : conv_search().choices()) {
    CHECK_MESSAGE(choice->info().deterministic, concat(key));
  }
}

TEST_CASE("conv2d: benchmark mode computes the same, and outputs are written by the winner alone") {
  const Settings settings;
  cudnn::set_benchmark(true);
  manual_seed(77);
  for (const DType dtype : {kF32, kF16}) {
    compare({"benchmark", {4, 16, 10, 10}, {24, 16, 3, 3}, {.pad = 1}}, dtype, kChannelsLast);
  }
  CHECK(conv_search().stats().searches > 0);
}

TEST_CASE("conv2d: turned off, our own kernels compute and nothing is searched") {
  const Settings settings;
  manual_seed(78);
  cudnn::set_enabled(false);
  const uint64_t before = conv_search().stats().misses;
  compare(kStem, kF32, kChannelsLast);
  CHECK(conv_search().stats().misses == before);
}

TEST_CASE("conv2d: gradients on the GPU are those of the CPU") {
  const Settings settings;
  manual_seed(79);
  const Tensor x = randn(kStem.x), w = randn(kStem.w), bias = randn({16});
  const auto gradients = [&](Device device) {
    Tensors in;
    for (const Tensor& t : {x, w, bias}) {
      in.push_back(t.to(device).detach());
      in.back().requires_grad_();
    }
    conv2d(in[0], in[1], {.bias = in[2], .pad = 1}).square().sum().backward();
    return Tensors{in[0].grad().cpu(), in[1].grad().cpu(), in[2].grad().cpu()};
  };
  const Tensors want = gradients(kCPU), got = gradients(kGpu);
  for (size_t i = 0; i < want.size(); ++i) {
    CHECK(difference(got[i], want[i], kDeviceTolerance) == "");
  }
}

TEST_CASE("conv2d: on a stream of its own, and after it the memory is somebody else's") {
  const Settings settings;
  manual_seed(80);
  const Conv2dGeometry g = geometry_of(kStem);
  const Tensor x = randn(kStem.x), w = randn(kStem.w);
  const Tensor want = cpu::conv2d_forward(g, x, w, {});
  const OwnedStream stream(kGpu);
  Tensor y;
  {
    const StreamScope on(stream);
    y = cuda::conv2d_forward(g, x.to(kGpu), w.to(kGpu), {});
    const Tensor other = full({1 << 16}, 7, {.device = kGpu});
    check_close(y, want, "own stream");
    CHECK(other[0].item<float>() == 7);
  }
  check_close(cuda::conv2d_forward(g, x.to(kGpu), w.to(kGpu), {}), want, "default stream again");
}

TEST_SUITE_END();
