// Tensor: a handle to {storage, offset, shape, strides, dtype, autograd record}. Copying a Tensor
// shares it.
//
// Where the methods are: this file and core/tensor.cpp hold those that need neither gradients nor
// kernels; autograd/tensor_methods.cpp those that deal with gradients; ops/tensor_methods.cpp those
// that forward to a free function. A method that forwards (sum, view, add_, …) is documented at the
// free function in ops/.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "lathe/core/config.h"
#include "lathe/core/device.h"
#include "lathe/core/dtype.h"
#include "lathe/core/error.h"
#include "lathe/core/intrusive.h"
#include "lathe/core/scalar.h"
#include "lathe/core/shape.h"
#include "lathe/core/storage.h"
#include "lathe/core/tensor_impl.h"
#include "lathe/core/tensor_options.h"

namespace lathe {

class Tensor;
using Tensors = std::vector<Tensor>;

// Options of the methods below, and the results of some.
struct BackwardOptions;
struct DivOptions;        // ops/binary.h
struct VarOptions;        // ops/reduce.h
struct SortOptions;       // ops/sort.h
struct ValuesAndIndices;  // ops/argmax.h
class TensorIndex;        // ops/indexing.h

class LATHE_API Tensor {
 public:
  Tensor() = default;  // undefined: "no tensor", e.g. no gradient
  explicit Tensor(IntrusivePtr<TensorImpl> impl) : impl_(std::move(impl)) {}
  Tensor(const Tensor&) = default;
  Tensor(Tensor&&) noexcept = default;
  ~Tensor() = default;

  /// The variable becomes a handle to another tensor. No values change.
  Tensor& operator=(const Tensor&) & = default;
  Tensor& operator=(Tensor&&) & noexcept = default;
  /// Writes into a view that has no name: x[0] = y, x.slice(1, 0, 2) = 0. Like copy_() or fill_().
  /// throws: the errors of copy_() or fill_(); StateError if no other tensor shares the memory, as
  /// in relu(x) = y: nobody could read the values. For x.index({mask}) = y call index_put_.
  const Tensor& operator=(const Tensor& source) const&&;
  const Tensor& operator=(Scalar value) const&&;

  // --- what it is --------------------------------------------------------------------------------
  bool defined() const { return static_cast<bool>(impl_); }
  const Shape& shape() const { return impl().shape; }
  const Shape& sizes() const { return shape(); }  // LibTorch's name, as are the next two
  int64_t size(int64_t i) const { return dim(i); }
  int64_t dim() const { return ndim(); }
  const Strides& strides() const { return impl().strides; }  // in elements
  int64_t dim(int64_t i) const;     // throws IndexError, always for a 0-d tensor; so does stride
  int64_t stride(int64_t i) const;  // in elements
  int ndim() const { return impl().shape.size(); }
  int64_t numel() const { return impl().numel; }
  DType dtype() const { return impl().dtype; }
  Device device() const { return impl().storage->device(); }
  bool is_cuda() const { return device().is_cuda(); }
  TensorOptions options() const { return {.dtype = dtype(), .device = device()}; }
  bool is_floating_point() const { return is_floating(dtype()); }
  int64_t element_size() const { return static_cast<int64_t>(size_of(dtype())); }  // bytes
  int64_t offset() const { return impl().offset; }
  int64_t bytes() const { return numel() * static_cast<int64_t>(size_of(dtype())); }
  /// True if this tensor is dense in row-major order. With kChannelsLast: if it is 4-d and dense in
  /// NHWC order.
  bool is_contiguous(MemoryFormat format = kContiguous) const;
  /// True if both handles name the same tensor.
  bool is_same(const Tensor& other) const { return impl_ == other.impl_; }
  /// True if this tensor is in host memory that GPUs read and write directly.
  bool is_pinned() const { return impl().storage->pinned(); }
  /// This tensor if it is pinned, else a pinned copy without history.
  /// throws: NoCudaError without a GPU.
  Tensor pin_memory() const;
  bool shares_storage(const Tensor& other) const { return impl().storage == other.impl().storage; }

  // --- its values --------------------------------------------------------------------------------
  /// Pointer to the first element, on this tensor's device. After writing through it, call
  /// bump_version(): caches of the old values, such as packed filters, then become invalid.
  /// throws: DTypeError unless T is this tensor's dtype.
  template <class T>
  T* data() const {
    check_type(dtype_of<T>);
    return static_cast<T*>(raw_data());
  }
  template <class T>
  T* data_ptr() const {  // LibTorch's name of data()
    return data<T>();
  }
  /// Pointer to the first element; null if the tensor has no elements.
  void* raw_data() const;
  /// The value of a one-element tensor, converted to T as to_vector() does. Waits for the device.
  /// throws: ShapeError unless the tensor has one element.
  template <class T>
  T item() const {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      return static_cast<T>(item_integer());
    } else {
      return item_scalar().to<T>();
    }
  }
  Scalar item_scalar() const;
  Scalar item() const { return item_scalar(); }
  /// All elements in row-major order, converted to T. Waits for the device.
  template <class T>
  std::vector<T> to_vector() const {
    std::vector<T> out(static_cast<size_t>(numel()));
    copy_out(out.data(), dtype_of<T>);
    return out;
  }

  // --- to another device, dtype, layout, or to a copy (recorded; a no-op returns this) -----------
  Tensor to(DType dtype) const;
  Tensor to(Device device) const;
  Tensor to(Device device, DType dtype) const { return to(device).to(dtype); }
  Tensor type_as(const Tensor& other) const { return to(other.device(), other.dtype()); }
  Tensor cpu() const { return to(kCPU); }
  Tensor cuda() const { return to(Device(DeviceType::kCUDA)); }
  Tensor contiguous(MemoryFormat format = kContiguous) const;
  Tensor clone() const;

  // --- gradients (autograd/tensor_methods.cpp) ---------------------------------------------------
  bool requires_grad() const;
  /// Sets whether this leaf requires a gradient.
  /// throws: DTypeError if not floating; StateError on a non-leaf or a tensor of InferenceMode.
  const Tensor& requires_grad_(bool value = true) const;
  /// True if no recorded op made this tensor.
  bool is_leaf() const;
  /// The accumulated gradient; undefined if there is none. On a GPU the first call after a backward
  /// pass may cast the gradient from a half type to f32 (Optimizer::set_half_copies).
  /// throws: OutOfMemoryError, CudaError.
  Tensor grad() const;
  /// Replaces the gradient; an undefined `grad` removes it.
  /// throws: ShapeError, DTypeError, DeviceError if `grad` does not match this tensor.
  void set_grad(const Tensor& grad) const;
  /// Adds d(this)/d(leaf) to the grad() of every leaf, or only of the leaves in options.inputs.
  /// Warns once if this is a loss in host memory that is NaN.
  /// throws: StateError if this tensor does not require grad, if the autograd graph was freed, or
  /// if one of options.inputs is not a leaf that requires grad; ShapeError if the gradient does not
  /// match this tensor, or if none is given and this tensor has more than one element.
  void backward() const;
  void backward(const Tensor& gradient) const;
  void backward(const BackwardOptions& options) const;
  /// Makes backward passes keep the gradient of this tensor, though it is not a leaf.
  /// throws: StateError if it does not require grad.
  void retain_grad() const;
  /// Each backward pass calls `hook` with the gradient of this tensor. If `hook` returns a defined
  /// tensor, that replaces the gradient. Returns a number for remove_hook.
  /// throws: StateError if this tensor does not require grad.
  int64_t register_hook(std::function<Tensor(const Tensor&)> hook) const;
  void remove_hook(int64_t number) const;
  /// A tensor with the same values and without history; shares storage and version.
  Tensor detach() const;
  /// The name of the op that made this tensor ("conv2d"), or "" for a leaf.
  std::string grad_fn() const;
  /// The number of in-place writes so far, through any view of the storage.
  uint32_t version() const { return impl().storage->version(); }
  void bump_version() const { impl().storage->bump_version(); }
  /// Takes over `source`'s storage, shape, strides and dtype. The tensor keeps its identity and its
  /// requires_grad flag, so that all its holders see the new values. A gradient that no longer fits
  /// is dropped.
  /// throws: StateError on a non-leaf or a view; DTypeError if this requires grad and `source` is
  /// not floating.
  void set_data(const Tensor& source) const;

  // --- new tensors of this one's dtype and device ------------------------------------------------
  Tensor new_empty(const Shape& shape) const;
  Tensor new_zeros(const Shape& shape) const;
  Tensor new_ones(const Shape& shape) const;
  Tensor new_full(const Shape& shape, Scalar value) const;

  // --- views and rearrangements (ops/views.h, ops/indexing.h) ------------------------------------
  Tensor view(const Shape& shape) const;
  Tensor view_as(const Tensor& other) const { return view(other.shape()); }
  Tensor reshape(const Shape& shape) const;
  Tensor reshape_as(const Tensor& other) const { return reshape(other.shape()); }
  Tensor flatten(int64_t first = 0, int64_t last = -1) const;
  Tensor squeeze() const;
  Tensor squeeze(int64_t dim) const;
  Tensor unsqueeze(int64_t dim) const;
  Tensor transpose(int64_t a, int64_t b) const;
  Tensor t() const;  // transpose(0, 1) of a matrix; 0-d or 1-d: this
  Tensor permute(const Dims& order) const;
  Tensor expand(const Shape& shape) const;
  Tensor expand_as(const Tensor& other) const { return expand(other.shape()); }
  Tensor select(int64_t dim, int64_t index) const;
  Tensor narrow(int64_t dim, int64_t start, int64_t length) const;
  Tensor slice(int64_t dim, int64_t start, int64_t stop = INT64_MAX, int64_t step = 1) const;
  Tensor operator[](int64_t index) const { return select(0, index); }
  Tensors split(int64_t size, int64_t dim = 0) const;
  Tensors split(const std::vector<int64_t>& sizes, int64_t dim = 0) const;
  Tensors chunk(int64_t count, int64_t dim = 0) const;
  Tensors unbind(int64_t dim = 0) const;
  Tensor flip(const Dims& dims) const;
  Tensor roll(int64_t shift, int64_t dim) const;
  Tensor repeat(const Dims& repeats) const;
  Tensor repeat_interleave(int64_t repeats, int64_t dim) const;
  Tensor movedim(int64_t from, int64_t to) const;
  Tensor diag(int64_t offset = 0) const;
  Tensor diagonal(int64_t offset = 0, int64_t dim1 = 0, int64_t dim2 = 1) const;
  Tensor trace() const;
  Tensor unfold(int64_t dim, int64_t size, int64_t step) const;  // windows()
  Tensor index(std::initializer_list<TensorIndex> indices) const;
  Tensor index(std::span<const TensorIndex> indices) const;
  const Tensor& index_put_(std::initializer_list<TensorIndex> indices, const Tensor& values) const;
  const Tensor& index_put_(std::initializer_list<TensorIndex> indices, Scalar value) const;
  const Tensor& index_put_(std::span<const TensorIndex> indices, const Tensor& values) const;
  const Tensor& index_put_(std::span<const TensorIndex> indices, Scalar value) const;
  Tensor index_select(int64_t dim, const Tensor& index) const;
  Tensor index_add(int64_t dim, const Tensor& index, const Tensor& source, Scalar alpha = 1) const;
  Tensor gather(int64_t dim, const Tensor& index) const;
  Tensor scatter_add(int64_t dim, const Tensor& index, const Tensor& source) const;
  Tensor scatter(int64_t dim, const Tensor& index, const Tensor& source) const;
  Tensor scatter(int64_t dim, const Tensor& index, Scalar value) const;
  Tensor take(const Tensor& index) const;
  Tensor nonzero() const;
  Tensor masked_select(const Tensor& mask) const;
  Tensor masked_fill(const Tensor& mask, Scalar value) const;
  Tensor masked_fill(const Tensor& mask, const Tensor& value) const;
  Tensor where(const Tensor& condition, const Tensor& other) const;  // condition ? this : other
  Tensor where(const Tensor& condition, Scalar other) const;
  Tensor tril(int64_t diagonal = 0) const;
  Tensor triu(int64_t diagonal = 0) const;

  // --- reductions (ops/reduce.h, ops/argmax.h, ops/sort.h, ops/cumsum.h) -------------------------
  Tensor sum() const;
  Tensor sum(const Dims& dims, ReduceOptions options = {}) const;
  Tensor sum(const Dims& dims, KeepDim auto keepdim) const { return sum(dims, {keepdim}); }
  Tensor mean() const;
  Tensor mean(const Dims& dims, ReduceOptions options = {}) const;
  Tensor mean(const Dims& dims, KeepDim auto keepdim) const { return mean(dims, {keepdim}); }
  Tensor prod() const;
  Tensor prod(const Dims& dims, ReduceOptions options = {}) const;
  Tensor prod(const Dims& dims, KeepDim auto keepdim) const { return prod(dims, {keepdim}); }
  Tensor amax(const Dims& dims = {}, ReduceOptions options = {}) const;
  Tensor amax(const Dims& dims, KeepDim auto keepdim) const { return amax(dims, {keepdim}); }
  Tensor amin(const Dims& dims = {}, ReduceOptions options = {}) const;
  Tensor amin(const Dims& dims, KeepDim auto keepdim) const { return amin(dims, {keepdim}); }
  Tensor max() const;
  Tensor min() const;
  ValuesAndIndices max(int64_t dim, ReduceOptions options = {}) const;
  ValuesAndIndices min(int64_t dim, ReduceOptions options = {}) const;
  ValuesAndIndices max(int64_t dim, KeepDim auto keepdim) const;  // in ops/argmax.h, as min
  ValuesAndIndices min(int64_t dim, KeepDim auto keepdim) const;
  Tensor argmax() const;
  Tensor argmin() const;
  Tensor argmax(int64_t dim, ReduceOptions options = {}) const;
  Tensor argmin(int64_t dim, ReduceOptions options = {}) const;
  Tensor argmax(int64_t dim, KeepDim auto keepdim) const { return argmax(dim, {keepdim}); }
  Tensor argmin(int64_t dim, KeepDim auto keepdim) const { return argmin(dim, {keepdim}); }
  Tensor all(const Dims& dims = {}, ReduceOptions options = {}) const;
  Tensor all(const Dims& dims, KeepDim auto keepdim) const { return all(dims, {keepdim}); }
  Tensor any(const Dims& dims = {}, ReduceOptions options = {}) const;
  Tensor any(const Dims& dims, KeepDim auto keepdim) const { return any(dims, {keepdim}); }
  Tensor var(const Dims& dims = {}) const;
  Tensor var(const Dims& dims, VarOptions options) const;
  Tensor std(const Dims& dims = {}) const;
  Tensor std(const Dims& dims, VarOptions options) const;
  Tensor norm(const Dims& dims = {}, ReduceOptions options = {}) const;
  Tensor norm(const Dims& dims, KeepDim auto keepdim) const { return norm(dims, {keepdim}); }
  template <class Options = ReduceOptions>  // PyTorch's x.norm(1) is vector_norm(x, 1)
  Tensor norm(std::integral auto, Options = {}) const = delete;
  Tensor logsumexp(const Dims& dims = {}, ReduceOptions options = {}) const;
  Tensor logsumexp(const Dims& dims, KeepDim auto keepdim) const {
    return logsumexp(dims, {keepdim});
  }
  Tensor cumsum(int64_t dim) const;
  Tensor cumprod(int64_t dim) const;
  Tensor multinomial(int64_t count) const;
  ValuesAndIndices sort(int64_t dim = -1) const;
  ValuesAndIndices sort(int64_t dim, SortOptions options) const;
  Tensor argsort(int64_t dim = -1) const;
  Tensor argsort(int64_t dim, SortOptions options) const;
  ValuesAndIndices topk(int64_t k, int64_t dim = -1) const;

  // --- elementwise (ops/unary.h, ops/binary.h) ---------------------------------------------------
  Tensor neg() const;
  Tensor abs() const;
  Tensor sign() const;
  Tensor square() const;
  Tensor floor() const;
  Tensor ceil() const;
  Tensor round() const;
  Tensor trunc() const;
  Tensor exp() const;
  Tensor expm1() const;
  Tensor log() const;
  Tensor log1p() const;
  Tensor log2() const;
  Tensor log10() const;
  Tensor sqrt() const;
  Tensor rsqrt() const;
  Tensor reciprocal() const;
  Tensor sin() const;
  Tensor cos() const;
  Tensor tan() const;
  Tensor atan() const;
  Tensor tanh() const;
  Tensor sigmoid() const;
  Tensor erf() const;
  Tensor relu() const;
  Tensor gelu() const;
  Tensor silu() const;
  Tensor isnan() const;
  Tensor isinf() const;
  Tensor isfinite() const;
  Tensor clamp(Scalar low, Scalar high) const;
  Tensor clamp_min(Scalar low) const;
  Tensor clamp_max(Scalar high) const;
  // clang-format off
  Tensor add(const Tensor& other, Scalar alpha = 1) const;  Tensor add(Scalar other) const;
  Tensor sub(const Tensor& other, Scalar alpha = 1) const;  Tensor sub(Scalar other) const;
  Tensor mul(const Tensor& other) const;  Tensor mul(Scalar other) const;
  Tensor div(const Tensor& other) const;  Tensor div(Scalar other) const;
  Tensor div(const Tensor& other, DivOptions options) const;
  Tensor pow(Scalar exponent) const;  Tensor pow(const Tensor& exponent) const;
  Tensor fmod(const Tensor& other) const;  Tensor fmod(Scalar other) const;
  Tensor remainder(const Tensor& other) const;  Tensor remainder(Scalar other) const;
  Tensor lerp(const Tensor& end, double weight) const;
  Tensor lerp(const Tensor& end, const Tensor& weight) const;
  Tensor maximum(const Tensor& other) const;  Tensor minimum(const Tensor& other) const;
  Tensor eq(const Tensor& other) const;  Tensor eq(Scalar other) const;
  Tensor ne(const Tensor& other) const;  Tensor ne(Scalar other) const;
  Tensor lt(const Tensor& other) const;  Tensor lt(Scalar other) const;
  Tensor le(const Tensor& other) const;  Tensor le(Scalar other) const;
  Tensor gt(const Tensor& other) const;  Tensor gt(Scalar other) const;
  Tensor ge(const Tensor& other) const;  Tensor ge(Scalar other) const;
  Tensor logical_and(const Tensor& other) const;
  Tensor logical_or(const Tensor& other) const;
  Tensor logical_xor(const Tensor& other) const;
  Tensor logical_not() const;
  bool allclose(const Tensor& other, double rtol = 1e-5, double atol = 1e-8) const;

  // --- products and softmax (ops/matmul.h, ops/softmax.h) ----------------------------------------
  Tensor matmul(const Tensor& other) const;
  Tensor mm(const Tensor& other) const;  Tensor bmm(const Tensor& other) const;
  Tensor mv(const Tensor& other) const;  Tensor dot(const Tensor& other) const;
  Tensor outer(const Tensor& other) const;
  Tensor softmax(int64_t dim) const;  Tensor log_softmax(int64_t dim) const;

  // --- in place (ops/inplace.h): they change the values, raise the version, return this ----------
  const Tensor& add_(const Tensor& other, Scalar alpha = 1) const;  // += alpha * other
  const Tensor& add_(Scalar value) const;
  const Tensor& sub_(const Tensor& other, Scalar alpha = 1) const;
  const Tensor& sub_(Scalar value) const;
  const Tensor& mul_(const Tensor& other) const;  const Tensor& mul_(Scalar value) const;
  const Tensor& div_(const Tensor& other) const;  const Tensor& div_(Scalar value) const;
  const Tensor& operator+=(const auto& value) const& { return add_(value); }
  const Tensor& operator-=(const auto& value) const& { return sub_(value); }
  const Tensor& operator*=(const auto& value) const& { return mul_(value); }
  const Tensor& operator/=(const auto& value) const& { return div_(value); }
  // For a view without a name, like operator=: x[0] += 1. x.index({mask}) += 1 throws StateError.
  const Tensor& operator+=(const auto& value) const&& { return seen().add_(value); }
  const Tensor& operator-=(const auto& value) const&& { return seen().sub_(value); }
  const Tensor& operator*=(const auto& value) const&& { return seen().mul_(value); }
  const Tensor& operator/=(const auto& value) const&& { return seen().div_(value); }
  const Tensor& fill_(Scalar value) const;  const Tensor& zero_() const;
  const Tensor& copy_(const Tensor& source) const;
  const Tensor& clamp_(Scalar low, Scalar high) const;
  const Tensor& neg_() const;  const Tensor& exp_() const;
  const Tensor& sqrt_() const;  const Tensor& tanh_() const;
  const Tensor& sigmoid_() const;  const Tensor& relu_() const;
  // clang-format on
  const Tensor& masked_fill_(const Tensor& mask, Scalar value) const;
  const Tensor& index_add_(int64_t dim, const Tensor& index, const Tensor& source,
                           Scalar alpha = 1) const;
  const Tensor& scatter_add_(int64_t dim, const Tensor& index, const Tensor& source) const;
  const Tensor& fill_diagonal_(Scalar value) const;  // of a matrix: diagonal().fill_(value)
  const Tensor& uniform_(double low = 0, double high = 1) const;  // ops/random.h, as normal_
  const Tensor& normal_(double mean = 0, double std = 1) const;

  TensorImpl& impl() const {
    if (!impl_) [[unlikely]]
      fail_undefined();
    return *impl_;
  }
  const IntrusivePtr<TensorImpl>& handle() const { return impl_; }

 private:
  [[noreturn]] static void fail_undefined();
  int64_t item_integer() const;
  void check_type(DType asked) const;
  void copy_out(void* out, DType dtype) const;
  const Tensor& seen() const;  // this; throws StateError if no other tensor shares its memory

  IntrusivePtr<TensorImpl> impl_;
};

struct BackwardOptions {
  Tensor gradient = {};       // dL/d(this); needed unless this has one element
  bool retain_graph = false;  // true: the graph can be walked again
  bool create_graph = false;  // true: gradients have gradients (implies retain_graph)
  Tensors inputs = {};        // leaves: only their grad() changes; empty: that of all leaves
};

/// A tensor of uninitialised memory; every op makes its result with empty(). The tensor has no
/// history.
LATHE_API Tensor empty(const Shape& shape, const TensorOptions& options = {});
/// Like empty(), with given strides (non-negative, not overlapping). Gaps are allocated too.
/// throws: ShapeError for negative or missing strides, or if the last element's position exceeds an
/// int64.
LATHE_API Tensor empty_strided(const Shape& shape, const Strides& strides, DType dtype,
                               Device device);
/// Like empty(), with the shape, dtype and device of `like`. Dense, in the stride order of `like`:
/// NHWC stays NHWC. Expanded dimensions of `like` (stride 0) are placed where row-major order has
/// them.
LATHE_API Tensor empty_like(const Tensor& like);
LATHE_API Tensor empty_like(const Tensor& like, DType dtype);

/// A view of t's storage; `offset` counts elements from the start of the storage. Checks nothing
/// and records no gradient; kernels and ops/views.cpp use it.
LATHE_API Tensor alias(const Tensor& t, const Shape& shape, const Strides& strides, int64_t offset);

/// A tensor over the caller's memory, row-major, without a copy. The memory must outlive the tensor
/// and its views; `release`, if given, runs when the last of these tensors is gone.
/// throws: ValueError if `data` is null and the shape has elements.
LATHE_API Tensor from_blob(void* data, const Shape& shape, DType dtype, Device device = kCPU,
                           std::function<void()> release = {});
template <class T>
Tensor from_blob(T* data, const Shape& shape) {
  return from_blob(static_cast<void*>(data), shape, dtype_of<T>);
}

/// "f32[2,3]@cpu": how every message shows a tensor.
LATHE_API void append_text(std::string& out, const Tensor& t);

/// Prints the values (abridged beyond 1,000 elements), then "f32[2,2]@cpu". Waits for the device.
LATHE_API std::ostream& operator<<(std::ostream& out, const Tensor& t);

/// True if two elements may share memory (an expanded dimension). Such a tensor cannot be written
/// in place.
LATHE_API bool has_overlap(const Tensor& t);

}  // namespace lathe
