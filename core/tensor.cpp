// The methods of Tensor that need neither gradients nor kernels, and the functions that make one.
#include "lathe/core/tensor.h"

#include <algorithm>

#include "lathe/core/copy.h"
#include "lathe/core/hooks/live_memory.h"
#include "lathe/core/hooks/watch.h"
#include "lathe/core/strided_extent.h"

namespace lathe {

TensorImpl::~TensorImpl() {
  if (meta != nullptr) autograd::destroy(meta);
}

void Tensor::fail_undefined() {
  LATHE_FAIL(StateError, "tensor: an undefined tensor has no shape or values");
}

void Tensor::check_type(DType asked) const {
  LATHE_CHECK(DTypeError, asked == dtype(), "data: asked for ", asked, " of a tensor of ", dtype(),
              " (this: ", *this, ")");
}

void* Tensor::raw_data() const {
  const TensorImpl& t = impl();
  char* start = static_cast<char*>(t.storage->data());
  return start == nullptr ? nullptr : start + t.offset * static_cast<int64_t>(size_of(t.dtype));
}

namespace {
bool has_strides(const TensorImpl& t, const Strides& wanted) {
  if (t.numel == 0) return true;
  for (int d = 0; d < t.shape.size(); ++d) {  // the stride of a dimension of size 1 is never used
    if (t.shape[d] != 1 && t.strides[d] != wanted[d]) return false;
  }
  return true;
}
}  // namespace

bool Tensor::is_contiguous(MemoryFormat format) const {
  const TensorImpl& t = impl();
  if (format == kChannelsLast) {
    return t.shape.size() == 4 && has_strides(t, channels_last_strides(t.shape));
  }
  int64_t step = 1;
  for (int d = t.shape.size() - 1; d >= 0; --d) {
    if (t.shape[d] == 1) continue;
    if (t.strides[d] != step) return t.numel == 0;
    step *= t.shape[d];
  }
  return true;
}

namespace {
int dim_of(const char* op, int64_t i, const Tensor& t) {
  LATHE_CHECK(IndexError, t.ndim() > 0, op, ": a 0-d tensor has no dimension ", i, " (this: ", t,
              ")");
  return wrap_dim(op, i, t.ndim());
}
}  // namespace

int64_t Tensor::dim(int64_t i) const { return shape()[dim_of("dim", i, *this)]; }
int64_t Tensor::stride(int64_t i) const { return strides()[dim_of("stride", i, *this)]; }

Scalar Tensor::item_scalar() const {
  LATHE_CHECK(ShapeError, numel() == 1, "item: expected one element (this: ", *this, ")");
  profile::raise_found();
  if (is_floating(dtype())) {
    const profile::OpRange range("item", {*this},
                                 is_cuda() ? profile::Kind::kSync : profile::Kind::kOp);
    double value = 0;
    copy_out(&value, kF64);
    return value;
  }
  const int64_t value = item_integer();
  return dtype() == kBool ? Scalar(value != 0) : Scalar(value);
}

int64_t Tensor::item_integer() const {
  LATHE_CHECK(ShapeError, numel() == 1, "item: expected one element (this: ", *this, ")");
  profile::raise_found();
  const profile::OpRange range("item", {*this},
                               is_cuda() ? profile::Kind::kSync : profile::Kind::kOp);
  int64_t value = 0;
  copy_out(&value, kI64);
  return value;
}

void Tensor::copy_out(void* out, DType dtype) const {
  if (profile::watched()) [[unlikely]]
    profile::detail::watch_read(*this);
  const Tensor host = from_blob(out, shape(), dtype);
  copy_values(host, *this);
}

Tensor empty(const Shape& shape, const TensorOptions& options) {
  const DType dtype = options.dtype.value_or(default_dtype());
  const Strides strides = contiguous_strides(shape);
  if (!options.pinned) return empty_strided(shape, strides, dtype, options.device);
  const int64_t bytes = numel_of(shape) * static_cast<int64_t>(size_of(dtype));
  const Tensor out(IntrusivePtr(new TensorImpl(StoragePtr(new Storage(bytes, options.device, true)),
                                               0, shape, strides, dtype)));
  profile::note_shape(out.impl());
  return out;
}

Tensor empty_strided(const Shape& shape, const Strides& strides, DType dtype, Device device) {
  static_cast<void>(numel_of(shape));  // throws ShapeError for negative or too large sizes
  LATHE_CHECK(ShapeError,
              strides.size() == shape.size() &&
                  std::all_of(strides.begin(), strides.end(), [](int64_t s) { return s >= 0; }),
              "empty_strided: strides ", strides, " do not suit the shape ", shape);
  const int64_t bytes = (strided_extent(shape, strides) * size_of(dtype))
                            .value_or_throw<ShapeError>("empty_strided: ", shape, " with strides ",
                                                        strides, " does not fit an int64");
  const Tensor out(IntrusivePtr(
      new TensorImpl(StoragePtr(new Storage(bytes, device)), 0, shape, strides, dtype)));
  profile::note_shape(out.impl());
  return out;
}

namespace {
/// Does dimension a lie inside dimension b in memory? Not known where one of them is expanded.
std::optional<bool> lies_inside(const Tensor& t, int a, int b) {
  const int64_t step_a = t.strides()[a], step_b = t.strides()[b];
  if (step_a == 0 || step_b == 0) return std::nullopt;
  if (step_a != step_b) return step_a < step_b;
  return t.shape()[a] > t.shape()[b] ? std::optional(false) : std::nullopt;
}

/// Dense strides in the stride order of `like`: NHWC stays NHWC, a transposed matrix transposed.
/// The order is PyTorch's: an insertion sort that begins with row-major order and passes over what
/// is not known.
Strides dense_strides_like(const Tensor& like) {
  if (like.is_contiguous()) return contiguous_strides(like.shape());
  const int n = like.ndim();
  int order[kMaxDims];  // innermost first
  for (int i = 0; i < n; ++i) {
    order[i] = n - 1 - i;
    int at = i;
    for (int before = i - 1; before >= 0; --before) {
      const auto inside = lies_inside(like, order[before], order[at]);
      if (!inside) continue;
      if (*inside) break;
      std::swap(order[before], order[at]);
      at = before;
    }
  }
  Strides strides = Dims::filled(n, 1);
  int64_t step = 1;
  for (int i = 0; i < n; ++i) {
    strides[order[i]] = step;
    step *= std::max<int64_t>(like.shape()[order[i]], 1);
  }
  return strides;
}
}  // namespace

Tensor empty_like(const Tensor& like, DType dtype) {
  return empty_strided(like.shape(), dense_strides_like(like), dtype, like.device());
}
Tensor empty_like(const Tensor& like) { return empty_like(like, like.dtype()); }

Tensor Tensor::pin_memory() const {
  if (is_pinned()) return *this;
  Tensor copy = empty(shape(), {.dtype = dtype(), .pinned = true});
  copy_values(copy, *this);
  return copy;
}

Tensor alias(const Tensor& t, const Shape& shape, const Strides& strides, int64_t offset) {
  Tensor view(IntrusivePtr(new TensorImpl(t.impl().storage, offset, shape, strides, t.dtype())));
  view.impl().inference = t.impl().inference;
  return view;
}

Tensor from_blob(void* data, const Shape& shape, DType dtype, Device device,
                 std::function<void()> release) {
  const int64_t bytes = numel_of(shape) * static_cast<int64_t>(size_of(dtype));
  LATHE_CHECK(ValueError, data != nullptr || bytes == 0, "from_blob: null pointer for shape ",
              shape);
  return Tensor(
      IntrusivePtr(new TensorImpl(StoragePtr(new Storage(data, bytes, device, std::move(release))),
                                  0, shape, contiguous_strides(shape), dtype)));
}

void append_text(std::string& out, const Tensor& t) {
  if (!t.defined()) {
    out.append("undefined");
    return;
  }
  out += concat(t.dtype(), t.shape(), "@", t.device());
}

bool has_overlap(const Tensor& t) {
  if (t.is_contiguous() || t.numel() <= 1) return false;
  // Sorted by stride, each dimension must step over everything that the smaller ones reach.
  int64_t reach = 0;
  uint32_t left = (1u << t.ndim()) - 1;
  while (left != 0) {
    int smallest = -1;
    for (int d = 0; d < t.ndim(); ++d) {
      if ((left >> d & 1) != 0 && (smallest < 0 || t.strides()[d] < t.strides()[smallest])) {
        smallest = d;
      }
    }
    left &= ~(1u << smallest);
    if (t.shape()[smallest] == 1) continue;
    if (t.strides()[smallest] <= reach) return true;
    reach += (t.shape()[smallest] - 1) * t.strides()[smallest];
  }
  return false;
}

}  // namespace lathe
