// The register of handles.
#include "lathe/c/handles.h"

#include <mutex>
#include <unordered_map>

#include "lathe/core/cuda.h"

namespace lathe::c {
namespace {

struct Register {
  std::mutex mutex;
  std::unordered_map<const void*, std::string_view> kinds;
};

/// It is never destroyed: a program may free its handles while it exits.
Register& all_handles() {
  static auto* const handles = new Register;
  return *handles;
}

/// throws: HandleError. The caller holds the mutex.
void check_registered(const Register& all, const void* handle, std::string_view kind,
                      std::string_view parameter) {
  LATHE_CHECK(HandleError, handle != nullptr, parameter, " is NULL");
  const auto found = all.kinds.find(handle);
  LATHE_CHECK(HandleError, found != all.kinds.end(), parameter,
              " is no handle: it was freed, or never made");
  LATHE_CHECK(HandleError, found->second == kind, parameter, " is the handle of ", found->second,
              ", not of ", kind);
}

}  // namespace

void check_handle(const void* handle, std::string_view kind, std::string_view parameter) {
  Register& all = all_handles();
  const std::lock_guard lock(all.mutex);
  check_registered(all, handle, kind, parameter);
}

void register_handle(const void* handle, std::string_view kind) {
  Register& all = all_handles();
  const std::lock_guard lock(all.mutex);
  all.kinds.emplace(handle, kind);
}

void unregister_handle(const void* handle, std::string_view kind) {
  Register& all = all_handles();
  const std::lock_guard lock(all.mutex);
  check_registered(all, handle, kind, kind);
  all.kinds.erase(handle);
}

jit::Program& program_of(const lathe_model& model) {
  LATHE_CHECK(StateError, model.program != nullptr,
              "the model is a graph (.onnx or .lathe), which does not train; a .pt2 file does");
  return *model.program;
}

Tensors tensors_of(int32_t count, const lathe_tensor* const* handles, std::string_view parameter) {
  LATHE_CHECK(ValueError, count >= 0, "n_", parameter, " is ", count);
  LATHE_CHECK(ValueError, handles != nullptr || count == 0, parameter, " is NULL");
  Tensors out;
  for (int32_t i = 0; i < count; ++i)
    out.push_back(checked(handles[i], concat(parameter, "[", i, "]")).value);
  return out;
}

DType dtype_of_number(lathe_dtype dtype) {
  const auto number = static_cast<int>(dtype);
  LATHE_CHECK(ValueError, number >= 0 && number < kNumDTypes, "dtype is ", number,
              "; a lathe_dtype is 0 to ", kNumDTypes - 1);
  return static_cast<DType>(number);
}

Device device_of_number(int32_t device) {
  if (device == LATHE_CPU) return kCPU;
  const int gpus = cuda::device_count();
  LATHE_CHECK(DeviceError, device >= 0 && device < gpus, "device is ", device,
              "; LATHE_CPU is -1, and the number of GPUs is ", gpus);
  return {DeviceType::kCUDA, static_cast<int8_t>(device)};
}

static_assert(LATHE_BOOL == static_cast<int>(kBool) && LATHE_U8 == static_cast<int>(kU8) &&
              LATHE_I8 == static_cast<int>(kI8) && LATHE_I16 == static_cast<int>(kI16) &&
              LATHE_I32 == static_cast<int>(kI32) && LATHE_I64 == static_cast<int>(kI64) &&
              LATHE_F16 == static_cast<int>(kF16) && LATHE_BF16 == static_cast<int>(kBF16) &&
              LATHE_F32 == static_cast<int>(kF32) && LATHE_F64 == static_cast<int>(kF64));

}  // namespace lathe::c
