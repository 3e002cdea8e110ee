// Build configuration and the project's few macros. The comment of each macro says why a function
// cannot do its job. `#ifdef` on CUDA is allowed here, in core/gpu/launch.h and in dispatch.h, and
// nowhere else.
#pragma once

// LATHE_API marks what a shared library exports; everything else stays hidden. LATHE_SHARED is set
// both when the shared library is built and when it is used. (A macro, because attributes cannot be
// computed.)
#if defined(LATHE_SHARED) && defined(_WIN32) && defined(LATHE_BUILDING)
#  define LATHE_API __declspec(dllexport)
#elif defined(LATHE_SHARED) && defined(_WIN32)
#  define LATHE_API __declspec(dllimport)
#elif defined(__GNUC__)
#  define LATHE_API __attribute__((visibility("default")))
#else
#  define LATHE_API
#endif

// LATHE_HD marks a function that is compiled for host and device. Outside nvcc it is empty, because
// CUDA's keywords do not exist there.
#if defined(__CUDACC__)
#  define LATHE_HD __host__ __device__
#else
#  define LATHE_HD
#endif

// LATHE_PTX(Result, "=h", "instruction %0, %1;", "f", value) stands at the beginning of a LATHE_HD
// function. In code for GPUs of sm_80 or newer it returns the result of that one instruction.
// Everywhere else, and in constant expressions, it does nothing: the code below it computes the
// result, and must compute the same. (A macro, because host compilers cannot even parse PTX.)
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#  define LATHE_PTX(Result, to, instruction, from, value) \
    if (!::std::is_constant_evaluated()) {                \
      Result lathe_result;                                \
      asm(instruction : to(lathe_result) : from(value));  \
      return lathe_result;                                \
    }
#else
#  define LATHE_PTX(Result, to, instruction, from, value)
#endif

// LATHE_ASAN, LATHE_TSAN: set in sanitizer builds. GCC defines a macro, clang has __has_feature.
#if defined(__has_feature)
#  if __has_feature(address_sanitizer)
#    define LATHE_ASAN 1
#  endif
#  if __has_feature(thread_sanitizer)
#    define LATHE_TSAN 1
#  endif
#endif
#if defined(__SANITIZE_ADDRESS__) && !defined(LATHE_ASAN)
#  define LATHE_ASAN 1
#endif
#if defined(__SANITIZE_THREAD__) && !defined(LATHE_TSAN)
#  define LATHE_TSAN 1
#endif

// LATHE_CLONES before a function with a hot loop compiles it three times: for the baseline, AVX2
// and AVX-512. The loader picks one. Functions that the loop calls must be inlined. Off under
// sanitizers, whose run-time is not ready yet when the loader picks. (A macro, because it is an
// attribute.)
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__CUDACC__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#  define LATHE_CLONES __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#  define LATHE_CLONES
#endif

namespace lathe {

/// True in a build that holds the CUDA backend.
#if defined(LATHE_WITH_CUDA)
inline constexpr bool kHasCuda = true;
#else
inline constexpr bool kHasCuda = false;
#endif

/// True if the CUDA backend links cuDNN, cuBLAS and cuRAND. False in a build with the emulated GPU:
/// there, stand-ins replace cuDNN and cuBLAS, and Lathe's own kernels compute the rest.
#if defined(LATHE_WITH_CUDA) && !defined(LATHE_CUDA_EMULATED)
inline constexpr bool kHasCudaLibraries = true;
#else
inline constexpr bool kHasCudaLibraries = false;
#endif

}  // namespace lathe

// Throws ErrorType, with all further arguments written one after another, if `condition` is false:
//   LATHE_CHECK(ShapeError, x.ndim() == 4, "conv2d: x must be [N,C,H,W] (x: ", x, ")");
// A macro, because the arguments must not be evaluated (nor formatted) when the check holds, and
// because the message contains the place of the check.
#define LATHE_CHECK(ErrorType, condition, ...)                                  \
  do {                                                                          \
    if (!(condition)) [[unlikely]]                                              \
      ::lathe::fail<ErrorType>(::lathe::here(__FILE__, __LINE__), __VA_ARGS__); \
  } while (false)

// The same without a condition: LATHE_FAIL(DTypeError, "relu: no kernel for ", dtype).
#define LATHE_FAIL(ErrorType, ...) \
  ::lathe::fail<ErrorType>(::lathe::here(__FILE__, __LINE__), __VA_ARGS__)
