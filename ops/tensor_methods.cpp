// The methods of Tensor that forward to an op; the contracts are at the free functions.
#include "lathe/core/tensor.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/inplace.h"
#include "lathe/ops/matmul.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/softmax.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"

namespace lathe {

// clang-format off
Tensor Tensor::to(DType dtype) const { return cast(*this, dtype); }
Tensor Tensor::to(Device device) const { return to_device(*this, device); }
Tensor Tensor::contiguous(MemoryFormat format) const { return lathe::contiguous(*this, format); }
Tensor Tensor::clone() const { return lathe::clone(*this); }

Tensor Tensor::view(const Shape& shape) const { return lathe::view(*this, shape); }
Tensor Tensor::reshape(const Shape& shape) const { return lathe::reshape(*this, shape); }
Tensor Tensor::flatten(int64_t first, int64_t last) const { return lathe::flatten(*this, first, last); }
Tensor Tensor::squeeze() const { return lathe::squeeze(*this); }
Tensor Tensor::squeeze(int64_t dim) const { return lathe::squeeze(*this, dim); }
Tensor Tensor::unsqueeze(int64_t dim) const { return lathe::unsqueeze(*this, dim); }
Tensor Tensor::transpose(int64_t a, int64_t b) const { return lathe::transpose(*this, a, b); }
Tensor Tensor::permute(const Dims& order) const { return lathe::permute(*this, order); }
Tensor Tensor::expand(const Shape& shape) const { return lathe::expand(*this, shape); }
Tensor Tensor::select(int64_t dim, int64_t index) const { return lathe::select(*this, dim, index); }
Tensor Tensor::narrow(int64_t dim, int64_t start, int64_t length) const { return lathe::narrow(*this, dim, start, length); }
Tensor Tensor::slice(int64_t dim, int64_t start, int64_t stop, int64_t step) const { return lathe::slice(*this, dim, start, stop, step); }
Tensor Tensor::t() const {
  LATHE_CHECK(ShapeError, ndim() <= 2, "t: expected at most 2 dimensions (this: ", *this, ")");
  return ndim() < 2 ? *this : lathe::transpose(*this, 0, 1);
}

Tensor Tensor::sum() const { return lathe::sum(*this); }
Tensor Tensor::sum(const Dims& dims, ReduceOptions options) const { return lathe::sum(*this, dims, options); }
Tensor Tensor::mean() const { return lathe::mean(*this); }
Tensor Tensor::mean(const Dims& dims, ReduceOptions options) const { return lathe::mean(*this, dims, options); }
Tensor Tensor::max() const { return lathe::max(*this); }
Tensor Tensor::min() const { return lathe::min(*this); }
Tensor Tensor::argmax(int64_t dim) const { return lathe::argmax(*this, dim); }
Tensor Tensor::neg() const { return lathe::neg(*this); }
Tensor Tensor::abs() const { return lathe::abs(*this); }
Tensor Tensor::exp() const { return lathe::exp(*this); }
Tensor Tensor::log() const { return lathe::log(*this); }
Tensor Tensor::sqrt() const { return lathe::sqrt(*this); }
Tensor Tensor::square() const { return lathe::square(*this); }
Tensor Tensor::tanh() const { return lathe::tanh(*this); }
Tensor Tensor::sigmoid() const { return lathe::sigmoid(*this); }
Tensor Tensor::relu() const { return lathe::relu(*this); }
Tensor Tensor::pow(Scalar exponent) const { return lathe::pow(*this, exponent); }
Tensor Tensor::matmul(const Tensor& other) const { return lathe::matmul(*this, other); }
Tensor Tensor::softmax(int64_t dim) const { return lathe::softmax(*this, dim); }

const Tensor& Tensor::add_(const Tensor& other, Scalar alpha) const { return lathe::add_(*this, other, alpha); }
const Tensor& Tensor::add_(Scalar value) const { return lathe::add_(*this, value); }
const Tensor& Tensor::sub_(const Tensor& other) const { return lathe::sub_(*this, other); }
const Tensor& Tensor::mul_(const Tensor& other) const { return lathe::mul_(*this, other); }
const Tensor& Tensor::mul_(Scalar value) const { return lathe::mul_(*this, value); }
const Tensor& Tensor::div_(const Tensor& other) const { return lathe::div_(*this, other); }
const Tensor& Tensor::div_(Scalar value) const { return lathe::div_(*this, value); }
const Tensor& Tensor::fill_(Scalar value) const { return lathe::fill_(*this, value); }
const Tensor& Tensor::zero_() const { return lathe::zero_(*this); }
const Tensor& Tensor::copy_(const Tensor& source) const { return lathe::copy_(*this, source); }
const Tensor& Tensor::clamp_(Scalar low, Scalar high) const { return lathe::clamp_(*this, {.low = low, .high = high}); }
// clang-format on

}  // namespace lathe
