# Enables CUDA. nvcc is taken from CMAKE_CUDA_COMPILER, $CUDACXX, $CUDA_PATH, the PATH, /usr/local/cuda, in this order.

if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
  find_program(LATHE_NVCC nvcc PATHS "$ENV{CUDA_PATH}/bin" NO_DEFAULT_PATH)
  find_program(LATHE_NVCC nvcc PATHS /usr/local/cuda/bin)
  if(LATHE_NVCC)
    set(CMAKE_CUDA_COMPILER "${LATHE_NVCC}")
  endif()
endif()
include(CheckLanguage)
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  message(FATAL_ERROR "lathe: LATHE_CUDA=ON but nvcc was not found; set CUDACXX to it, or CUDA_PATH to its toolkit")
endif()

if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 90)
endif()
enable_language(CUDA)

# CMake 3.25's table of nvcc's flags stops at C++17.
if(CMAKE_CUDA_COMPILER_ID STREQUAL "NVIDIA" AND NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
  list(APPEND CMAKE_CUDA_COMPILE_FEATURES cuda_std_20)
  set(CMAKE_CUDA20_COMPILE_FEATURES cuda_std_20)
endif()

# lathe_cuda_flags(target): how our own .cu files are compiled. Contraction is off as on the host.
function(lathe_cuda_flags target)
  set_target_properties(${target} PROPERTIES CUDA_STANDARD 20 CUDA_STANDARD_REQUIRED ON)
  target_compile_options(${target} PRIVATE
    "$<$<COMPILE_LANGUAGE:CUDA>:--fmad=false;--expt-relaxed-constexpr;--Werror=all-warnings;-Xcompiler=-Wall,-Wextra,-Wshadow>")
endfunction()
