// Chapter 1: a tensor is a handle to storage, an offset, a shape and strides.
#include <lathe/lathe.h>

#include <iomanip>
#include <iostream>

using lathe::Tensor;

static void show(const char* name, const Tensor& t, const Tensor& owner) {
  std::cout << std::left << std::setw(26) << name << " shape " << std::setw(10)
            << lathe::concat(t.shape()) << " strides " << std::setw(12)
            << lathe::concat(t.strides()) << " offset " << t.offset()
            << (t.is_contiguous() ? "  dense" : "") << (t.shares_storage(owner) ? "" : "  a copy")
            << '\n';
}

/// Element {i,j} by hand: the address is offset + i * strides[0] + j * strides[1].
static float element(const Tensor& t, int64_t i, int64_t j) {
  return t.data<float>()[i * t.stride(0) + j * t.stride(1)];  // data() has the offset in it
}

int main() {
  const Tensor x = lathe::arange(12, lathe::kF32).reshape({3, 4});
  show("x", x, x);
  show("x.t()", x.t(), x);
  show("x[1]", x[1], x);
  show("x.slice(1, 1, 4, 2)", x.slice(1, 1, 4, 2), x);
  show("x[0].expand({3, 4})", x[0].expand({3, 4}), x);
  show("x.t().reshape({12})", x.t().reshape({12}), x);
  show("x.t().contiguous()", x.t().contiguous(), x);

  const Tensor view = x.t().slice(0, 1, 3);  // columns 1 and 2 of x, as rows
  std::cout << "\nview of columns 1 and 2, by to_vector:";
  for (const float value : view.to_vector<float>()) std::cout << ' ' << value;
  std::cout << "\nthe same by offset and strides:       ";
  for (int64_t i = 0; i < view.dim(0); ++i)
    for (int64_t j = 0; j < view.dim(1); ++j) std::cout << ' ' << element(view, i, j);

  std::cout << "\n\nversion of x " << x.version();
  view.mul_(10);  // writes through the view
  std::cout << ", after view.mul_(10) " << x.version() << "; x is now";
  for (const float value : x.to_vector<float>()) std::cout << ' ' << value;

  const Tensor images = lathe::zeros({2, 3, 4, 5});
  const Tensor nhwc = images.contiguous(lathe::kChannelsLast);
  std::cout << "\n\n";
  show("images, NCHW", images, images);
  show("images, NHWC", nhwc, nhwc);
  std::cout << "sizeof(Tensor) " << sizeof(Tensor) << " bytes, images hold " << images.bytes()
            << " bytes\n";
}
