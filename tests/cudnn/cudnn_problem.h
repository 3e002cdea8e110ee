// What tests of cuDNN's engines share: a clean start, and a convolution.
#pragma once

#include <doctest/doctest.h>

#include <string>

#include "../cuda_case.h"
#include "../ops/compare.h"
#include "../same_memory.h"
#include "conv_keys.h"
#include "executions.h"
#include "lathe/core/log.h"
#include "lathe/core/math_mode.h"
#include "lathe/ops/conv/search/conv_search.h"
#include "lathe/ops/conv/search/cudnn_settings.h"
#include "lathe/ops/conv2d.h"

namespace lathe::test {

inline const Device kGpu(DeviceType::kCUDA);

/// A clean start, and whatever a case breaks mended at its end.
struct CudnnFixture {
  CudnnFixture() {
    cudnn::set_algo_cache("");  // a file of the environment has choices of other cases
    conv_search().clear();
    forget_executions();
    dropped_before = conv_search().stats().dropped;
    handler = set_log_handler([this](LogLevel, std::string_view text) { logged += text; });
  }
  ~CudnnFixture() {
    mend_cudnn();
    set_deterministic(false);
    set_tf32(false);
    cudnn::set_benchmark(false);
    cudnn::set_search_limits({});
    conv_search().clear();
    set_log_handler(handler);
  }
  /// Engines that have failed when they ran, and in whose place others have run. While there are
  /// none, what a case has chosen is what has run: a real cuDNN tells nothing else.
  uint64_t dropped() const { return conv_search().stats().dropped - dropped_before; }

  std::string logged;
  uint64_t dropped_before;
  LogHandler handler;
};

/// A convolution of its own sizes for each case: what a thread keeps of a key stays.
struct CudnnProblem {
  CudnnProblem(int64_t channels, int64_t filters, int64_t size, DType dtype = kF32,
               MemoryFormat format = kChannelsLast)
      : g(geometry_of({"", {2, channels, size, size}, {filters, channels, 3, 3}, {.pad = 1}})),
        x(rand(g.x_shape(), {.dtype = dtype}).contiguous(format)),
        w(rand(g.w_shape(), {.dtype = dtype})),
        dy(rand(g.y_shape(), {.dtype = dtype}).contiguous(format)) {}

  Tensor forward(const Tensor& bias = {}) const {
    return cuda::conv2d_forward(g, on_gpu(x), on_gpu(w), bias.defined() ? on_gpu(bias) : Tensor());
  }
  Tensor backward_weight() const { return cuda::conv2d_backward_weight(g, on_gpu(dy), on_gpu(x)); }
  void check(const Tensor& y, const Tensor& bias = {}) const {
    const Tensor want = cpu::conv2d_forward(g, x, w, bias);
    const double tol = x.dtype() == kF32 ? kDeviceTolerance : tolerance_of(x.dtype());
    CHECK(difference(y.cpu(), want, tol) == "");
  }
  static Tensor on_gpu(const Tensor& t) { return same_memory_on(kGpu, t); }

  Conv2dGeometry g;
  Tensor x, w, dy;
};

}  // namespace lathe::test
