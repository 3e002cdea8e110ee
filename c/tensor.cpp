// Tensors for C programs. Contract: lathe_c.h.
#include <cstdint>

#include "lathe/autograd/grad_mode.h"
#include "lathe/c/call.h"
#include "lathe/c/handles.h"
#include "lathe/core/formats/dlpack.h"
#include "lathe/core/strided_extent.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/inplace.h"

using namespace lathe;
using c::call, c::checked, c::clear, c::give;

namespace {

Dims dims_of(int32_t count, const int64_t* numbers, std::string_view parameter) {
  LATHE_CHECK(ShapeError, count >= 0 && count <= kMaxDims, "ndim is ", count,
              "; a tensor has 0 to ", kMaxDims, " dimensions");
  LATHE_CHECK(ValueError, numbers != nullptr || count == 0, parameter, " is NULL");
  Dims out;
  for (int32_t i = 0; i < count; ++i) out.push_back(numbers[i]);
  return out;
}

/// strided_extent() of what the caller says.
int64_t extent_of(const Shape& sizes, const Dims& strides) {
  for (int i = 0; i < sizes.size(); ++i) {
    LATHE_CHECK(ShapeError, sizes[i] >= 0, "sizes[", i, "] is ", sizes[i]);
    LATHE_CHECK(ShapeError, strides[i] >= 0, "strides[", i, "] is ", strides[i]);
  }
  return strided_extent(sizes, strides)
      .value_or_throw<ShapeError>("sizes ", sizes, " with strides ", strides,
                                  " do not fit an int64");
}

}  // namespace

lathe_status lathe_tensor_zeros(lathe_dtype dtype, int32_t ndim, const int64_t* sizes,
                                lathe_tensor** out) {
  return call("lathe_tensor_zeros", [&] {
    clear(out);
    *out = give(zeros(dims_of(ndim, sizes, "sizes"), {.dtype = c::dtype_of_number(dtype)}));
  });
}

lathe_status lathe_tensor_wrap(void* data, lathe_dtype dtype, int32_t ndim, const int64_t* sizes,
                               const int64_t* strides, void (*release)(void* context),
                               void* context, lathe_tensor** out) {
  return call("lathe_tensor_wrap", [&] {
    clear(out);
    const DType type = c::dtype_of_number(dtype);
    const Shape shape = dims_of(ndim, sizes, "sizes");
    const auto address = reinterpret_cast<uintptr_t>(data);
    LATHE_CHECK(ValueError, address % size_of(type) == 0, "data lies at ", address,
                ", which is no multiple of the ", size_of(type), " bytes of a ", type);
    // The memory is given away last: a failure before it must not release it.
    const auto owned = std::make_shared<bool>(false);
    std::function<void()> on_release;
    if (release != nullptr)
      on_release = [=] {
        if (*owned) release(context);
      };
    Tensor tensor;
    if (strides == nullptr) {
      tensor = from_blob(data, shape, type, kCPU, std::move(on_release));
    } else {
      const Dims steps = dims_of(ndim, strides, "strides");
      const int64_t extent = extent_of(shape, steps);
      tensor = alias(from_blob(data, extent, type, kCPU, std::move(on_release)), shape, steps, 0);
    }
    *out = give(std::move(tensor));
    *owned = true;
  });
}

lathe_status lathe_tensor_from_dlpack(void* managed, int32_t versioned, lathe_tensor** out) {
  return call("lathe_tensor_from_dlpack", [&] {
    clear(out);
    LATHE_CHECK(ValueError, managed != nullptr, "managed is NULL");
    lathe_tensor* const handle = give(Tensor());  // first: afterwards the memory is ours
    try {
      checked(handle, "out").value =
          versioned != 0 ? from_dlpack(static_cast<DLManagedTensorVersioned*>(managed))
                         : from_dlpack(static_cast<DLManagedTensor*>(managed));
    } catch (...) {
      c::destroy(handle, "out");
      throw;
    }
    *out = handle;
  });
}

lathe_status lathe_tensor_to_dlpack(const lathe_tensor* tensor, int32_t versioned, void** out) {
  return call("lathe_tensor_to_dlpack", [&] {
    clear(out);
    const Tensor plain = checked(tensor, "tensor").value.detach();
    *out = versioned != 0 ? static_cast<void*>(to_dlpack(plain))
                          : static_cast<void*>(to_dlpack_unversioned(plain));
  });
}

lathe_status lathe_tensor_copy(const lathe_tensor* from, lathe_tensor* to) {
  return call("lathe_tensor_copy", [&] {
    const Tensor& source = checked(from, "from").value;
    const Tensor& target = checked(to, "to").value;
    LATHE_CHECK(ShapeError, source.shape() == target.shape(), "from has the sizes ", source.shape(),
                ", to has ", target.shape());
    const NoGrad off;
    target.copy_(source);
  });
}

lathe_status lathe_tensor_to(const lathe_tensor* tensor, int32_t device, lathe_dtype dtype,
                             lathe_tensor** out) {
  return call("lathe_tensor_to", [&] {
    clear(out);
    const Tensor& x = checked(tensor, "tensor").value;
    *out = give(x.to(c::device_of_number(device), c::dtype_of_number(dtype)));
  });
}

lathe_status lathe_tensor_dtype(const lathe_tensor* tensor, lathe_dtype* out) {
  return call("lathe_tensor_dtype", [&] {
    clear(out);
    *out = static_cast<lathe_dtype>(checked(tensor, "tensor").value.dtype());
  });
}

lathe_status lathe_tensor_device(const lathe_tensor* tensor, int32_t* out) {
  return call("lathe_tensor_device", [&] {
    clear(out);
    const Device device = checked(tensor, "tensor").value.device();
    *out = device.is_cpu() ? LATHE_CPU : device.index;
  });
}

lathe_status lathe_tensor_ndim(const lathe_tensor* tensor, int32_t* out) {
  return call("lathe_tensor_ndim", [&] {
    clear(out);
    *out = checked(tensor, "tensor").value.ndim();
  });
}

lathe_status lathe_tensor_size(const lathe_tensor* tensor, int32_t dim, int64_t* out) {
  return call("lathe_tensor_size", [&] {
    clear(out);
    *out = checked(tensor, "tensor").value.size(dim);
  });
}

lathe_status lathe_tensor_stride(const lathe_tensor* tensor, int32_t dim, int64_t* out) {
  return call("lathe_tensor_stride", [&] {
    clear(out);
    *out = checked(tensor, "tensor").value.stride(dim);
  });
}

lathe_status lathe_tensor_data(const lathe_tensor* tensor, void** out) {
  return call("lathe_tensor_data", [&] {
    clear(out);
    *out = checked(tensor, "tensor").value.raw_data();
  });
}

lathe_status lathe_tensor_require_gradient(lathe_tensor* tensor, int32_t on) {
  return call("lathe_tensor_require_gradient",
              [&] { checked(tensor, "tensor").value.requires_grad_(on != 0); });
}

lathe_status lathe_tensor_gradient(const lathe_tensor* tensor, lathe_tensor** out) {
  return call("lathe_tensor_gradient", [&] {
    clear(out);
    const Tensor gradient = checked(tensor, "tensor").value.grad();
    LATHE_CHECK(StateError, gradient.defined(), "no backward pass has computed its gradient");
    *out = give(gradient);
  });
}

lathe_status lathe_tensor_backward(lathe_tensor* tensor, const lathe_tensor* gradient) {
  return call("lathe_tensor_backward", [&] {
    const Tensor& result = checked(tensor, "tensor").value;
    if (gradient == nullptr) return result.backward();
    result.backward(checked(gradient, "gradient").value);
  });
}

lathe_status lathe_tensor_free(lathe_tensor* tensor) {
  return call("lathe_tensor_free", [&] { c::destroy(tensor, "tensor"); });
}
