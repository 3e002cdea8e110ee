// copy_values and fill_values, and their loops on the CPU. CUDA kernels: core/gpu/copy_cuda.cu;
// copies between devices: core/gpu/transfer_cuda.cpp.
#include "lathe/core/copy.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "lathe/core/convert.h"
#include "lathe/core/cuda_backend.h"
#include "lathe/core/dispatch.h"
#include "lathe/core/row_kernel.h"

namespace lathe {

namespace {

template <class To, class From>
void convert_row(const StridedRow& row, TypeTag<To> /*dst*/) {
  if (row.dense<To>(0) && row.dense<From>(1)) {
    To* out = row.at<To>(0);
    const From* in = row.at<From>(1);
    if constexpr (std::is_same_v<To, From>) {
      std::memcpy(out, in, sizeof(To) * static_cast<size_t>(row.size));
    } else {
      for (int64_t i = 0; i < row.size; ++i) out[i] = convert<To>(in[i]);
    }
    return;
  }
  char* out = row.data[0];
  const char* in = row.data[1];
  for (int64_t i = 0; i < row.size; ++i, out += row.step[0], in += row.step[1]) {
    *reinterpret_cast<To*>(out) = convert<To>(*reinterpret_cast<const From*>(in));
  }
}

}  // namespace

RowKernel cpu::copy_kernel(DType dst, DType src) {
  RowKernel kernel;
  visit_all(dst, [&]<class To>(TypeTag<To> to) {
    visit_all(src, [&]<class From>(TypeTag<From>) {
      kernel = RowKernel::of<convert_row<To, From>>(dst, src, to);
    });
  });
  return kernel;
}

void cpu::copy_elements(const Tensor& dst, const Tensor& src) {
  strided_loop(dst, src, copy_kernel(dst.dtype(), src.dtype()));
}

void cpu::fill_elements(const Tensor& dst, Scalar value) {
  visit_all(dst.dtype(), [&](auto to) {
    using T = typename decltype(to)::type;
    const T number = element_of<T>(value);
    strided_loop(dst, [number](const StridedRow& row) {
      if (row.dense<T>(0)) {
        std::fill_n(row.at<T>(0), row.size, number);
        return;
      }
      char* out = row.data[0];
      for (int64_t i = 0; i < row.size; ++i, out += row.step[0]) {
        *reinterpret_cast<T*>(out) = number;
      }
    });
  });
}

static void check_fits(const Tensor& dst, const Tensor& src) {
  if (src.shape() == dst.shape()) return;
  LATHE_CHECK(ShapeError, broadcast_shapes("copy", src.shape(), dst.shape()) == dst.shape(),
              "copy: ", src.shape(), " does not broadcast to ", dst.shape(), " (dst: ", dst,
              ", src: ", src, ")");
}

void copy_values(const Tensor& dst, const Tensor& src) {
  check_fits(dst, src);
  if (dst.device() != src.device()) return cuda::transfer(dst, src, false);
  LATHE_DISPATCH(dst.device(), copy_elements(dst, src));
}

void copy_values_async(const Tensor& dst, const Tensor& src) {
  check_fits(dst, src);
  if (dst.device() != src.device()) return cuda::transfer(dst, src, true);
  LATHE_DISPATCH(dst.device(), copy_elements(dst, src));
}

void fill_values(const Tensor& dst, Scalar value) {
  LATHE_DISPATCH(dst.device(), fill_elements(dst, value));
}

}  // namespace lathe
