// Modules of the CUDA driver. Contract: loaded_kernel.h.
#include "lathe/core/gpu/loaded_kernel.h"

#include <utility>

#include "lathe/core/device_scope.h"
#include "lathe/core/error.h"
#include "lathe/core/gpu/driver_function.h"
#include "lathe/core/gpu/launch.h"

namespace lathe::cuda {

namespace {

template <class Function>
Function driver_function(const char* name) {
  Function function = nullptr;
  LATHE_CHECK(CudaError, find_driver_function(name, function), "the driver has no function ", name);
  return function;
}

struct ModuleFunctions {
  decltype(&cuModuleLoadData) load =
      driver_function<decltype(&cuModuleLoadData)>("cuModuleLoadData");
  decltype(&cuModuleGetFunction) get_function =
      driver_function<decltype(&cuModuleGetFunction)>("cuModuleGetFunction");
  decltype(&cuLaunchKernel) launch = driver_function<decltype(&cuLaunchKernel)>("cuLaunchKernel");
};

/// The table, made by the first call.
const ModuleFunctions& module_functions() {
  static const ModuleFunctions the_functions;
  return the_functions;
}

void check_driver(CUresult result, const char* call) {
  if (result == CUDA_SUCCESS) return;
  decltype(&cuGetErrorName) name_of = nullptr;
  const char* name = nullptr;
  if (find_driver_function("cuGetErrorName", name_of)) name_of(result, &name);
  LATHE_FAIL(CudaError, call, ": ", name != nullptr ? name : "error", " (",
             static_cast<int>(result), ")");
}

/// Makes the GPU's context that of this thread. The driver, other than the runtime, does not do so
/// by itself: a thread that called neither has none.
void use_context(Device gpu) { LATHE_CUDA_CHECK(cudaSetDevice(gpu.index)); }

}  // namespace

ComputeCapability compute_capability(Device gpu) {
  static const auto get_attribute =
      driver_function<decltype(&cuDeviceGetAttribute)>("cuDeviceGetAttribute");
  ComputeCapability known;
  for (const auto& [value, attribute] :
       {std::pair(&known.major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
        std::pair(&known.minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)})
    check_driver(get_attribute(value, attribute, gpu.index), "cuDeviceGetAttribute");
  return known;
}

LoadedKernel::LoadedKernel(const std::string& code, const char* name, Device gpu) : gpu_(gpu) {
  const DeviceScope on(gpu);
  use_context(gpu);
  CUmodule module = nullptr;  // never unloaded
  CUfunction function = nullptr;
  check_driver(module_functions().load(&module, code.c_str()), "cuModuleLoadData");
  check_driver(module_functions().get_function(&function, module, name), "cuModuleGetFunction");
  function_ = function;
}

void LoadedKernel::launch(int64_t n, std::span<void*> arguments) const {
  const DeviceScope on(gpu_);
  use_context(gpu_);
  const auto [grid, block] = launch_1d(n);
  check_driver(module_functions().launch(
                   static_cast<CUfunction>(function_), grid.x, 1, 1, block.x, 1, 1, 0,
                   static_cast<CUstream>(current_stream(gpu_).native), arguments.data(), nullptr),
               "cuLaunchKernel");
  detail::count_launch();
}

}  // namespace lathe::cuda
