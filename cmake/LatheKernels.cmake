# For projects that use Lathe and have CUDA kernels of their own. Part of the installed package.

# CMake 3.25's table of nvcc's flags stops at C++17. After enable_language(CUDA); a macro, to set variables of the caller.
macro(lathe_cuda_20)
  if(CMAKE_CUDA_COMPILER_ID STREQUAL "NVIDIA" AND NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
    list(APPEND CMAKE_CUDA_COMPILE_FEATURES cuda_std_20)
    set(CMAKE_CUDA20_COMPILE_FEATURES cuda_std_20)
  endif()
endmacro()

# lathe_kernels_for_host(source...): these .cu files are compiled by the host compiler in the calling folder.
function(lathe_kernels_for_host)
  set_source_files_properties(${ARGN} PROPERTIES LANGUAGE CXX COMPILE_OPTIONS "-xc++")
endfunction()

# lathe_target_kernels(target kernel.cu...): adds kernels to a target that links lathe::lathe. They are compiled by nvcc if
# Lathe has its CUDA backend, else left out, so that a project needs nvcc only where Lathe needed it. In Lathe's own tree with the
# emulated GPU (LATHE_CUDA=EMULATE) the host compiler compiles them. A macro, because a function may not enable a language.
macro(lathe_target_kernels target)
  get_target_property(_lathe_definitions lathe::lathe INTERFACE_COMPILE_DEFINITIONS)
  get_target_property(_lathe_imported lathe::lathe IMPORTED)
  if("LATHE_CUDA_EMULATED" IN_LIST _lathe_definitions)
    if(_lathe_imported)
      message(FATAL_ERROR "lathe: this installed Lathe emulates a GPU; kernels need one that was built with CUDA or without")
    endif()
    lathe_kernels_for_host(${ARGN})
    target_sources(${target} PRIVATE ${ARGN})
  elseif("LATHE_WITH_CUDA" IN_LIST _lathe_definitions)
    if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
      set(CMAKE_CUDA_ARCHITECTURES "${LATHE_CUDA_ARCHITECTURES}")  # those of the library
    endif()
    enable_language(CUDA)
    lathe_cuda_20()
    set_target_properties(${target} PROPERTIES  # made before the language was known
      CUDA_ARCHITECTURES "${CMAKE_CUDA_ARCHITECTURES}" CUDA_STANDARD 20 CUDA_STANDARD_REQUIRED ON)
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr>")
    target_sources(${target} PRIVATE ${ARGN})
  endif()
endmacro()
