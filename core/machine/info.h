// What this machine is and how the library was built, for `lathe info`, a run's env.json and bug
// reports. Plain values, no state. CUDA devices: core/cuda.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/core/config.h"

namespace lathe {

/// The machine as this process sees it.
struct CpuInfo {
  std::string model;               // "unknown" where the system does not say
  int usable_cpus = 0;             // usable_cpus() of core/thread_pool.h
  std::vector<std::string> flags;  // instruction sets it has, of those that cpu_info() knows
  int64_t memory_bytes = 0;        // usable_memory() of core/process_limits.h, 0 if unknown
  int64_t available_bytes = 0;     // of it, what can be had without swapping, 0 if unknown

  bool has(std::string_view flag) const;  // info.has("avx2")
};

/// Describes the CPU, from /proc. What cannot be read stays unknown. Possible flags on x86: avx
/// avx2 fma f16c avx512f avx512bw avx512_vnni avx512_bf16 avx512_fp16 amx_tile amx_bf16; on Arm:
/// asimd asimdhp bf16 sve.
LATHE_API CpuInfo cpu_info();

/// A library that this build uses.
struct LibraryInfo {
  std::string name;
  std::string version;  // the one it was compiled with; empty: built without the library
};

/// How the library was built.
struct BuildInfo {
  std::string version;     // "0.1.0"
  std::string compiler;    // "GNU 12.2.0"
  std::string build_type;  // "Release"
  std::string march;       // "x86-64-v2"; empty: the compiler's default
  std::string sanitizers;  // "address,undefined"; empty: none
  bool cuda = false;       // holds the CUDA backend
  std::vector<LibraryInfo> libraries;
};

/// How the library was built, and which libraries it runs with.
LATHE_API BuildInfo build_info();

namespace info_detail {
/// cpu_info() from the text of /proc/cpuinfo, without processors and memory.
CpuInfo parse_cpu_info(std::string_view cpuinfo);
}  // namespace info_detail

}  // namespace lathe
