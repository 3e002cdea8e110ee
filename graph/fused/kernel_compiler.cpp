// Calls of NVRTC. Contract: kernel_compiler.h.
#include "lathe/graph/fused/kernel_compiler.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <type_traits>
#include <vector>

#include "lathe/core/error.h"
#include "lathe/core/files/hash.h"
#include "lathe/core/format.h"
#include "lathe/core/gpu/nvrtc_functions.h"
#include "lathe/graph/fused/kernel_text.h"

namespace lathe::jit {

namespace {

// 1097: attributes of other compilers, as always_inline. Without the last one NVRTC also looks for
// headers in the current folder.
constexpr const char* kOptions[] = {"--std=c++20", "--fmad=false", "--diag-suppress=1097",
                                    "--device-as-default-execution-space", "--no-source-include"};

void check_nvrtc(nvrtcResult result, const char* call, const std::string& details = "") {
  LATHE_CHECK(CudaError, result == NVRTC_SUCCESS, "NVRTC: ", call, ": ",
              nvrtc::functions().nvrtcGetErrorString(result), details);
}

/// What a program holds as text, by the function that tells its size, NUL included, and the one
/// that gives it.
template <class Size, class Get>
std::string held_text(nvrtcProgram program, const char* call, Size size, Get get) {
  size_t bytes = 0;
  check_nvrtc(size(program, &bytes), call);
  std::string text(bytes, '\0');
  check_nvrtc(get(program, text.data()), call);
  return text;
}

struct DestroyNvrtcProgram {
  void operator()(nvrtcProgram program) const { nvrtc::functions().nvrtcDestroyProgram(&program); }
};
using NvrtcProgram = std::unique_ptr<std::remove_pointer_t<nvrtcProgram>, DestroyNvrtcProgram>;

NvrtcProgram program_of(const std::string& text) {
  std::vector<const char*> texts, names;
  for (const KernelHeader& header : kernel_headers()) {
    texts.push_back(header.text);
    names.push_back(header.name);
  }
  nvrtcProgram made = nullptr;
  check_nvrtc(nvrtc::functions().nvrtcCreateProgram(&made, text.c_str(), "fused_kernel.cu",
                                                    static_cast<int>(texts.size()), texts.data(),
                                                    names.data()),
              "nvrtcCreateProgram");
  return NvrtcProgram(made);
}

}  // namespace

std::string compile_kernels(const std::string& text, const std::string& architecture) {
  const nvrtc::Functions& api = nvrtc::functions();
  const NvrtcProgram program = program_of(text);
  const std::string target = "--gpu-architecture=" + architecture;
  std::vector<const char*> options(std::begin(kOptions), std::end(kOptions));
  options.push_back(target.c_str());
  const nvrtcResult result =
      api.nvrtcCompileProgram(program.get(), static_cast<int>(options.size()), options.data());
  if (result != NVRTC_SUCCESS) {
    check_nvrtc(result, "nvrtcCompileProgram",
                concat(" for ", architecture, "\n",
                       held_text(program.get(), "nvrtcGetProgramLog", api.nvrtcGetProgramLogSize,
                                 api.nvrtcGetProgramLog)
                           .c_str(),
                       "fused_kernel.cu:\n", text));
  }
  if (architecture.starts_with("sm_"))
    return held_text(program.get(), "nvrtcGetCUBIN", api.nvrtcGetCUBINSize, api.nvrtcGetCUBIN);
  std::string ptx = held_text(program.get(), "nvrtcGetPTX", api.nvrtcGetPTXSize, api.nvrtcGetPTX);
  ptx.pop_back();  // the NUL
  return ptx;
}

std::string kernel_target(int major, int minor) {
  const nvrtc::Functions& api = nvrtc::functions();
  int count = 0;
  check_nvrtc(api.nvrtcGetNumSupportedArchs(&count), "nvrtcGetNumSupportedArchs");
  std::vector<int> known(static_cast<size_t>(count));
  check_nvrtc(api.nvrtcGetSupportedArchs(known.data()), "nvrtcGetSupportedArchs");
  const int wanted = 10 * major + minor;
  int newest = 0;
  for (const int each : known) {
    if (each <= wanted) newest = std::max(newest, each);
  }
  LATHE_CHECK(CudaError, newest > 0, "NVRTC: compute capability ", major, ".", minor,
              " is older than every one that NVRTC compiles for");
  return concat(newest == wanted ? "sm_" : "compute_", newest);
}

}  // namespace lathe::jit
