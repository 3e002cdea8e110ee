// The methods of Tensor that forward to an op; the contracts are at the free functions.
#include "lathe/autograd/record.h"
#include "lathe/core/tensor.h"
#include "lathe/ops/argmax.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/cumprod.h"
#include "lathe/ops/cumsum.h"
#include "lathe/ops/diagonal.h"
#include "lathe/ops/index.h"
#include "lathe/ops/indexing.h"
#include "lathe/ops/inplace.h"
#include "lathe/ops/isclose.h"
#include "lathe/ops/lines.h"
#include "lathe/ops/matmul.h"
#include "lathe/ops/multinomial.h"
#include "lathe/ops/nonzero.h"
#include "lathe/ops/products.h"
#include "lathe/ops/random.h"
#include "lathe/ops/rearrange.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/scatter.h"
#include "lathe/ops/softmax.h"
#include "lathe/ops/sort.h"
#include "lathe/ops/triangle.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"
#include "lathe/ops/where.h"
#include "lathe/ops/windows.h"

namespace lathe {

// clang-format off
Tensor Tensor::to(DType dtype) const { return cast(*this, dtype); }
Tensor Tensor::to(Device device) const { return to_device(*this, device); }
Tensor Tensor::contiguous(MemoryFormat format) const { return lathe::contiguous(*this, format); }
Tensor Tensor::clone() const { return lathe::clone(*this); }

Tensor Tensor::new_empty(const Shape& shape) const { return lathe::empty(shape, {.dtype = dtype(), .device = device()}); }
Tensor Tensor::new_zeros(const Shape& shape) const { return lathe::zeros(shape, {.dtype = dtype(), .device = device()}); }
Tensor Tensor::new_ones(const Shape& shape) const { return lathe::ones(shape, {.dtype = dtype(), .device = device()}); }
Tensor Tensor::new_full(const Shape& shape, Scalar value) const { return lathe::full(shape, value, {.dtype = dtype(), .device = device()}); }

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
Tensors Tensor::split(int64_t size, int64_t dim) const { return lathe::split(*this, size, dim); }
Tensors Tensor::split(const std::vector<int64_t>& sizes, int64_t dim) const { return lathe::split(*this, sizes, dim); }
Tensors Tensor::chunk(int64_t count, int64_t dim) const { return lathe::chunk(*this, count, dim); }
Tensors Tensor::unbind(int64_t dim) const { return lathe::unbind(*this, dim); }
Tensor Tensor::flip(const Dims& dims) const { return lathe::flip(*this, dims); }
Tensor Tensor::roll(int64_t shift, int64_t dim) const { return lathe::roll(*this, shift, dim); }
Tensor Tensor::repeat(const Dims& repeats) const { return lathe::repeat(*this, repeats); }
Tensor Tensor::repeat_interleave(int64_t repeats, int64_t dim) const { return lathe::repeat_interleave(*this, repeats, dim); }
Tensor Tensor::movedim(int64_t from, int64_t to) const { return lathe::movedim(*this, from, to); }
Tensor Tensor::diag(int64_t offset) const { return lathe::diag(*this, offset); }
Tensor Tensor::diagonal(int64_t offset, int64_t dim1, int64_t dim2) const { return lathe::diagonal(*this, {.offset = offset, .dim1 = dim1, .dim2 = dim2}); }
Tensor Tensor::trace() const { return lathe::trace(*this); }
Tensor Tensor::unfold(int64_t dim, int64_t size, int64_t step) const { return lathe::windows(*this, dim, size, step); }
Tensor Tensor::index(std::initializer_list<TensorIndex> indices) const { return lathe::index(*this, indices); }
const Tensor& Tensor::index_put_(std::initializer_list<TensorIndex> indices, const Tensor& values) const { return lathe::index_put_(*this, indices, values); }
const Tensor& Tensor::index_put_(std::initializer_list<TensorIndex> indices, Scalar value) const { return lathe::index_put_(*this, indices, value); }
Tensor Tensor::index(std::span<const TensorIndex> indices) const { return lathe::index(*this, indices); }
const Tensor& Tensor::index_put_(std::span<const TensorIndex> indices, const Tensor& values) const { return lathe::index_put_(*this, indices, values); }
const Tensor& Tensor::index_put_(std::span<const TensorIndex> indices, Scalar value) const { return lathe::index_put_(*this, indices, value); }
Tensor Tensor::index_select(int64_t dim, const Tensor& index) const { return lathe::index_select(*this, dim, index); }
Tensor Tensor::index_add(int64_t dim, const Tensor& index, const Tensor& source, Scalar alpha) const { return lathe::index_add(*this, dim, index, source, alpha); }
Tensor Tensor::gather(int64_t dim, const Tensor& index) const { return lathe::gather(*this, dim, index); }
Tensor Tensor::scatter_add(int64_t dim, const Tensor& index, const Tensor& source) const { return lathe::scatter_add(*this, dim, index, source); }
Tensor Tensor::scatter(int64_t dim, const Tensor& index, const Tensor& source) const { return lathe::scatter(*this, dim, index, source); }
Tensor Tensor::scatter(int64_t dim, const Tensor& index, Scalar value) const { return lathe::scatter(*this, dim, index, value); }
Tensor Tensor::take(const Tensor& index) const { return lathe::take(*this, index); }
Tensor Tensor::nonzero() const { return lathe::nonzero(*this); }
Tensor Tensor::masked_select(const Tensor& mask) const { return lathe::masked_select(*this, mask); }
Tensor Tensor::masked_fill(const Tensor& mask, Scalar value) const { return lathe::masked_fill(*this, mask, value); }
Tensor Tensor::masked_fill(const Tensor& mask, const Tensor& value) const { return lathe::masked_fill(*this, mask, value); }
Tensor Tensor::where(const Tensor& condition, const Tensor& other) const { return lathe::where(condition, *this, other); }
Tensor Tensor::where(const Tensor& condition, Scalar other) const { return lathe::where(condition, *this, other); }
Tensor Tensor::tril(int64_t diagonal) const { return lathe::tril(*this, diagonal); }
Tensor Tensor::triu(int64_t diagonal) const { return lathe::triu(*this, diagonal); }

Tensor Tensor::sum() const { return lathe::sum(*this); }
Tensor Tensor::sum(const Dims& dims, ReduceOptions options) const { return lathe::sum(*this, dims, options); }
Tensor Tensor::mean() const { return lathe::mean(*this); }
Tensor Tensor::mean(const Dims& dims, ReduceOptions options) const { return lathe::mean(*this, dims, options); }
Tensor Tensor::prod() const { return lathe::prod(*this); }
Tensor Tensor::prod(const Dims& dims, ReduceOptions options) const { return lathe::prod(*this, dims, options); }
Tensor Tensor::amax(const Dims& dims, ReduceOptions options) const { return lathe::amax(*this, dims, options); }
Tensor Tensor::amin(const Dims& dims, ReduceOptions options) const { return lathe::amin(*this, dims, options); }
Tensor Tensor::max() const { return lathe::max(*this); }
Tensor Tensor::min() const { return lathe::min(*this); }
ValuesAndIndices Tensor::max(int64_t dim, ReduceOptions options) const { return lathe::max(*this, dim, options); }
ValuesAndIndices Tensor::min(int64_t dim, ReduceOptions options) const { return lathe::min(*this, dim, options); }
Tensor Tensor::argmax() const { return lathe::argmax(*this); }
Tensor Tensor::argmax(int64_t dim, ReduceOptions options) const { return lathe::argmax(*this, dim, options); }
Tensor Tensor::argmin() const { return lathe::argmin(*this); }
Tensor Tensor::argmin(int64_t dim, ReduceOptions options) const { return lathe::argmin(*this, dim, options); }
Tensor Tensor::all(const Dims& dims, ReduceOptions options) const { return lathe::all(*this, dims, options); }
Tensor Tensor::any(const Dims& dims, ReduceOptions options) const { return lathe::any(*this, dims, options); }
Tensor Tensor::var(const Dims& dims) const { return lathe::var(*this, dims); }
Tensor Tensor::var(const Dims& dims, VarOptions options) const { return lathe::var(*this, dims, options); }
Tensor Tensor::std(const Dims& dims) const { return lathe::std(*this, dims); }
Tensor Tensor::std(const Dims& dims, VarOptions options) const { return lathe::std(*this, dims, options); }
Tensor Tensor::norm(const Dims& dims, ReduceOptions options) const { return lathe::norm(*this, dims, options); }
Tensor Tensor::logsumexp(const Dims& dims, ReduceOptions options) const { return lathe::logsumexp(*this, dims, options); }
Tensor Tensor::cumsum(int64_t dim) const { return lathe::cumsum(*this, dim); }
Tensor Tensor::cumprod(int64_t dim) const { return lathe::cumprod(*this, dim); }
Tensor Tensor::multinomial(int64_t count) const { return lathe::multinomial(*this, count); }
ValuesAndIndices Tensor::sort(int64_t dim) const { return lathe::sort(*this, dim); }
ValuesAndIndices Tensor::sort(int64_t dim, SortOptions options) const { return lathe::sort(*this, dim, options); }
Tensor Tensor::argsort(int64_t dim) const { return lathe::argsort(*this, dim); }
Tensor Tensor::argsort(int64_t dim, SortOptions options) const { return lathe::argsort(*this, dim, options); }
ValuesAndIndices Tensor::topk(int64_t k, int64_t dim) const { return lathe::topk(*this, k, dim); }

Tensor Tensor::neg() const { return lathe::neg(*this); }
Tensor Tensor::abs() const { return lathe::abs(*this); }
Tensor Tensor::sign() const { return lathe::sign(*this); }
Tensor Tensor::square() const { return lathe::square(*this); }
Tensor Tensor::floor() const { return lathe::floor(*this); }
Tensor Tensor::ceil() const { return lathe::ceil(*this); }
Tensor Tensor::round() const { return lathe::round(*this); }
Tensor Tensor::trunc() const { return lathe::trunc(*this); }
Tensor Tensor::exp() const { return lathe::exp(*this); }
Tensor Tensor::expm1() const { return lathe::expm1(*this); }
Tensor Tensor::log() const { return lathe::log(*this); }
Tensor Tensor::log1p() const { return lathe::log1p(*this); }
Tensor Tensor::log2() const { return lathe::log2(*this); }
Tensor Tensor::log10() const { return lathe::log10(*this); }
Tensor Tensor::sqrt() const { return lathe::sqrt(*this); }
Tensor Tensor::rsqrt() const { return lathe::rsqrt(*this); }
Tensor Tensor::reciprocal() const { return lathe::reciprocal(*this); }
Tensor Tensor::sin() const { return lathe::sin(*this); }
Tensor Tensor::cos() const { return lathe::cos(*this); }
Tensor Tensor::tan() const { return lathe::tan(*this); }
Tensor Tensor::atan() const { return lathe::atan(*this); }
Tensor Tensor::tanh() const { return lathe::tanh(*this); }
Tensor Tensor::sigmoid() const { return lathe::sigmoid(*this); }
Tensor Tensor::erf() const { return lathe::erf(*this); }
Tensor Tensor::relu() const { return lathe::relu(*this); }
Tensor Tensor::gelu() const { return lathe::gelu(*this); }
Tensor Tensor::silu() const { return lathe::silu(*this); }
Tensor Tensor::isnan() const { return lathe::isnan(*this); }
Tensor Tensor::isinf() const { return lathe::isinf(*this); }
Tensor Tensor::isfinite() const { return lathe::isfinite(*this); }
Tensor Tensor::clamp(Scalar low, Scalar high) const { return lathe::clamp(*this, low, high); }
Tensor Tensor::clamp_min(Scalar low) const { return lathe::clamp(*this, {.low = low}); }
Tensor Tensor::clamp_max(Scalar high) const { return lathe::clamp(*this, {.high = high}); }
Tensor Tensor::add(const Tensor& other, Scalar alpha) const { return lathe::add(*this, other, alpha); }
Tensor Tensor::add(Scalar other) const { return lathe::add(*this, other); }
Tensor Tensor::sub(const Tensor& other, Scalar alpha) const { return lathe::sub(*this, other, alpha); }
Tensor Tensor::sub(Scalar other) const { return lathe::sub(*this, other); }
Tensor Tensor::mul(const Tensor& other) const { return lathe::mul(*this, other); }
Tensor Tensor::mul(Scalar other) const { return lathe::mul(*this, other); }
Tensor Tensor::div(const Tensor& other) const { return lathe::div(*this, other); }
Tensor Tensor::div(Scalar other) const { return lathe::div(*this, other); }
Tensor Tensor::div(const Tensor& other, DivOptions options) const { return lathe::div(*this, other, options); }
Tensor Tensor::pow(Scalar exponent) const { return lathe::pow(*this, exponent); }
Tensor Tensor::pow(const Tensor& exponent) const { return lathe::pow(*this, exponent); }
Tensor Tensor::fmod(const Tensor& other) const { return lathe::fmod(*this, other); }
Tensor Tensor::fmod(Scalar other) const { return lathe::fmod(*this, other); }
Tensor Tensor::remainder(const Tensor& other) const { return lathe::remainder(*this, other); }
Tensor Tensor::remainder(Scalar other) const { return lathe::remainder(*this, other); }
Tensor Tensor::lerp(const Tensor& end, double weight) const { return lathe::lerp(*this, end, weight); }
Tensor Tensor::lerp(const Tensor& end, const Tensor& weight) const { return lathe::lerp(*this, end, weight); }
Tensor Tensor::maximum(const Tensor& other) const { return lathe::maximum(*this, other); }
Tensor Tensor::minimum(const Tensor& other) const { return lathe::minimum(*this, other); }
Tensor Tensor::eq(const Tensor& other) const { return lathe::eq(*this, other); }
Tensor Tensor::eq(Scalar other) const { return lathe::eq(*this, other); }
Tensor Tensor::ne(const Tensor& other) const { return lathe::ne(*this, other); }
Tensor Tensor::ne(Scalar other) const { return lathe::ne(*this, other); }
Tensor Tensor::lt(const Tensor& other) const { return lathe::lt(*this, other); }
Tensor Tensor::lt(Scalar other) const { return lathe::lt(*this, other); }
Tensor Tensor::le(const Tensor& other) const { return lathe::le(*this, other); }
Tensor Tensor::le(Scalar other) const { return lathe::le(*this, other); }
Tensor Tensor::gt(const Tensor& other) const { return lathe::gt(*this, other); }
Tensor Tensor::gt(Scalar other) const { return lathe::gt(*this, other); }
Tensor Tensor::ge(const Tensor& other) const { return lathe::ge(*this, other); }
Tensor Tensor::ge(Scalar other) const { return lathe::ge(*this, other); }
Tensor Tensor::logical_and(const Tensor& other) const { return lathe::logical_and(*this, other); }
Tensor Tensor::logical_or(const Tensor& other) const { return lathe::logical_or(*this, other); }
Tensor Tensor::logical_xor(const Tensor& other) const { return lathe::logical_xor(*this, other); }
Tensor Tensor::logical_not() const { return lathe::logical_not(*this); }
bool Tensor::allclose(const Tensor& other, double rtol, double atol) const { return lathe::allclose(*this, other, {.rtol = rtol, .atol = atol}); }

Tensor Tensor::matmul(const Tensor& other) const { return lathe::matmul(*this, other); }
Tensor Tensor::mm(const Tensor& other) const { return lathe::mm(*this, other); }
Tensor Tensor::bmm(const Tensor& other) const { return lathe::bmm(*this, other); }
Tensor Tensor::mv(const Tensor& other) const { return lathe::mv(*this, other); }
Tensor Tensor::dot(const Tensor& other) const { return lathe::dot(*this, other); }
Tensor Tensor::outer(const Tensor& other) const { return lathe::outer(*this, other); }
Tensor Tensor::softmax(int64_t dim) const { return lathe::softmax(*this, dim); }
Tensor Tensor::log_softmax(int64_t dim) const { return lathe::log_softmax(*this, dim); }

const Tensor& Tensor::add_(const Tensor& other, Scalar alpha) const { return lathe::add_(*this, other, alpha); }
const Tensor& Tensor::add_(Scalar value) const { return lathe::add_(*this, value); }
const Tensor& Tensor::sub_(const Tensor& other, Scalar alpha) const { return lathe::sub_(*this, other, alpha); }
const Tensor& Tensor::sub_(Scalar value) const { return lathe::sub_(*this, value); }
const Tensor& Tensor::mul_(const Tensor& other) const { return lathe::mul_(*this, other); }
const Tensor& Tensor::mul_(Scalar value) const { return lathe::mul_(*this, value); }
const Tensor& Tensor::div_(const Tensor& other) const { return lathe::div_(*this, other); }
const Tensor& Tensor::div_(Scalar value) const { return lathe::div_(*this, value); }
const Tensor& Tensor::fill_(Scalar value) const { return lathe::fill_(*this, value); }
const Tensor& Tensor::zero_() const { return lathe::zero_(*this); }
const Tensor& Tensor::copy_(const Tensor& source) const { return lathe::copy_(*this, source); }
const Tensor& Tensor::clamp_(Scalar low, Scalar high) const { return lathe::clamp_(*this, {.low = low, .high = high}); }
const Tensor& Tensor::neg_() const { return lathe::neg_(*this); }
const Tensor& Tensor::exp_() const { return lathe::exp_(*this); }
const Tensor& Tensor::sqrt_() const { return lathe::sqrt_(*this); }
const Tensor& Tensor::tanh_() const { return lathe::tanh_(*this); }
const Tensor& Tensor::sigmoid_() const { return lathe::sigmoid_(*this); }
const Tensor& Tensor::relu_() const { return lathe::relu_(*this); }
const Tensor& Tensor::masked_fill_(const Tensor& mask, Scalar value) const { return lathe::masked_fill_(*this, mask, value); }
const Tensor& Tensor::index_add_(int64_t dim, const Tensor& index, const Tensor& source, Scalar alpha) const {
  autograd::check_in_place("index_add_", *this);
  return assign_("index_add_", *this, lathe::index_add(*this, dim, index, source, alpha));
}
const Tensor& Tensor::scatter_add_(int64_t dim, const Tensor& index, const Tensor& source) const {
  autograd::check_in_place("scatter_add_", *this);
  return assign_("scatter_add_", *this, lathe::scatter_add(*this, dim, index, source));
}
const Tensor& Tensor::fill_diagonal_(Scalar value) const {
  LATHE_CHECK(ShapeError, ndim() == 2, "fill_diagonal_: expected a matrix (this: ", *this, ")");
  lathe::diagonal(*this).fill_(value);
  return *this;
}
const Tensor& Tensor::uniform_(double low, double high) const { return lathe::uniform_(*this, low, high); }
const Tensor& Tensor::normal_(double mean, double std) const { return lathe::normal_(*this, mean, std); }
// clang-format on

const Tensor& Tensor::seen() const {
  const TensorImpl& own = impl();
  const bool is_view_of_named = own.base && own.base->use_count() > 1;
  const uint32_t known = own.base ? 2 : 1;  // tensors of the temporary: itself, and what it views
  LATHE_CHECK(StateError,
              own.use_count() > 1 || is_view_of_named || own.storage->is_borrowed() ||
                  own.storage->use_count() > known,
              "assignment to the result of an op: no other tensor shares its memory, so the values "
              "would be lost (it is ",
              *this, "); give it a name, or write with copy_, index_put_ or masked_fill_");
  return *this;
}

const Tensor& Tensor::operator=(const Tensor& source) const&& {
  return seen().copy_(source.reshape(without_leading_ones(source.shape(), ndim())));
}

const Tensor& Tensor::operator=(Scalar value) const&& { return seen().fill_(value); }

}  // namespace lathe
