// The register of handles.
#include "lathe/c/handles.h"

#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "lathe/core/cuda.h"

namespace lathe::c {
namespace {

struct Entry {
  void* object;
  std::string_view kind;
};

struct Register {
  std::mutex mutex;
  uintptr_t last = 0;
  std::unordered_map<uintptr_t, Entry> entries;
};

/// It is never destroyed: a program may free its handles while it exits.
Register& all_handles() {
  static auto* const handles = new Register;
  return *handles;
}

/// The caller holds the mutex.
/// throws: HandleError.
auto find_entry(Register& all, const void* handle, std::string_view kind,
                std::string_view parameter) {
  LATHE_CHECK(HandleError, handle != nullptr, parameter, " is NULL");
  const auto found = all.entries.find(reinterpret_cast<uintptr_t>(handle));
  LATHE_CHECK(HandleError, found != all.entries.end(), parameter,
              " is no handle: it was freed, or never made");
  LATHE_CHECK(HandleError, found->second.kind == kind, parameter, " is the handle of ",
              found->second.kind, ", not of ", kind);
  return found;
}

}  // namespace

void* find_object(const void* handle, std::string_view kind, std::string_view parameter) {
  Register& all = all_handles();
  const std::lock_guard lock(all.mutex);
  return find_entry(all, handle, kind, parameter)->second.object;
}

void* register_object(void* object, std::string_view kind) {
  constexpr uintptr_t kStep = 16;  // as aligned as a pointer would be
  Register& all = all_handles();
  const std::lock_guard lock(all.mutex);
  all.entries.emplace(all.last + kStep, Entry{object, kind});
  all.last += kStep;
  return reinterpret_cast<void*>(all.last);
}

void* unregister_handle(const void* handle, std::string_view kind, std::string_view parameter) {
  Register& all = all_handles();
  const std::lock_guard lock(all.mutex);
  const auto found = find_entry(all, handle, kind, parameter);
  void* const object = found->second.object;
  all.entries.erase(found);
  return object;
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
  LATHE_CHECK(ValueError, dtype >= 0 && dtype < kNumDTypes, "dtype is ", dtype,
              "; a lathe_dtype is 0 to ", kNumDTypes - 1);
  return static_cast<DType>(dtype);
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
