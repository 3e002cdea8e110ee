// Export and import of DLPack structures: dtype codes, ownership, and checks of what comes in.
#include "lathe/core/formats/dlpack.h"

#include <algorithm>
#include <memory>

#include "lathe/core/copy.h"
#include "lathe/core/formats/dlpack_abi.h"
#include "lathe/core/stream.h"
#include "lathe/core/strided_extent.h"

namespace lathe {

namespace {

constexpr uint32_t kMajor = 1, kMinor = 0;

struct TypeCode {
  DType dtype;
  DLDataTypeCode code;
};
constexpr TypeCode kTypeCodes[] = {
    {kBool, kDLBool}, {kU8, kDLUInt},   {kI8, kDLInt},      {kI16, kDLInt},   {kI32, kDLInt},
    {kI64, kDLInt},   {kF16, kDLFloat}, {kBF16, kDLBfloat}, {kF32, kDLFloat}, {kF64, kDLFloat},
};

/// What an exported structure keeps: the tensor, and the arrays that the structure points to.
template <class Managed>
struct Exported {
  Tensor tensor;
  Dims shape, strides;
  Managed managed{};
};

template <class Managed>
Managed* exported(const Tensor& tensor) {
  LATHE_CHECK(StateError, !tensor.requires_grad(),
              "to_dlpack: other libraries know nothing of the graph: export detach() (tensor: ",
              tensor, ")");
  auto keep = std::make_unique<Exported<Managed>>();
  keep->tensor = tensor;
  keep->shape = tensor.shape();
  keep->strides = tensor.strides();
  Managed& out = keep->managed;
  const Device device = tensor.device();
  const auto type = std::ranges::find(kTypeCodes, tensor.dtype(), &TypeCode::dtype);
  out.dl_tensor = {
      .data = tensor.raw_data(),
      .device = {device.is_cpu() ? kDLCPU : kDLCUDA, device.index},
      .ndim = tensor.ndim(),
      .dtype = {static_cast<uint8_t>(type->code), static_cast<uint8_t>(8 * size_of(tensor.dtype())),
                1},
      .shape = keep->shape.begin(),
      .strides = keep->strides.begin(),
      .byte_offset = 0,
  };
  out.deleter = [](Managed* self) { delete static_cast<Exported<Managed>*>(self->manager_ctx); };
  out.manager_ctx = keep.get();
  return &keep.release()->managed;
}

DType dtype_of_dlpack(const DLDataType& type) {
  for (const TypeCode& known : kTypeCodes) {
    if (type.lanes == 1 && type.code == known.code && type.bits == 8 * size_of(known.dtype)) {
      return known.dtype;
    }
  }
  LATHE_FAIL(ValueError, "from_dlpack: lathe has no dtype of code ", type.code, ", ", type.bits,
             " bits and ", type.lanes, " lanes");
}

Device device_of(const DLDevice& device) {
  if (device.device_type == kDLCPU || device.device_type == kDLCUDAHost) return kCPU;
  LATHE_CHECK(ValueError, device.device_type == kDLCUDA || device.device_type == kDLCUDAManaged,
              "from_dlpack: memory of device type ", static_cast<int>(device.device_type),
              " is neither the CPU's nor a CUDA device's");
  LATHE_CHECK(ValueError, std::in_range<int8_t>(device.device_id) && device.device_id >= 0,
              "from_dlpack: there is no cuda:", device.device_id);
  return Device(DeviceType::kCUDA, static_cast<int8_t>(device.device_id));
}

/// strided_extent() of what another library says.
int64_t span_of(const Shape& shape, const Strides& strides) {
  static_cast<void>(numel_of(shape));  // throws ShapeError for negative or too large sizes
  for (int i = 0; i < shape.size(); ++i) {
    LATHE_CHECK(ValueError, strides[i] >= 0 || shape[i] <= 1,
                "from_dlpack: negative strides are not supported (shape ", shape, ", strides ",
                strides, ")");
  }
  return strided_extent(shape, strides)
      .value_or_throw("from_dlpack: shape ", shape, " with strides ", strides, " overflows");
}

template <class Managed>
Tensor imported(Managed* managed, bool read_only) {
  const DLTensor& from = managed->dl_tensor;
  const DType dtype = dtype_of_dlpack(from.dtype);
  const Device device = device_of(from.device);
  LATHE_CHECK(ValueError, from.ndim >= 0 && from.ndim <= kMaxDims, "from_dlpack: ", from.ndim,
              " dimensions are not between 0 and ", kMaxDims);
  Shape shape;
  for (int i = 0; i < from.ndim; ++i) shape.push_back(from.shape[i]);
  Strides strides;
  for (int i = 0; from.strides != nullptr && i < from.ndim; ++i) strides.push_back(from.strides[i]);
  if (from.strides == nullptr) {
    static_cast<void>(numel_of(shape));
    strides = contiguous_strides(shape);
  }
  for (int i = 0; i < shape.size(); ++i) {
    if (shape[i] == 1) strides[i] = std::max<int64_t>(strides[i], 0);  // may be anything: unused
  }
  const int64_t span = span_of(shape, strides);
  char* data = static_cast<char*>(from.data) + from.byte_offset;
  LATHE_CHECK(ValueError, span == 0 || from.data != nullptr, "from_dlpack: no memory for ", dtype,
              shape);
  LATHE_CHECK(ValueError, reinterpret_cast<uintptr_t>(data) % size_of(dtype) == 0 || span == 0,
              "from_dlpack: the values of ", dtype, shape, " are not aligned to their size");
  const auto release = [managed] {
    if (managed->deleter != nullptr) managed->deleter(managed);
  };
  if (read_only) {
    // No release here: `theirs` must stay valid until it is copied.
    const Tensor theirs = alias(from_blob(data, {span}, dtype, device), shape, strides, 0);
    const Tensor own = empty(shape, {.dtype = dtype, .device = device});
    copy_values(own, theirs);
    if (device.is_cuda()) synchronize(current_stream(device));  // theirs is read when this returns
    release();
    return own;
  }
  return alias(from_blob(data, {span}, dtype, device, release), shape, strides, 0);
}

}  // namespace

DLManagedTensorVersioned* to_dlpack(const Tensor& tensor) {
  auto* out = exported<DLManagedTensorVersioned>(tensor);
  out->version = {kMajor, kMinor};
  return out;
}

DLManagedTensor* to_dlpack_unversioned(const Tensor& tensor) {
  return exported<DLManagedTensor>(tensor);
}

Tensor from_dlpack(DLManagedTensorVersioned* managed) {
  LATHE_CHECK(ValueError, managed->version.major == kMajor, "from_dlpack: version ",
              managed->version.major, ".", managed->version.minor,
              " of DLPack is not understood, only 1.x");
  return imported(managed, (managed->flags & DLPACK_FLAG_BITMASK_READ_ONLY) != 0);
}

Tensor from_dlpack(DLManagedTensor* managed) { return imported(managed, false); }

}  // namespace lathe
