// Tensor: a handle to {storage, offset, shape, strides, dtype, autograd record}. Copying a Tensor
// shares it.
//
// Where the methods are: this file and core/tensor.cpp hold those that need neither gradients nor
// kernels; autograd/tensor_methods.cpp those that deal with gradients; ops/tensor_methods.cpp those
// that forward to a free function. A method that forwards (sum, view, add_, …) is documented at the
// free function in ops/.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <iosfwd>
#include <optional>
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

namespace lathe {

class Tensor;
using Tensors = std::vector<Tensor>;

namespace autograd {
class Node;
struct Meta;  // autograd/meta.h: gradient, history and hooks of one tensor
LATHE_API void destroy(Meta*) noexcept;  // defined in autograd/: core owns it without knowing it
}  // namespace autograd

/// Order of the elements in memory. kChannelsLast is NHWC: the shape stays [N,C,H,W], but the
/// channel has stride 1.
enum class MemoryFormat : uint8_t { kContiguous, kChannelsLast };
inline constexpr MemoryFormat kContiguous = MemoryFormat::kContiguous,
                              kChannelsLast = MemoryFormat::kChannelsLast;

/// How a new tensor is made. Without a dtype it gets the default dtype, or the natural one (i64 for
/// arange(24)).
struct TensorOptions {
  std::optional<DType> dtype = {};
  Device device = kCPU;
  bool requires_grad = false;
  bool pinned = false;  // host memory that GPUs copy to and from by themselves; needs a GPU
};

struct ReduceOptions {
  bool keepdim = false;  // true: a reduced dimension stays, with size 1
};

struct BackwardOptions;

/// What a Tensor handle points to. Library code reads it through Tensor.
struct LATHE_API TensorImpl final : RefCounted {
  TensorImpl(StoragePtr s, int64_t off, const Shape& sh, const Strides& st, DType t)
      : storage(std::move(s)), offset(off), numel(numel_of(sh)), dtype(t), shape(sh), strides(st) {}
  ~TensorImpl();

  StoragePtr storage;
  int64_t offset;  // elements from the start of the storage
  int64_t numel;
  DType dtype;
  bool inference = false;  // made in an InferenceMode scope: never takes part in a graph
  bool lent = false;       // shows another tensor for a while (autograd/lend.h)
  Shape shape;
  Strides strides;                 // in elements
  autograd::Meta* meta = nullptr;  // null: no gradient and no history
  IntrusivePtr<TensorImpl> base;   // of a view: the tensor that was viewed first
};
inline void add_reference(TensorImpl* t) { t->add_ref(); }
inline void drop_reference(TensorImpl* t) {
  if (t->drop_ref()) delete t;
}

class LATHE_API Tensor {
 public:
  Tensor() = default;  // undefined: "no tensor", e.g. no gradient
  explicit Tensor(IntrusivePtr<TensorImpl> impl) : impl_(std::move(impl)) {}

  // --- what it is --------------------------------------------------------------------------------
  bool defined() const { return static_cast<bool>(impl_); }
  const Shape& shape() const { return impl().shape; }
  const Strides& strides() const { return impl().strides; }  // in elements
  int64_t dim(int64_t i) const;     // throws IndexError, always for a 0-d tensor; so does stride
  int64_t stride(int64_t i) const;  // in elements
  int ndim() const { return impl().shape.size(); }
  int64_t numel() const { return impl().numel; }
  DType dtype() const { return impl().dtype; }
  Device device() const { return impl().storage->device(); }
  int64_t offset() const { return impl().offset; }
  int64_t bytes() const { return numel() * static_cast<int64_t>(size_of(dtype())); }
  /// True if dense in row-major order or, for kChannelsLast, in NHWC order (then false unless 4-d).
  bool is_contiguous(MemoryFormat format = kContiguous) const;
  /// True if both handles name the same tensor.
  bool is_same(const Tensor& other) const { return impl_ == other.impl_; }
  /// True if in host memory that GPUs read and write by themselves.
  bool is_pinned() const { return impl().storage->pinned(); }
  /// This tensor if it is pinned, else a pinned copy without history.
  /// throws: NoCudaError.
  Tensor pin_memory() const;
  bool shares_storage(const Tensor& other) const { return impl().storage == other.impl().storage; }

  // --- its values --------------------------------------------------------------------------------
  /// Pointer to the first element, on this tensor's device.
  /// throws: DTypeError unless T is this tensor's dtype.
  template <class T>
  T* data() const {
    check_type(dtype_of<T>);
    return static_cast<T*>(raw_data());
  }
  /// Pointer to the first element; null if there is none.
  void* raw_data() const;
  /// The value of a one-element tensor, converted to T as to_vector() does. Waits for the device.
  /// throws: ShapeError.
  template <class T>
  T item() const {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      return static_cast<T>(item_integer());
    } else {
      return item_scalar().to<T>();
    }
  }
  Scalar item_scalar() const;
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
  Tensor cpu() const { return to(kCPU); }
  Tensor cuda() const { return to(Device(DeviceType::kCUDA)); }
  Tensor contiguous(MemoryFormat format = kContiguous) const;
  Tensor clone() const;

  // --- gradients (autograd/tensor_methods.cpp) ---------------------------------------------------
  bool requires_grad() const;
  /// Sets the flag of a leaf.
  /// throws: DTypeError if not floating; StateError on a non-leaf or a tensor of InferenceMode.
  const Tensor& requires_grad_(bool value = true) const;
  /// True if no recorded op made this tensor.
  bool is_leaf() const;
  /// The accumulated gradient; undefined if there is none.
  Tensor grad() const;
  /// Replaces the gradient; an undefined `grad` removes it.
  /// throws: ShapeError, DTypeError, DeviceError if it does not match this tensor.
  void set_grad(const Tensor& grad) const;
  /// Adds d(this)/d(leaf) to every leaf's grad(), or to that of options.inputs.
  /// throws: StateError, also if one of the inputs is no leaf that requires grad; ShapeError.
  void backward() const;
  void backward(const Tensor& gradient) const;
  void backward(const BackwardOptions& options) const;
  /// Makes backward passes keep the gradient of this tensor, though it is not a leaf.
  /// throws: StateError if it does not require grad.
  void retain_grad() const;
  /// In each backward pass `hook` gets the gradient of this tensor; if it returns a defined tensor,
  /// that replaces the gradient. Returns a number for remove_hook.
  /// throws: StateError if this tensor does not require grad.
  int64_t register_hook(std::function<Tensor(const Tensor&)> hook) const;
  void remove_hook(int64_t number) const;
  /// The same values without history; shares storage and version.
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

  // --- the common ops (ops/tensor_methods.cpp) ---------------------------------------------------
  Tensor view(const Shape& shape) const;
  Tensor reshape(const Shape& shape) const;
  Tensor flatten(int64_t first = 0, int64_t last = -1) const;
  Tensor squeeze() const;
  Tensor squeeze(int64_t dim) const;
  Tensor unsqueeze(int64_t dim) const;
  Tensor transpose(int64_t a, int64_t b) const;
  Tensor t() const;  // transpose(0, 1) of a matrix; 0-d or 1-d: this
  Tensor permute(const Dims& order) const;
  Tensor expand(const Shape& shape) const;
  Tensor select(int64_t dim, int64_t index) const;
  Tensor narrow(int64_t dim, int64_t start, int64_t length) const;
  Tensor slice(int64_t dim, int64_t start, int64_t stop, int64_t step = 1) const;
  Tensor operator[](int64_t index) const { return select(0, index); }

  Tensor sum() const;
  Tensor sum(const Dims& dims, ReduceOptions options = {}) const;
  Tensor mean() const;
  Tensor mean(const Dims& dims, ReduceOptions options = {}) const;
  Tensor max() const;
  Tensor min() const;
  Tensor argmax(int64_t dim) const;
  Tensor neg() const;
  Tensor abs() const;
  Tensor exp() const;
  Tensor log() const;
  Tensor sqrt() const;
  Tensor square() const;
  Tensor tanh() const;
  Tensor sigmoid() const;
  Tensor relu() const;
  Tensor pow(Scalar exponent) const;
  Tensor matmul(const Tensor& other) const;
  Tensor softmax(int64_t dim) const;

  // In place: they change the values, raise the version and return this tensor.
  const Tensor& add_(const Tensor& other, Scalar alpha = 1) const;  // += alpha * other
  const Tensor& add_(Scalar value) const;
  const Tensor& sub_(const Tensor& other) const;
  const Tensor& mul_(const Tensor& other) const;
  const Tensor& mul_(Scalar value) const;
  const Tensor& div_(const Tensor& other) const;
  const Tensor& div_(Scalar value) const;
  const Tensor& fill_(Scalar value) const;
  const Tensor& zero_() const;
  const Tensor& copy_(const Tensor& source) const;
  const Tensor& clamp_(Scalar low, Scalar high) const;

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

  IntrusivePtr<TensorImpl> impl_;
};

struct BackwardOptions {
  Tensor gradient = {};       // dL/d(this); needed unless this has one element
  bool retain_graph = false;  // true: the graph can be walked again
  bool create_graph = false;  // true: gradients have gradients (implies retain_graph)
  Tensors inputs = {};        // leaves: only their grad() changes; empty: that of all leaves
};

/// Uninitialised memory, from which every op makes its result. No gradient, no autograd record.
LATHE_API Tensor empty(const Shape& shape, const TensorOptions& options = {});
/// The same with given strides (non-negative, not overlapping).
LATHE_API Tensor empty_strided(const Shape& shape, const Strides& strides, DType dtype,
                               Device device);
/// Shape, dtype, device and dense stride order of `like` (NHWC stays NHWC).
LATHE_API Tensor empty_like(const Tensor& like);
LATHE_API Tensor empty_like(const Tensor& like, DType dtype);

/// A view of t's storage; `offset` counts elements from the start of the storage. No checks, no
/// gradient: for kernels and ops/views.
LATHE_API Tensor alias(const Tensor& t, const Shape& shape, const Strides& strides, int64_t offset);

/// A tensor over the caller's memory, row-major, without a copy. The memory must outlive the tensor
/// and its views; `release`, if given, runs when the last of them is gone.
/// throws: ValueError if `data` is null and the shape has elements.
LATHE_API Tensor from_blob(void* data, const Shape& shape, DType dtype, Device device = kCPU,
                           std::function<void()> release = {});
template <class T>
Tensor from_blob(T* data, const Shape& shape) {
  return from_blob(static_cast<void*>(data), shape, dtype_of<T>);
}

/// "f32[2,3]@cpu": how every message shows a tensor.
LATHE_API void append_text(std::string& out, const Tensor& t);

/// The values (abridged beyond 1,000 elements), then "f32[2,2]@cpu". Waits for the device.
LATHE_API std::ostream& operator<<(std::ostream& out, const Tensor& t);

/// True if two elements may share memory (an expanded dimension): such a tensor cannot be written
/// in place.
LATHE_API bool has_overlap(const Tensor& t);

}  // namespace lathe
