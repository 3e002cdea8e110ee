# Whether and how the CUDA backend is built. Sets LATHE_HAS_CUDA and LATHE_CUDA_NOTE from LATHE_CUDA:
#   AUTO      on where nvcc and all libraries are found; ON      an error where one is missing; OFF
#   EMULATE   on, with the host compiler, over the runtime in tests/emulation: every kernel runs, without a GPU
# LATHE_HAS_CUDA_LIBRARIES is on in the builds for real GPUs, which call cuDNN, cuBLASLt and cuRAND.

# lathe_cuda_architectures(<variable>): those of this machine's GPUs, 90 (Hopper) where there is none.
function(lathe_cuda_architectures result)
  set(architectures "")
  execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader
                  OUTPUT_VARIABLE capabilities ERROR_QUIET RESULT_VARIABLE status)
  if(status EQUAL 0)
    string(REGEX MATCHALL "[0-9]+\\.[0-9]+" architectures "${capabilities}")
    string(REPLACE "." "" architectures "${architectures}")
    list(REMOVE_DUPLICATES architectures)
  endif()
  if(NOT architectures)
    set(architectures 90)
  endif()
  set(${result} "${architectures}" PARENT_SCOPE)
endfunction()

# nvcc is taken from CMAKE_CUDA_COMPILER, $CUDACXX, CUDAToolkit_ROOT, $CUDA_PATH, the PATH, /usr/local/cuda, in this
# order. It is tried out in a project of its own, so that one that does not work turns CUDA off instead of failing here.
macro(_lathe_find_nvcc)
  if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
    find_program(LATHE_NVCC nvcc PATHS "${CUDAToolkit_ROOT}/bin" "$ENV{CUDA_PATH}/bin" NO_DEFAULT_PATH)
    find_program(LATHE_NVCC nvcc PATHS /usr/local/cuda/bin)
    mark_as_advanced(LATHE_NVCC)
    if(LATHE_NVCC)
      set(ENV{CUDACXX} "${LATHE_NVCC}")
    endif()
  endif()
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
      lathe_cuda_architectures(CMAKE_CUDA_ARCHITECTURES)
    endif()
    set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
    enable_language(CUDA)
    # This level is the host compiler's alone: kernels come out the same to the byte. What the host does in a .cu file is to
    # launch, and that of unary_cuda.cu takes 8 s to compile at -O1, 28 s at -O3.
    # A level that the user chose stays.
    if(CMAKE_CUDA_FLAGS_RELEASE STREQUAL "-O3 -DNDEBUG")
      set(CMAKE_CUDA_FLAGS_RELEASE "-O1 -DNDEBUG")
    endif()
    find_package(CUDAToolkit QUIET)
    find_package(CUDNN QUIET)
  endif()
endmacro()

# lathe_cuda_problem(<variable>): what is missing for the backend and how to get it, or "".
function(lathe_cuda_problem result)
  set(problem "")
  set(absent "")
  foreach(library IN ITEMS cublasLt curand)
    if(NOT TARGET CUDA::${library})
      list(APPEND absent ${library})
    endif()
  endforeach()
  list(JOIN absent ", " absent)
  set(cudnn_advice "install libcudnn9-dev-cuda-${CUDAToolkit_VERSION_MAJOR}, or nvidia-cudnn-cu${CUDAToolkit_VERSION_MAJOR} with pip, or set CUDNN_ROOT")
  if(NOT CMAKE_CUDA_COMPILER AND DEFINED ENV{CUDACXX})
    set(problem "nvcc ($ENV{CUDACXX}) cannot build a program here: try it, or set CUDACXX to another")
  elseif(NOT CMAKE_CUDA_COMPILER)
    set(problem "nvcc was not found: install the CUDA toolkit, or set CUDACXX to nvcc or CUDA_PATH to its toolkit")
  elseif(NOT TARGET CUDA::cudart_static)
    set(problem "nvcc was found, but not libcudart_static.a beside it: set CUDAToolkit_ROOT")
  elseif(absent)
    set(problem "not found in ${CUDAToolkit_LIBRARY_DIR}: ${absent}; install libcublas-dev and libcurand-dev, or set CUDAToolkit_ROOT")
  elseif(NOT CUDNN_INCLUDE_DIR)
    set(problem "cuDNN was not found: ${cudnn_advice}")
  elseif(CUDNN_VERSION VERSION_LESS LATHE_CUDNN_VERSION)
    set(problem "cuDNN ${CUDNN_VERSION} in ${CUDNN_INCLUDE_DIR} is too old, ${LATHE_CUDNN_VERSION} is needed: ${cudnn_advice}")
  elseif(NOT CUDNN_FOUND)
    set(problem "cuDNN's header is in ${CUDNN_INCLUDE_DIR}, but its library is not beside it: ${cudnn_advice}")
  endif()
  set(${result} "${problem}" PARENT_SCOPE)
endfunction()

include(LatheKernels)
set(LATHE_CUDNN_VERSION 9)
set(LATHE_HAS_CUDA OFF)
set(LATHE_HAS_CUDA_LIBRARIES OFF)
if(LATHE_CUDA STREQUAL "EMULATE")
  set(LATHE_HAS_CUDA ON)
  set(LATHE_CUDA_NOTE "LATHE_CUDA=EMULATE: a GPU made of host memory, for tests")
elseif(LATHE_CUDA STREQUAL "AUTO" AND LATHE_SANITIZE)
  set(LATHE_CUDA_NOTE "the CUDA driver does not start under sanitizers: LATHE_SANITIZE=${LATHE_SANITIZE}")
elseif(LATHE_CUDA STREQUAL "AUTO" OR LATHE_CUDA)
  _lathe_find_nvcc()
  lathe_cuda_problem(LATHE_CUDA_NOTE)
  if(NOT LATHE_CUDA_NOTE)
    set(LATHE_HAS_CUDA ON)
    set(LATHE_HAS_CUDA_LIBRARIES ON)
    set(LATHE_CUDA_ARCHITECTURES "${CMAKE_CUDA_ARCHITECTURES}" CACHE INTERNAL "For lathe_target_kernels in other folders")
    list(TRANSFORM CMAKE_CUDA_ARCHITECTURES PREPEND "sm_" OUTPUT_VARIABLE _architectures)
    list(TRANSFORM _architectures REPLACE "-real$" "")
    list(JOIN _architectures ", " _architectures)
    set(LATHE_CUDA_NOTE "nvcc ${CMAKE_CUDA_COMPILER_VERSION} for ${_architectures}; cuDNN ${CUDNN_VERSION}")
  elseif(NOT LATHE_CUDA STREQUAL "AUTO")
    message(FATAL_ERROR "lathe: LATHE_CUDA=ON, but ${LATHE_CUDA_NOTE}")
  endif()
else()
  set(LATHE_CUDA_NOTE "LATHE_CUDA=OFF")
endif()

lathe_cuda_20()

# NCCL, for LATHE_DISTRIBUTED on GPUs: sets LATHE_HAS_NCCL and LATHE_NCCL_NOTE. Its header is needed here, the library when
# several ranks compute on GPUs.
set(LATHE_NCCL_VERSION 2.14)  # has communicators that do not block
set(LATHE_HAS_NCCL OFF)
if(NOT LATHE_NCCL)
  set(LATHE_NCCL_NOTE "LATHE_NCCL=OFF")
elseif(NOT LATHE_HAS_DISTRIBUTED OR NOT LATHE_HAS_CUDA)
  set(LATHE_NCCL_NOTE "needs CUDA and LATHE_DISTRIBUTED")
elseif(LATHE_CUDA STREQUAL "EMULATE")
  set(LATHE_HAS_NCCL ON)
  set(LATHE_NCCL_NOTE "LATHE_CUDA=EMULATE")
else()
  find_package(NCCL ${LATHE_NCCL_VERSION} QUIET)
  if(NCCL_FOUND)
    set(LATHE_HAS_NCCL ON)
    set(LATHE_NCCL_NOTE "found ${NCCL_VERSION}")
  else()
    set(LATHE_NCCL_NOTE "not found in ${LATHE_NCCL_VERSION} or later: install libnccl-dev, or nvidia-nccl-cu${CUDAToolkit_VERSION_MAJOR} with pip, or set NCCL_ROOT")
  endif()
endif()
if(NOT LATHE_HAS_NCCL AND LATHE_NCCL AND NOT LATHE_NCCL STREQUAL "AUTO")
  message(FATAL_ERROR "lathe: LATHE_NCCL=ON, but NCCL: ${LATHE_NCCL_NOTE}")
endif()

# Headers that are not installed, beside *.cuh: of our own kernels, and of calls of cuBLAS and cuDNN.
set(LATHE_KERNEL_HEADERS
  core/gpu/device_fault.h
  core/gpu/launch.h
  core/gpu/relaxed_capture.h
  ops/conv/conv2d_cuda.h
  ops/matmul_kernels/matmul_cuda.h
)
set(LATHE_CUDA_LIBRARY_HEADERS
  core/gpu/cublas_functions.h
  core/gpu/cublas_handle.h
  core/gpu/cuda_libraries.h
  core/gpu/cudnn_check.h
  core/gpu/cudnn_config.h
  core/gpu/cudnn_described.h
  core/gpu/cudnn_descriptor.h
  core/gpu/cudnn_functions.h
  core/gpu/cudnn_graph.h
  core/gpu/cudnn_handle.h
  core/gpu/cudnn_plan.h
  core/gpu/cudnn_retired.h
  core/gpu/cupti_functions.h
  core/gpu/curand_functions.h
  core/gpu/driver_function.h
  core/gpu/nccl_functions.h
  core/gpu/nvrtc_functions.h
  core/shared_library.h
  core/gpu/virtual_memory_cuda.h
  ops/conv/cudnn/conv2d_engines_cudnn.h
  ops/conv/cudnn/conv2d_fuse_or_split_cudnn.h
  ops/conv/cudnn/conv2d_graph_cudnn.h
  ops/conv/cudnn/conv2d_operands_cudnn.h
  ops/conv/cudnn/conv2d_patterns_cudnn.h
  ops/conv/cudnn/conv2d_timing_cudnn.h
  ops/matmul_kernels/matmul_cublas.h
  ops/matmul_kernels/matmul_plan_cublas.h
)
lathe_require_files(${LATHE_KERNEL_HEADERS} ${LATHE_CUDA_LIBRARY_HEADERS})

# lathe_kernels(file.cu...): hand-written kernels and their launchers in the calling folder. What compiles them takes them
# from the property: CMakeLists.txt with nvcc, tests/emulation with the host compiler.
function(lathe_kernels)
  list(TRANSFORM ARGN PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/")
  set_property(GLOBAL APPEND PROPERTY LATHE_CUDA_SOURCES ${ARGN})
endfunction()

include("${PROJECT_SOURCE_DIR}/tests/emulation/sources.cmake")

# lathe_cuda_flags(target): how its .cu files are compiled by nvcc. Contraction of a*b+c is off as on the host. Machine
# code is compressed to a tenth, which nvcc does for PTX alone; the driver unpacks a file's kernels when it loads them.
function(lathe_cuda_flags target)
  set_target_properties(${target} PROPERTIES
    CUDA_STANDARD 20 CUDA_STANDARD_REQUIRED ON CUDA_VISIBILITY_PRESET hidden)
  set(path_maps ${LATHE_PATH_MAPS})
  if(CMAKE_CUDA_COMPILER_LAUNCHER MATCHES "ccache" AND NOT "$ENV{CCACHE_BASEDIR}" STREQUAL "")
    set(path_maps ${LATHE_RELATIVE_PATH_MAPS})  # of nvcc's flags for the host ccache does not know which are paths
  endif()
  string(JOIN "," host_flags -Wall -Wextra -Wshadow -ffp-contract=off ${path_maps})
  set(flags --fmad=false --expt-relaxed-constexpr -Xfatbin=-compress-all "-Xcompiler=${host_flags}")
  list(LENGTH LATHE_CUDA_ARCHITECTURES architectures)
  if(architectures GREATER 1 AND CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
    list(APPEND flags --compress-mode=size)  # 18 % smaller in 5 % more time; every driver of CUDA 13 unpacks it
  endif()
  if(LATHE_WERROR)  # a kernel that spills registers is an error, too (tools/kernel_report.py)
    list(APPEND flags --Werror=all-warnings -Xptxas=--warn-on-spills)
  endif()
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:${flags}>")
endfunction()

# lathe_library_source(source library apt pip): the source in core/gpu/ that opens one of NVIDIA's libraries is told where the
# build found it, and what the user who lacks it installs.
function(lathe_library_source source library apt pip)
  if(LATHE_HAS_CUDA_LIBRARIES)
    cmake_path(GET library PARENT_PATH folder)
    set(advice "install ${apt}, or ${pip} with pip")
  else()
    set(folder "")
    set(advice "name it in LATHE_EMULATED_LIBRARIES")
  endif()
  set_source_files_properties(${source} TARGET_DIRECTORY lathe PROPERTIES COMPILE_DEFINITIONS
    "LATHE_LIBRARY_FOLDER=\"${folder}\";LATHE_LIBRARY_ADVICE=\"${advice}\"")
endfunction()

# lathe_add_kernels(target kernel.cu...): compiles our kernels into the library, and links what they need.
function(lathe_add_kernels target)
  if(NOT LATHE_HAS_CUDA)
    return()
  endif()
  target_sources(${target} PRIVATE ${ARGN})
  target_compile_definitions(${target} PUBLIC LATHE_WITH_CUDA)
  if(LATHE_CUDA STREQUAL "EMULATE")
    lathe_kernels_for_host(${ARGN})
    lathe_watch_accesses(${ARGN})
    if(LATHE_WATCHES_ACCESSES)
      set_property(SOURCE ${LATHE_EMULATION_SOURCES} APPEND PROPERTY COMPILE_DEFINITIONS LATHE_WATCHES_ACCESSES)
    endif()
    target_sources(${target} PRIVATE ${LATHE_EMULATION_SOURCES} ${LATHE_LIBRARY_EMULATION_SOURCES})
    target_include_directories(${target} PRIVATE ${LATHE_LIBRARY_EMULATION_DIRS})
    target_include_directories(${target} PUBLIC "$<BUILD_INTERFACE:${LATHE_EMULATION_RUNTIME_DIR}>")
    target_compile_definitions(${target} PUBLIC LATHE_CUDA_EMULATED)
    target_link_libraries(${target} PRIVATE ${CMAKE_DL_LIBS})
    return()
  endif()
  lathe_cuda_flags(${target})
  # Never libcuda, nor a library that core/shared_library.h opens: a program that needs them does not start without them.
  target_link_libraries(${target} PRIVATE
    CUDA::cudart_static "$<BUILD_INTERFACE:CUDNN::headers>" ${CMAKE_DL_LIBS})
  if(BUILD_SHARED_LIBS)  # its copy of the runtime is its own: a program that links another one must not get into it
    target_link_options(${target} PRIVATE "LINKER:--exclude-libs,libcudart_static.a:libcudadevrt.a:libculibos.a")
  endif()
endfunction()
