# Whether and how the CUDA backend is built. Sets LATHE_HAS_CUDA and LATHE_CUDA_NOTE from LATHE_CUDA:
#   AUTO      on where a toolkit is found; ON      an error where none is; OFF
#   EMULATE   on, with the host compiler, over the runtime in tests/emulation: every kernel runs, without a GPU

# nvcc is taken from CMAKE_CUDA_COMPILER, $CUDACXX, $CUDA_PATH, the PATH, /usr/local/cuda, in this order.
macro(_lathe_find_toolkit)
  if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
    find_program(LATHE_NVCC nvcc PATHS "$ENV{CUDA_PATH}/bin" NO_DEFAULT_PATH)
    find_program(LATHE_NVCC nvcc PATHS /usr/local/cuda/bin)
    if(LATHE_NVCC)
      set(CMAKE_CUDA_COMPILER "${LATHE_NVCC}")
    endif()
  endif()
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
      set(CMAKE_CUDA_ARCHITECTURES 90)
    endif()
    set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
    enable_language(CUDA)
    find_package(CUDAToolkit QUIET)
  endif()
endmacro()

set(LATHE_HAS_CUDA OFF)
if(LATHE_CUDA STREQUAL "EMULATE")
  set(LATHE_HAS_CUDA ON)
  set(LATHE_CUDA_NOTE "LATHE_CUDA=EMULATE: a GPU made of host memory, for tests")
elseif(LATHE_CUDA STREQUAL "AUTO" OR LATHE_CUDA)
  _lathe_find_toolkit()
  if(CMAKE_CUDA_COMPILER AND TARGET CUDA::cudart_static)
    set(LATHE_HAS_CUDA ON)
    set(LATHE_CUDA_NOTE "nvcc ${CMAKE_CUDA_COMPILER_VERSION} for ${CMAKE_CUDA_ARCHITECTURES}")
  elseif(CMAKE_CUDA_COMPILER)
    set(LATHE_CUDA_NOTE "nvcc was found, but not libcudart_static.a beside it")
  else()
    set(LATHE_CUDA_NOTE "nvcc was not found; set CUDACXX to it, or CUDA_PATH to its toolkit")
  endif()
  if(NOT LATHE_HAS_CUDA AND NOT LATHE_CUDA STREQUAL "AUTO")
    message(FATAL_ERROR "lathe: LATHE_CUDA=ON, but ${LATHE_CUDA_NOTE}")
  endif()
else()
  set(LATHE_CUDA_NOTE "LATHE_CUDA=OFF")
endif()

# CMake 3.25's table of nvcc's flags stops at C++17.
if(CMAKE_CUDA_COMPILER_ID STREQUAL "NVIDIA" AND NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
  list(APPEND CMAKE_CUDA_COMPILE_FEATURES cuda_std_20)
  set(CMAKE_CUDA20_COMPILE_FEATURES cuda_std_20)
endif()

# lathe_kernels_for_host(source...): these .cu files are compiled by the host compiler in the calling folder.
function(lathe_kernels_for_host)
  set_source_files_properties(${ARGN} PROPERTIES LANGUAGE CXX COMPILE_OPTIONS "-xc++")
endfunction()

# What the emulated GPU is made of, beside the kernels.
set(LATHE_EMULATION_SOURCES
  "${PROJECT_SOURCE_DIR}/tests/emulation/cuda_emulation.cpp"
  "${PROJECT_SOURCE_DIR}/tests/emulation/cuda_runtime_emulation.cpp")

# lathe_add_kernels(target kernel.cu...): compiles our kernels into the library, and links what they need. Contraction
# of a*b+c is off as on the host.
function(lathe_add_kernels target)
  if(NOT LATHE_HAS_CUDA)
    return()
  endif()
  target_sources(${target} PRIVATE ${ARGN})
  target_compile_definitions(${target} PUBLIC LATHE_WITH_CUDA)
  if(LATHE_CUDA STREQUAL "EMULATE")
    lathe_kernels_for_host(${ARGN})
    target_sources(${target} PRIVATE ${LATHE_EMULATION_SOURCES})
    target_compile_definitions(${target} PUBLIC LATHE_CUDA_EMULATED)
    target_link_libraries(${target} PRIVATE ${CMAKE_DL_LIBS})
    return()
  endif()
  set_target_properties(${target} PROPERTIES CUDA_STANDARD 20 CUDA_STANDARD_REQUIRED ON)
  target_compile_options(${target} PRIVATE
    "$<$<COMPILE_LANGUAGE:CUDA>:--fmad=false;--expt-relaxed-constexpr;--Werror=all-warnings;-Xcompiler=-Wall,-Wextra,-Wshadow>")
  target_link_libraries(${target} PRIVATE CUDA::cudart_static ${CMAKE_DL_LIBS})
endfunction()
