// oneDNN's threads are OpenMP's: in the child of a fork(), and where the system gives none.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "lathe/core/log.h"
#include "lathe/core/start_thread.h"
#include "lathe/lathe.h"
#include "lathe/ops/conv/cpu/conv2d_dnnl.h"
#include "lathe/tests/threads_scope.h"

namespace lathe {
namespace {

/// A product, the three passes of a convolution, and a convolution of integers, each large enough
/// for several threads.
std::vector<float> products() {
  Generator draws(7);
  const auto numbers = [&](const Shape& shape) { return randn(shape, {}, &draws); };
  std::vector<float> sums;
  const auto add = [&](const Tensor& t) { sums.push_back(t.to(kF32).abs().sum().item<float>()); };
  const Tensor a = numbers({160, 160});
  add(matmul(a, a));
  for (const int64_t size : {3, 5}) {  // 5: our own kernels have no way for it
    const Tensor x = numbers({4, 16, 24, 24}), w = numbers({32, 16, size, size});
    x.requires_grad_();
    w.requires_grad_();
    const Tensor y = conv2d(x, w, {.stride = 2, .pad = 1});
    y.square().sum().backward();
    for (const Tensor& t : {y, x.grad(), w.grad()}) add(t);
  }
  const NoGrad off;
  add(quantized_conv2d(full({4, 24, 24, 16}, 3, {.dtype = kI8}).permute({0, 3, 1, 2}),
                       full({32, 16, 3, 3}, 2, {.dtype = kI8}), ones({32}), {.pad = 1}, {}));
  return sums;
}

bool near(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    // Sums of 1e5 numbers in another order: 2^-24 sqrt(1e5), with room.
    if (!(std::abs(a[i] - b[i]) <= 1e-4f * std::abs(a[i]))) return false;
  }
  return true;
}

TEST_CASE("oneDNN: the child of a fork computes, also in a thread of its own") {
  const test::ThreadsScope two(2);
  const std::vector<float> want = products();
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::alarm(60);  // a region that waits for threads of the parent never ends
    int code = near(products(), want) ? 0 : 1;
    std::thread([&] { code += near(products(), want) ? 0 : 2; }).join();
    code += near(products(), want) ? 0 : 4;
    ::_exit(code);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(near(products(), want));
}

TEST_CASE("oneDNN: goes on with the threads that there are, and says so once") {
  std::vector<std::string> warnings;
  std::vector<float> want, found;
  {
    const test::ThreadsScope one(1);
    want = products();
  }
  const LogHandler before =
      set_log_handler([&](LogLevel, std::string_view text) { warnings.emplace_back(text); });
  {
    const test::ThreadsScope three(3);
    std::thread([&] {  // whose regions have had no threads yet
      const ArmedFault none(thread_fault(), 1, FaultPoint::kForever);
      found = products();
      found = products();
    })
        .join();
  }
  set_log_handler(before);
  CHECK(near(found, want));
  CHECK(std::ranges::count_if(warnings, [](const std::string& text) {
          return text.starts_with(
              "matrix products and convolutions run on 1 of 3 threads: "
              "oneDNN: no thread can be started: Resource temporarily");
        }) == (cpu::onednn_info().library.empty() ? 0 : 1));
}

}  // namespace
}  // namespace lathe
