// The CPU's fast f32 convolution and its half types against f64, in both memory orders, exact and
// Winograd.
#include <doctest/doctest.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "conv2d_cases.h"
#include "lathe/autograd/autocast.h"
#include "lathe/autograd/grad_mode.h"
#include "lathe/core/hooks/memory_use.h"
#include "lathe/core/machine/info.h"
#include "lathe/core/memory/host_allocator.h"
#include "lathe/core/thread_pool.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/conv/cpu/conv2d_dnnl.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/inplace.h"
#include "lathe/ops/isclose.h"
#include "lathe/ops/random.h"
#include "lathe/ops/reduce.h"
#include "relative_error.h"

using namespace lathe;
using namespace lathe::test;

namespace {

const Conv2dCase kLargeCases[] = {
    {"ResNet stage 1", {4, 64, 16, 16}, {64, 64, 3, 3}, {.pad = 1}},
    {"ResNet stage 2, first", {4, 64, 16, 16}, {128, 64, 3, 3}, {.stride = 2, .pad = 1}},
    {"ResNet stage 2", {3, 128, 9, 7}, {96, 128, 3, 3}, {.pad = 1}},
    {"ResNet stage 4", {2, 256, 4, 4}, {256, 256, 3, 3}, {.pad = 1}},
    {"unpadded", {2, 64, 11, 10}, {64, 64, 3, 3}},
    {"stem", {4, 3, 32, 32}, {16, 3, 3, 3}, {.pad = 1}},
    {"ImageNet stem", {1, 3, 45, 45}, {64, 3, 7, 7}, {.stride = 2, .pad = 3}},
    {"narrow", {4, 16, 16, 16}, {16, 16, 3, 3}, {.pad = 1}},
    {"odd channel counts", {2, 67, 8, 8}, {65, 67, 3, 3}, {.pad = 1}},
    {"shortcut", {4, 64, 8, 8}, {128, 64, 1, 1}, {.stride = 2}},
    {"depthwise", {2, 32, 9, 9}, {32, 1, 3, 3}, {.pad = 1, .groups = 32}},
    {"grouped", {2, 32, 9, 9}, {64, 8, 3, 3}, {.pad = 1, .groups = 4}},
};

/// Batches of small images, which bf16 computes several at a time where the processor has AMX.
const Conv2dCase kSmallImages[] = {
    {"stage 4", {33, 32, 4, 4}, {64, 32, 3, 3}, {.pad = 1}},
    {"stage 4, first", {7, 32, 8, 8}, {64, 32, 3, 3}, {.stride = 2, .pad = 1}},
    {"stage 4, shortcut", {16, 32, 8, 8}, {48, 32, 1, 1}, {.stride = 2}},
    {"stage 3", {9, 32, 8, 8}, {32, 32, 3, 3}, {.pad = 1}},
    {"odd sizes", {18, 16, 5, 7}, {24, 16, 3, 3}, {.stride = 2, .pad = 1}},
    {"dilation", {11, 16, 6, 6}, {16, 16, 3, 3}, {.pad = 2, .dilation = 2}},
    {"7x7", {5, 16, 7, 7}, {16, 16, 7, 7}, {.stride = 2, .pad = 3}},
    {"unpadded", {9, 16, 6, 6}, {16, 16, 3, 3}},
    {"pad beyond the kernel", {9, 16, 3, 3}, {16, 16, 1, 1}, {.pad = 1}},
};

/// The largest error of the three passes in `dtype` against f64.
double error_in(const Conv2dCase& c, DType dtype, MemoryFormat format) {
  manual_seed(7);
  const auto rounded = [&](const Shape& shape) { return cast(randn(shape), dtype); };
  const Tensor x = contiguous(rounded(c.x), format), w = rounded(c.w);
  Conv2dOptions opt = c.opt, opt64 = c.opt;
  opt.bias = rounded({c.w[0]});
  opt64.bias = cast(opt.bias, kF64);
  const Tensor x64 = cast(x, kF64), w64 = cast(w, kF64);
  const Tensor y64 = conv2d(x64, w64, opt64), y = conv2d(x, w, opt);
  CHECK(y.dtype() == dtype);
  CHECK(y.is_contiguous(format));
  const Tensor dy = contiguous(rounded(y.shape()), format), dy64 = cast(dy, kF64);
  return std::max({relative_error(y, y64),
                   relative_error(conv2d_input_grad(dy, w, c.x, c.opt),
                                  conv2d_input_grad(dy64, w64, c.x, c.opt)),
                   relative_error(conv2d_weight_grad(dy, x, c.w, c.opt),
                                  conv2d_weight_grad(dy64, x64, c.w, c.opt))});
}

void check_cases(const Conv2dCase* first, const Conv2dCase* last, DType dtype, double tolerance) {
  for (const Conv2dCase* c = first; c != last; ++c) {
    CAPTURE(c->name);
    CHECK(error_in(*c, dtype, kContiguous) <= tolerance);
    CHECK(error_in(*c, dtype, kChannelsLast) <= tolerance);
  }
}

struct ExactScope {
  explicit ExactScope(bool exact) : before(cpu::conv_exact()) { cpu::set_conv_exact(exact); }
  ~ExactScope() { cpu::set_conv_exact(before); }
  bool before;
};

}  // namespace

TEST_CASE("conv2d: f32 with direct sums agrees with f64") {
  const ExactScope exact(true);
  check_cases(std::begin(kConv2dCases), std::end(kConv2dCases), kF32, 1e-5);
  check_cases(std::begin(kLargeCases), std::end(kLargeCases), kF32, 1e-5);
}

TEST_CASE("conv2d: f32 with the fastest algorithm agrees with f64") {
  // Winograd F(4x4,3x3) loses up to 3 bits: its transforms multiply by up to 5 and cancel again.
  check_cases(std::begin(kConv2dCases), std::end(kConv2dCases), kF32, 2e-5);
  check_cases(std::begin(kLargeCases), std::end(kLargeCases), kF32, 2e-5);
}

TEST_CASE("conv2d: the fast path is what it says it is") {
  const cpu::OneDnnInfo info = cpu::onednn_info();
  const std::string built = build_info().libraries[0].version;  // oneDNN's
  CHECK(info.library.empty() == built.empty());
  if (!built.empty()) CHECK(info.library.substr(0, 8) == "oneDNN " + built.substr(0, 1));
  CHECK(info.bf16 == cpu::conv_machine().bf16);
  manual_seed(7);
  const Tensor x = randn({4, 64, 8, 8}), w = randn({64, 64, 3, 3});  // row-major: by the library
  const Tensor fastest = conv2d(x, w, {.pad = 1});
  const ExactScope exact(true);
  const bool same = relative_error(fastest, conv2d(x, w, {.pad = 1})) == 0;
  CHECK(same == !info.winograd);
}

TEST_CASE("conv2d: paddings of rows and columns that differ, by every algorithm") {
  const Conv2dCase cases[] = {{"rows", {4, 64, 8, 8}, {64, 64, 3, 3}, {.pad = {2, 0}}},
                              {"columns", {4, 64, 8, 8}, {64, 64, 3, 3}, {.pad = {0, 2}}},
                              {"much", {4, 64, 8, 8}, {64, 64, 3, 3}, {.pad = {1, 5}}}};
  for (const DType dtype : {kF32, kBF16}) {
    check_cases(std::begin(cases), std::end(cases), dtype, dtype == kF32 ? 2e-5 : 8e-3);
  }
}

TEST_CASE("conv2d: strides, paddings and dilations that are no int") {
  constexpr int64_t kLarge = int64_t{1} << 31;
  const Conv2dCase cases[] = {
      {"stride", {2, 16, 8, 8}, {16, 16, 3, 3}, {.stride = 2 * kLarge}},
      {"largest", {2, 16, 8, 8}, {16, 16, 1, 1}, {.stride = INT64_MAX}},
      {"far taps", {1, 16, 8, 8}, {16, 16, 3, 3}, {.pad = kLarge, .dilation = kLarge}}};
  for (const DType dtype : {kF32, kBF16}) {
    check_cases(std::begin(cases), std::end(cases), dtype, dtype == kF32 ? 1e-5 : 8e-3);
  }
}

TEST_CASE("conv2d: a gradient in the memory of others is read anew by each pass") {
  const ExactScope exact(true);
  for (const int64_t kernel : {1, 3, 5}) {
    CAPTURE(kernel);
    const Conv2dOptions opt{.pad = kernel / 2};
    manual_seed(3);
    const Tensor x = randn({2, 32, 16, 16}), w = randn({32, 32, kernel, kernel});
    std::vector<float> memory(static_cast<size_t>(x.numel()), 1.0f);
    const Tensor dy = from_blob(memory.data(), x.shape(), kF32);
    const Tensor want = conv2d_weight_grad(full(x.shape(), 2.0f), x, w.shape(), opt);
    conv2d_input_grad(dy, w, x.shape(), opt);
    std::ranges::fill(memory, 2.0f);  // by its owner: version() does not tell
    CHECK(relative_error(conv2d_weight_grad(dy, x, w.shape(), opt), want) == 0);
  }
}

TEST_CASE("conv2d: half types are summed in f32 and rounded once") {
  const ExactScope exact(true);
  check_cases(std::begin(kConv2dCases), std::end(kConv2dCases), kF16, 1e-3);   // 2^-11 relative
  check_cases(std::begin(kConv2dCases), std::end(kConv2dCases), kBF16, 8e-3);  // 2^-8 relative
  check_cases(std::begin(kLargeCases), std::end(kLargeCases), kBF16, 8e-3);
  check_cases(std::begin(kSmallImages), std::end(kSmallImages), kBF16, 8e-3);
}

TEST_CASE("conv2d: without tile registers Winograd takes bf16 as f32, and rounds once") {
  if (cpu::conv_machine().tiles) return;  // CI's stages as on other processors have none
  manual_seed(11);
  const Tensor x = randn({4, 64, 32, 32}).contiguous(kChannelsLast).to(kBF16);
  const Tensor w = randn({32, 64, 3, 3}).to(kBF16);
  const Conv2dOptions opt{.pad = 1};
  const Tensor y = conv2d(x, w, opt), dx = conv2d_input_grad(y, w, x.shape(), opt);
  const Tensor dw = conv2d_weight_grad(y, x, w.shape(), opt);
  const Tensor x32 = x.to(kF32), w32 = w.to(kF32), y32 = y.to(kF32);
  CHECK(relative_error(y, conv2d(x32, w32, opt).to(kBF16)) == 0);
  CHECK(relative_error(dx, conv2d_input_grad(y32, w32, x.shape(), opt).to(kBF16)) == 0);
  CHECK(relative_error(dw, conv2d_weight_grad(y32, x32, w.shape(), opt).to(kBF16)) == 0);
}

TEST_CASE("conv2d: of filters in a half type nothing is kept while they are trained") {
  manual_seed(12);
  const Tensor x = randn({4, 64, 32, 32}).contiguous(kChannelsLast).to(kF16);
  Tensor w = randn({64, 64, 3, 3}).to(kF16);
  const auto kept_by_call = [&] {
    const int64_t before = profile::memory_use().in_use;
    (void)conv2d(x, w, {.pad = 1});
    return profile::memory_use().in_use - before;
  };
  (void)kept_by_call();  // of constants a copy in f32 is kept, and what Winograd makes of it
  CHECK(kept_by_call() == 0);
  const int64_t with_copies = profile::memory_use().in_use;
  w = randn({64, 64, 3, 3}).to(kF16).requires_grad_();
  CHECK(kept_by_call() == 0);
  const Tensor small = randn({4, 16, 16, 16}).contiguous(kChannelsLast);
  (void)conv2d(small, randn({16, 16, 3, 3}),
               {.pad = 1});  // a look-up frees the first filters' copies
  CHECK(profile::memory_use().in_use < with_copies - 64 * 64 * 36 * 4);
}

TEST_CASE("conv2d: filters stored channels-last give the same bits, and gradients in their order") {
  for (const bool is_exact : {false, true}) {
    const ExactScope exact(is_exact);
    for (const Conv2dCase& c : kLargeCases) {
      CAPTURE(c.name);
      manual_seed(8);
      const Tensor x = contiguous(randn(c.x), kChannelsLast), w = randn(c.w);
      const auto passes = [&](MemoryFormat format) {
        const Tensor in = x.detach().requires_grad_();
        const Tensor filter = w.contiguous(format).detach().requires_grad_();
        const Tensor y = conv2d(in, filter, c.opt);
        y.square().sum().backward();
        CHECK(filter.grad().is_contiguous(format));
        const NoGrad infer;  // keeps packed filters
        return Tensors{y.detach(), in.grad(), filter.grad(), conv2d(in, filter, c.opt)};
      };
      const Tensors rows = passes(kContiguous), last = passes(kChannelsLast);
      for (size_t i = 0; i < rows.size(); ++i) {
        CHECK(last[i].to_vector<float>() == rows[i].to_vector<float>());
      }
    }
  }
}

TEST_CASE("conv2d: two calls give the same bits, also from several threads at once") {
  manual_seed(1);
  const Tensor x = contiguous(randn({4, 64, 12, 12}), kChannelsLast), w = randn({64, 64, 3, 3});
  const auto once = [&] { return conv2d(x, w, {.pad = 1}).to_vector<double>(); };
  const auto expected = once();
  CHECK(once() == expected);
  std::vector<std::vector<double>> results(3);
  std::vector<std::thread> threads;
  for (auto& result : results) threads.emplace_back([&] { result = once(); });
  for (auto& thread : threads) thread.join();
  for (const auto& result : results) CHECK(result == expected);
}

TEST_CASE("conv2d: follows a change of the number of threads") {
  const Tensor x = randn({4, 16, 12, 12}), w = randn({16, 16, 3, 3});
  const int before = num_threads();
  set_num_threads(1);
  const Tensor one = conv2d(x, w), one64 = conv2d(cast(x, kF64), cast(w, kF64));
  set_num_threads(3);
  const Tensor three = conv2d(x, w), three64 = conv2d(cast(x, kF64), cast(w, kF64));
  set_num_threads(before);
  CHECK(relative_error(three, one) <= 1e-5);
  CHECK(three64.to_vector<double>() ==
        one64.to_vector<double>());  // our own kernels: the same bits
}

TEST_CASE("conv2d: packed copies are freed by the next convolution after what they were made of") {
  const Conv2dOptions opt{.pad = 1};
  const Tensor small_x = zeros({1, 16, 4, 4}), small_w = zeros({16, 16, 3, 3}).requires_grad_();
  const auto held_after_next = [&] {
    const NoGrad off;
    conv2d(small_x, small_w, opt);
    return host_allocator().stats().allocated_bytes;
  };
  const size_t before = held_after_next();
  {  // dy, for a gradient of frozen weights that nobody asks for
    const Tensor x = randn({4, 64, 8, 8}).requires_grad_(), w = randn({64, 64, 3, 3});
    sum(conv2d(x, w, opt)).backward();
  }
  CHECK(held_after_next() == before);
  {  // the weights of a model that is gone
    const NoGrad off;
    const Tensor w = randn({64, 64, 3, 3}).requires_grad_();
    conv2d(randn({4, 64, 8, 8}), w, opt);
  }
  CHECK(held_after_next() == before);
}

TEST_CASE("conv2d: packed casts of filters go with the Autocast scope that made them") {
  const NoGrad off;
  const Tensor x = randn({4, 64, 8, 8}), w = randn({64, 64, 3, 3}).requires_grad_();
  const auto held = [&] {  // behind a scope, without another convolution
    {
      const Autocast half(kCPU, kBF16);
      conv2d(x, w, {.pad = 1});
    }
    return host_allocator().stats().allocated_bytes;
  };
  held();
  conv2d(x, w.detach(), {.pad = 1});  // looks for copies, and frees those of the cast at the latest
  const auto before = host_allocator().stats().allocated_bytes;
  CHECK(held() == before);
}

TEST_CASE("conv2d: packed copies follow what happens to the tensors that they are copies of") {
  manual_seed(3);
  const Tensor x = contiguous(randn({2, 64, 8, 8}), kChannelsLast), w = randn({64, 64, 3, 3});
  const auto direct = [&](const Tensor& weight) {
    return conv2d(cast(x, kF64), cast(weight, kF64), {.pad = 1});
  };
  w.requires_grad_();
  const NoGrad off;
  for (int step = 0; step < 3; ++step) {  // inference, weights written between the calls
    CHECK(relative_error(conv2d(x, w, {.pad = 1}), direct(w)) <= 1e-4);
    CHECK(relative_error(conv2d(x, w, {.pad = 1}), direct(w)) <= 1e-4);
    w.mul_(-0.5);
  }
  for (int model = 0; model < 3; ++model) {  // new weights, perhaps where the old ones were
    const Tensor other = randn({64, 64, 3, 3});
    other.requires_grad_();
    CHECK(relative_error(conv2d(x, other, {.pad = 1}), direct(other)) <= 1e-4);
  }

  const Tensor dy = contiguous(randn({2, 64, 8, 8}), kChannelsLast);
  conv2d_input_grad(dy, w, x.shape(), {.pad = 1});
  dy.mul_(3);
  CHECK(relative_error(conv2d_weight_grad(dy, x, w.shape(), {.pad = 1}),
                       conv2d_weight_grad(cast(dy, kF64), cast(x, kF64), w.shape(), {.pad = 1})) <=
        1e-4);
}

TEST_CASE("conv2d: filters in the memory of others are read anew each time") {
  manual_seed(3);
  const NoGrad off;
  std::vector<float> memory(16 * 16 * 3 * 3, 0.5f);
  const Tensor w = from_blob(memory.data(), {16, 16, 3, 3});
  const Tensor x = contiguous(randn({1, 16, 16, 16}), kChannelsLast);
  const Tensor before = conv2d(x, w, {.pad = 1});
  for (float& value : memory) value *= 2;
  CHECK(equal(conv2d(x, w, {.pad = 1}), before * 2));
}

TEST_CASE("conv2d: filters of constants are transformed once, until they are written") {
  manual_seed(3);
  const NoGrad off;
  const Conv2dOptions opt{.pad = 1};
  // Winograd's, too: it looks for kept filters in every build.
  const Tensor small_x = contiguous(zeros({1, 16, 16, 16}), kChannelsLast);
  const Tensor small_w = zeros({16, 16, 3, 3});
  const auto held_after_next = [&] {
    conv2d(small_x, small_w, opt);
    return host_allocator().stats().allocated_bytes;
  };
  const Tensor x = contiguous(randn({2, 64, 16, 16}), kChannelsLast);  // Winograd's
  const auto right = [&](const Tensor& filters) {
    const Tensor expected = conv2d(cast(x, kF64), cast(filters, kF64), opt);
    return relative_error(conv2d(x, filters, opt), expected) <= 1e-5;
  };
  const size_t transformed = 36 * 64 * 64 * sizeof(float), before = held_after_next();
  {
    const Tensor w = randn({64, 64, 3, 3}), other_view = w.transpose(0, 1);
    const size_t without = held_after_next();
    CHECK(right(w));
    const size_t with = held_after_next();
    CHECK(with - without >= transformed);
    CHECK(with - without < 2 * transformed);
    CHECK(right(w));  // the kept ones
    CHECK(held_after_next() == with);
    CHECK(right(other_view));
    CHECK(right(w.narrow(0, 16, 32)));
    w.mul_(-0.5);
    CHECK(held_after_next() == without);
    CHECK(right(w));
    CHECK(right(other_view));
    w.mul_(-0.5);
    w.requires_grad_();  // a model's parameters would take four times their memory
    CHECK(right(w));
    CHECK(held_after_next() == without);
  }
  CHECK(held_after_next() == before);
  for (int model = 0; model < 3; ++model) CHECK(right(randn({64, 64, 3, 3})));  // at one address
  CHECK(held_after_next() == before);
}
