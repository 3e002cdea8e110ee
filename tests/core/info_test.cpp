// Machine and build information: the parser on written texts, and plausibility on this machine.
#include "lathe/core/machine/info.h"

#include <doctest/doctest.h>

#include <cstdlib>

#include "lathe/core/thread_pool.h"
#include "lathe/core/version.h"

namespace lathe {
namespace {

using info_detail::parse_cpu_info;

TEST_CASE("cpu_info: reads model and flags from the text of /proc/cpuinfo") {
  const CpuInfo info = parse_cpu_info(
      "processor\t: 0\nmodel\t\t: 85\nmodel name\t: Some CPU @ 2.00GHz\nflags\t\t: fpu avx fma "
      "avx512f avx512_bf16\n"
      "\nprocessor\t: 1\nmodel name\t: Other\nflags\t\t: avx2\n");
  CHECK(info.model == "Some CPU @ 2.00GHz");
  CHECK(info.flags == std::vector<std::string>{"avx", "fma", "avx512f", "avx512_bf16"});
  CHECK(info.has("fma"));
  CHECK_FALSE(info.has("avx2"));
  CHECK_FALSE(info.has("avx512"));
}

TEST_CASE("cpu_info: an Arm text has features and no model") {
  const CpuInfo info = parse_cpu_info("processor : 0\nFeatures : fp asimd sve bf16");
  CHECK(info.model == "unknown");
  CHECK(info.flags == std::vector<std::string>{"asimd", "bf16", "sve"});
}

TEST_CASE("cpu_info: damaged texts leave things unknown") {
  for (const char* text :
       {"", ":", "\n\n:\n", "model name", "model name:", "flags:\nFeatures", " : x\n"}) {
    const CpuInfo info = parse_cpu_info(text);
    CHECK(info.model == "unknown");
    CHECK(info.flags.empty());
  }
}

TEST_CASE("cpu_info: this machine") {
  const CpuInfo info = cpu_info();
  CHECK(info.usable_cpus == usable_cpus());
  CHECK(info.memory_bytes > 0);
  CHECK(info.available_bytes <= info.memory_bytes);
#if defined(__x86_64__)
  if (std::getenv("ONEDNN_MAX_CPU_ISA") == nullptr) {  // tests/cpu_limit.cpp
    CHECK(info.has("avx2") == static_cast<bool>(__builtin_cpu_supports("avx2")));
    CHECK(info.has("avx512f") == static_cast<bool>(__builtin_cpu_supports("avx512f")));
  }
#endif
}

TEST_CASE("build_info: this build") {
  const BuildInfo info = build_info();
  CHECK(info.version == version());
  CHECK(!info.compiler.empty());
  CHECK(!info.build_type.empty());
  CHECK(info.cuda == kHasCuda);
  REQUIRE(info.libraries.size() == 8);
  CHECK(info.libraries[1].name == "Eigen");
  CHECK(info.libraries[1].version.substr(0, 2) == "3.");
}

}  // namespace
}  // namespace lathe
