// The clipping kernels of optim/kernels/clip_grad_cuda.cu against the CPU loops.
#include "lathe/optim/clip_grad.h"

#include <limits>

#include "on_device.h"

using namespace lathe;
using namespace lathe::test;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Tensors on_device(const Tensors& grads) {
  Tensors all;
  for (const Tensor& g : grads) all.push_back(lathe::test::on_device(g.clone()));
  return all;
}

void check_equal(const Tensors& got, const Tensors& want, double tol) {
  for (size_t i = 0; i < want.size(); ++i) {
    const std::string text = difference(on_host(got[i]), want[i], tol);
    CHECK_MESSAGE(text.empty(), "gradient ", i, ": ", text);
  }
}

/// Every dtype, sizes around those of packets and chunks, one gradient at an odd address and one
/// that is not dense.
Tensors gradients() {
  Tensors all;
  for (const DType dtype : {kF32, kF16, kBF16, kF64}) {
    for (const int64_t n : {0, 1, 33, 1025}) all.push_back(randn({n}, {.dtype = dtype}));
  }
  all.push_back(randn({8193}).narrow(0, 1, 4099));
  all.push_back(randn({6, 10}).slice(1, 1, 10, 2));
  all.push_back(randn({5, 7}).transpose(0, 1));
  return all;
}

}  // namespace

TEST_CASE("grad_norm kernels: agree with the CPU for every norm, dtype and layout") {
  manual_seed(33);
  const Tensors grads = gradients();
  Tensors device;
  for (const Tensor& g : grads) device.push_back(lathe::test::on_device(g));
  for (const double p : {1.0, 2.0, 3.0, kInfinity}) {
    for (const DType dtype : {kF32, kF64}) {
      const Tensor want = optim::cpu::grad_norm(grads, p, dtype);
      const Tensor got = optim::cuda::grad_norm(device, p, dtype);
      CHECK(got.dtype() == dtype);
      check_equal({got}, {want}, dtype == kF32 ? 1e-7 : 1e-13);  // double sums in another order
    }
  }
  const Tensors none = {zeros({0})};
  CHECK(on_host(optim::cuda::grad_norm(on_device(none), 2, kF32)).item<float>() == 0);
}

TEST_CASE("grad_norm kernels: an infinite or NaN gradient shows in the norm") {
  for (const double bad : {kInfinity, std::numeric_limits<double>::quiet_NaN()}) {
    const Tensors grads = {full({40}, 0.5), full({3}, bad)};
    for (const double p : {2.0, kInfinity}) {
      check_equal({optim::cuda::grad_norm(on_device(grads), p, kF32)},
                  {optim::cpu::grad_norm(grads, p, kF32)}, 0);
    }
  }
}

TEST_CASE("scale_grads, clamp_grads kernels: equal the CPU bit for bit") {
  manual_seed(34);
  for (const DType dtype : {kF32, kF64}) {
    for (const double total : {8.0, 0.25, kInfinity}) {
      const Tensor norm = full({}, total, {.dtype = dtype});
      const Tensors want = gradients(), got = on_device(want);
      optim::cpu::scale_grads(want, norm, 1.0);
      optim::cuda::scale_grads(got, lathe::test::on_device(norm), 1.0);
      check_equal(got, want, 0);
    }
  }
  Tensors want = gradients();
  want.push_back(full({3}, std::numeric_limits<double>::quiet_NaN()));
  want.push_back(full({3}, -kInfinity));
  const Tensors got = on_device(want);
  optim::cpu::clamp_grads(want, 0.4);
  optim::cuda::clamp_grads(got, 0.4);
  check_equal(got, want, 0);
}
