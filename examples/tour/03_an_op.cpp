// Chapter 3: an op in four acts, written outside of the library: cast, check, dispatch, record.
#include <lathe/lathe.h>
#include <lathe/ops/autocast.h>

#include <iostream>

using lathe::Tensor;
using lathe::autograd::Needs;

namespace cpu {
/// y = x³ for dense x. What a backend provides: no check, no gradient, only numbers.
Tensor cube(const Tensor& x) {
  Tensor y = lathe::empty_like(x);
  lathe::visit_float(x.dtype(), "cube", [&]<class T>(lathe::TypeTag<T>) {
    using C = lathe::ComputeType<T>;  // float for half types
    for (int64_t i = 0; i < x.numel(); ++i) {
      const C value = static_cast<C>(x.data<T>()[i]);
      y.data<T>()[i] = static_cast<T>(value * value * value);
    }
  });
  return y;
}
}  // namespace cpu

static Tensor cube(const Tensor& x_in) {
  // 1 cast: under Autocast in f32, because a cube soon leaves the range of f16.
  const Tensor x = lathe::amp::cast(lathe::amp::kFloat, x_in).contiguous();
  // 2 check: a sentence with the values in it.
  LATHE_CHECK(lathe::DTypeError, x.is_floating_point(), "cube: x must be floating (x: ", x, ")");
  LATHE_CHECK(lathe::DeviceError, x.device().is_cpu(), "cube: has no kernel for x: ", x);
  // 3 dispatch: with a second backend LATHE_DISPATCH(x.device(), cube(x)).
  const Tensor y = cpu::cube(x);
  // 4 record: dx = dy · 3x², in ops.
  lathe::autograd::record("cube", y, {x},
                          [x = lathe::autograd::Saved(x)](const Tensor& dy, const Needs&) {
                            return lathe::Tensors{dy * 3 * x.get() * x.get()};
                          });
  return y;
}

int main() {
  const Tensor x = lathe::tensor({1.0, 2.0, -3.0});
  x.requires_grad_();
  const Tensor y = cube(x);
  std::cout << y << "\nmade by " << y.grad_fn() << '\n';
  y.sum().backward();
  std::cout << "dy/dx = 3x²: " << x.grad() << '\n';

  // The gradient is made of ops, so it has a gradient itself: d(3x²)/dx = 6x.
  const Tensor slope = lathe::grad({cube(x).sum()}, {x}, {.create_graph = true})[0];
  std::cout << "6x: " << lathe::grad({slope.sum()}, {x})[0] << '\n';

  const auto f = [](const lathe::Tensors& in) { return cube(in[0]).square(); };
  const lathe::Tensors at{lathe::tensor({0.5, -1.5}, lathe::kF64)};
  std::cout << "gradcheck " << (lathe::gradcheck(f, at) ? "agrees" : "differs") << ", twice "
            << (lathe::gradgradcheck(f, at) ? "agrees" : "differs") << '\n';
  {
    const lathe::Autocast half(lathe::kCPU, lathe::kBF16);
    const Tensor product = lathe::matmul(lathe::ones({2, 2}), lathe::ones({2, 2}));
    std::cout << "under Autocast matmul gives " << product.dtype() << ", cube of it "
              << cube(product).dtype() << '\n';
  }
  try {
    cube(lathe::arange(3));
  } catch (const lathe::DTypeError& e) {
    std::cout << e.message() << '\n';
  }
}
