// The part of the CUDA runtime by which nvcc's host code makes its kernels known and launches them,
// over the emulated machine of tests/emulation and the interpreter: a program of ordinary CUDA
// objects, linked with this instead of the runtime, runs without a GPU. Its names and parameters
// are those of crt/host_runtime.h and cuda_runtime_api.h. So is the part of the driver by which
// kernels that are compiled at run time are loaded. The GPU is one that takes PTX alone: NVRTC has
// no machine code for its compute capability.
//
// With LATHE_PTX_REPORT=FILE a line for each kernel is written when the program ends: how often it
// was launched, the threads of its largest block, the parts of Work, its symbol (executed_test.py).
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <optional>
#include <unordered_map>

#include "approximation.h"
#include "fatbin.h"
#include "lathe/core/error.h"
#include "lathe/tests/emulation/cuda_runtime_machine.h"
#include "lathe/tests/emulation/device_ranges.h"
#include "lathe/tests/emulation/driver/cuda.h"
#include "module.h"
#include "run.h"

namespace lathe::ptx {

namespace {

/// A .cu file's device code.
struct Binary {
  const void* wrapper;
  std::optional<Module> module;  // once one of its kernels is launched

  Module& read() {
    if (!module) module.emplace(ptx_of(wrapper));
    return *module;
  }
};

struct Kernel {
  Binary* binary;
  std::string symbol;
};

struct Count {
  uint64_t launches = 0;
  uint64_t threads = 0;  // of the largest block
  Work work;
};

struct Registry {
  std::deque<Binary> binaries;
  std::unordered_map<const void*, Kernel> kernels;  // by the address of the host's function
  std::map<std::string, Count> counts;
};

void write_report();
void* driver_function(const char* name);

/// Never destroyed: it is used before main and after it.
Registry& registry() {
  static Registry* const the_registry = [] {
    if (const char* step = std::getenv("LATHE_PTX_APPROXIMATION"))
      approximation_step() = std::atoi(step);
    std::atexit(write_report);
    emulation::more_driver_functions() = driver_function;
    return new Registry;
  }();
  return *the_registry;
}

void write_report() {
  const char* path = std::getenv("LATHE_PTX_REPORT");
  std::FILE* file = path == nullptr ? nullptr : std::fopen(path, "w");
  if (file == nullptr) return;
  for (Binary& binary : registry().binaries) {
    for (const std::string& symbol : binary.read().kernels()) registry().counts[symbol];
  }
  for (const auto& [symbol, count] : registry().counts) {
    const Work& work = count.work;
    for (const uint64_t number : {count.launches, count.threads, work.instructions, work.accesses,
                                  work.bytes, work.widest}) {
      std::fprintf(file, "%llu ", static_cast<unsigned long long>(number));
    }
    std::fprintf(file, "%s\n", symbol.c_str());
  }
  std::fclose(file);
}

/// What kernels may touch: live device memory, page-locked host memory, the module's constants.
class DeviceMemory final : public Memory {
 public:
  explicit DeviceMemory(const Module& module) : module_(module) {}

  bool holds(uint64_t address, size_t bytes) const override {
    const auto* memory = reinterpret_cast<const char*>(address);
    const emulation::Machine& machine = emulation::machine();
    for (const auto& emulated : machine.memories) {
      if (emulated->holds(memory, bytes)) return true;
    }
    if (module_.holds(address, bytes)) return true;
    auto pinned = machine.pinned.upper_bound(const_cast<char*>(memory));
    if (pinned != machine.pinned.begin()) {
      --pinned;
      if (memory + bytes <= pinned->first + pinned->second.bytes) return true;
    }
    return emulation::device_ranges().holds(memory, bytes);
  }

  std::string describe(uint64_t) const override {
    return "no block of device memory or of page-locked host memory holds all of them";
  }

 private:
  const Module& module_;
};

/// As nvcc's host code lays it out (cudaLaunchConfig_t).
struct LaunchConfig {
  dim3 grid, block;
  size_t shared_bytes;
  cudaStream_t stream;
  void* attributes;
  unsigned attribute_count;
};

/// Queues a kernel with a copy of its arguments.
cudaError_t enqueue(const LaunchConfig& config, Module& module, const Function& kernel,
                    void** arguments, Count& count) {
  Launch launch{.kernel = &kernel,
                .memory = nullptr,
                .grid = {config.grid.x, config.grid.y, config.grid.z},
                .block = {config.block.x, config.block.y, config.block.z},
                .params = std::vector<std::byte>(kernel.param_bytes)};
  for (size_t k = 0; k < kernel.param_offsets.size(); ++k) {
    std::memcpy(&launch.params[kernel.param_offsets[k]], arguments[k], kernel.param_sizes[k]);
  }
  return emulation::enqueue_kernel(config.stream, [launch, &module, &count]() mutable {
    const DeviceMemory memory(module);
    launch.memory = &memory;
    ++count.launches;
    run(launch, count.work);
  });
}

cudaError_t launch_kernel(const LaunchConfig& config, const void* host_function, void** arguments) {
  const auto lock = emulation::enter_machine();
  const auto found = registry().kernels.find(host_function);
  LATHE_CHECK(StateError, found != registry().kernels.end(),
              "ptx: a kernel that was not registered");
  LATHE_CHECK(StateError, config.attribute_count == 0 && config.shared_bytes == 0,
              "ptx: ", found->second.symbol,
              " is launched with attributes or dynamic shared memory, which "
              "the interpreter does not know");
  Module& module = found->second.binary->read();
  Count& count = registry().counts[found->second.symbol];
  count.threads =
      std::max<uint64_t>(count.threads, uint64_t{config.block.x} * config.block.y * config.block.z);
  return enqueue(config, module, module.kernel(found->second.symbol), arguments, count);
}

// --- modules of the driver: kernels that were compiled at run time ------------------------------

struct LoadedModule {
  Module text;
};
struct LoadedFunction {
  LoadedModule* module;
  const Function* kernel;
  Count count;
};

CUresult load_module(CUmodule* module, const void* image) {
  const std::string text = static_cast<const char*>(image);
  if (text.find(".version") == text.npos) return CUDA_ERROR_INVALID_VALUE;  // no PTX
  *module = reinterpret_cast<CUmodule>(new LoadedModule{Module(text)});
  return CUDA_SUCCESS;
}

CUresult function_of_module(CUfunction* function, CUmodule module, const char* name) {
  auto* const loaded = reinterpret_cast<LoadedModule*>(module);
  *function =
      reinterpret_cast<CUfunction>(new LoadedFunction{loaded, &loaded->text.kernel(name), {}});
  return CUDA_SUCCESS;
}

CUresult launch_function(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                         unsigned block_x, unsigned block_y, unsigned block_z,
                         unsigned shared_bytes, CUstream stream, void** arguments, void**) {
  const auto lock = emulation::enter_machine();
  auto* const loaded = reinterpret_cast<LoadedFunction*>(function);
  const LaunchConfig config{
      {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes, stream, nullptr, 0};
  const cudaError_t queued =
      enqueue(config, loaded->module->text, *loaded->kernel, arguments, loaded->count);
  return queued == cudaSuccess ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult attribute_of_device(int* value, CUdevice_attribute attribute, CUdevice device) {
  if (attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) *value = 8;
  if (attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR) *value = 5;
  if (attribute == CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED)
    return cuDeviceGetAttribute(value, attribute, device);
  return CUDA_SUCCESS;
}

/// The fields of cudaFuncAttributes up to the one that is asked for.
struct FunctionAttributes {
  size_t shared, constant, local;
  int threads, registers, ptx_version;
};

/// 90 of PTX for sm_90.
int version_of(const std::string& ptx) {
  constexpr std::string_view kTarget = "\n.target sm_";
  const size_t at = ptx.find(kTarget);
  return at == std::string::npos ? 0 : std::atoi(ptx.c_str() + at + kTarget.size());
}

void* driver_function(const char* name) {
  const std::string_view wanted = name;
  if (wanted == "cuModuleLoadData") return reinterpret_cast<void*>(&load_module);
  if (wanted == "cuModuleGetFunction") return reinterpret_cast<void*>(&function_of_module);
  if (wanted == "cuLaunchKernel") return reinterpret_cast<void*>(&launch_function);
  if (wanted == "cuDeviceGetAttribute") return reinterpret_cast<void*>(&attribute_of_device);
  return nullptr;
}

}  // namespace

}  // namespace lathe::ptx

using namespace lathe::ptx;

// NOLINTBEGIN(bugprone-reserved-identifier): nvcc's names
extern "C" {

void** __cudaRegisterFatBinary(void* wrapper) {
  registry().binaries.push_back({wrapper, {}});
  return reinterpret_cast<void**>(&registry().binaries.back());
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
char __cudaInitModule(void**) { return 1; }
void __cudaRegisterFunction(void** binary, const char* host_function, char*, const char* symbol,
                            int, void*, void*, void*, void*, int*) {
  registry().kernels[host_function] = {reinterpret_cast<Binary*>(binary), symbol};
}

// Of a variable that the host may reach by its name, which nobody does.
void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}

cudaError_t cudaLaunchKernelExC(const void* config, const void* function, void** arguments) {
  return launch_kernel(*static_cast<const LaunchConfig*>(config), function, arguments);
}

cudaError_t cudaFuncGetAttributes(FunctionAttributes* attributes, const void* function) {
  const auto at = registry().kernels.find(function);
  if (at == registry().kernels.end()) return cudaErrorInvalidValue;
  attributes->ptx_version = version_of(ptx_of(at->second.binary->wrapper));
  return cudaSuccess;
}

// What a kernel's host function calls when it is called as a function, with <<<>>>: launch.h never
// does.
cudaError_t __cudaPopCallConfiguration(dim3*, dim3*, size_t*, void*) {
  return cudaErrorInvalidValue;
}
cudaError_t __cudaGetKernel(void**, const void*) { return cudaErrorInvalidValue; }
cudaError_t __cudaLaunchKernel(void*, dim3, dim3, void**, size_t, cudaStream_t) {
  return cudaErrorInvalidValue;
}

}  // extern "C"
// NOLINTEND(bugprone-reserved-identifier)
