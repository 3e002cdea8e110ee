// ONEDNN_MAX_CPU_ISA limits our own code too (tests/cpu_limit.cpp), so that tools/test_as.sh runs
// what it says.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "lathe/core/machine/info.h"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

namespace lathe {
namespace {

// The loader picks one of these as it picks one of LATHE_CLONES.
[[gnu::target("default")]] int level() { return 2; }
[[gnu::target("arch=x86-64-v3")]] int level() { return 3; }
[[gnu::target("arch=x86-64-v4")]] int level() { return 4; }

int level_of(const std::string& limit) { return limit == "SSE41" ? 2 : limit == "AVX2" ? 3 : 4; }

TEST_CASE("cpu limit: ONEDNN_MAX_CPU_ISA limits clones and __builtin_cpu_supports alike") {
  const char* const asked = std::getenv("ONEDNN_MAX_CPU_ISA");
  const std::string limit = asked ? asked : "";
  const int most = level_of(limit);
  CAPTURE(limit);
  const CpuInfo cpu = cpu_info();  // of the machine, whatever the limit
  const bool avx2 = cpu.has("avx2") && cpu.has("fma"), avx512 = cpu.has("avx512bw");
  CHECK(level() == std::min(most, avx512 ? 4 : avx2 ? 3 : 2));
  CHECK(__builtin_cpu_supports("sse4.2"));
  CHECK(static_cast<bool>(__builtin_cpu_supports("avx")) == (most >= 3 && cpu.has("avx")));
  CHECK(static_cast<bool>(__builtin_cpu_supports("avx2")) == (most >= 3 && cpu.has("avx2")));
  CHECK(static_cast<bool>(__builtin_cpu_supports("fma")) == (most >= 3 && cpu.has("fma")));
  CHECK(static_cast<bool>(__builtin_cpu_supports("avx512f")) == (most >= 4 && cpu.has("avx512f")));
  CHECK(static_cast<bool>(__builtin_cpu_supports("avx512bw")) ==
        (most >= 4 && cpu.has("avx512bw")));
  CHECK(static_cast<bool>(__builtin_cpu_supports("avx512bf16")) ==
        (most >= 4 && limit != "AVX512_CORE" && cpu.has("avx512_bf16")));
}

}  // namespace
}  // namespace lathe

#endif
