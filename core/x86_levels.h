// Which of the processor's vector instructions code that is compiled for them may use. The levels
// are those of the x86-64 psABI, which are also GCC's -march=x86-64-v3 and -v4.
#pragma once

namespace lathe {

/// AVX2 and FMA, of level 3.
inline bool has_avx2() noexcept {
#if defined(__x86_64__) && defined(__GNUC__)
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  return false;
#endif
}

/// AVX-512 as far as level 4 has it.
inline bool has_avx512() noexcept {
#if defined(__x86_64__) && defined(__GNUC__)
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512cd") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512bw");
#else
  return false;
#endif
}

/// Products of bf16 in AVX-512, beside has_avx512().
inline bool has_avx512_bf16() noexcept {
#if defined(__x86_64__) && defined(__GNUC__)
  return has_avx512() && __builtin_cpu_supports("avx512bf16");
#else
  return false;
#endif
}

}  // namespace lathe
