# FindCUDNN: cuDNN's headers, target CUDNN::headers; its front library, CUDNN_LIBRARY, which is opened at run time and not
# linked; CUDNN_VERSION as the header says it. Hints, the first that holds cudnn_version.h wins:
#   CUDNN_ROOT, CUDNN_PATH     a prefix; CMake variables or environment
#   CUDNN_PYTHON_PREFIX, VIRTUAL_ENV, CONDA_PREFIX   a Python with NVIDIA's wheel (nvidia-cudnn-cu13)
#   the CUDA toolkit, then the system
# The library must lie beside the header and carry its major version: a wheel has libcudnn.so.9 only, and a plain
# libcudnn.so could be an older one. It loads the parts of cuDNN when they are needed.

set(_cudnn_hints ${CUDNN_ROOT} $ENV{CUDNN_ROOT} ${CUDNN_PATH} $ENV{CUDNN_PATH})
foreach(_python IN ITEMS "${CUDNN_PYTHON_PREFIX}" "$ENV{CUDNN_PYTHON_PREFIX}" "$ENV{VIRTUAL_ENV}" "$ENV{CONDA_PREFIX}")
  if(_python)
    file(GLOB _wheels LIST_DIRECTORIES true "${_python}/lib*/python3*/*-packages/nvidia/cudnn")
    list(APPEND _cudnn_hints ${_wheels} "${_python}")
  endif()
endforeach()

set(_cudnn_multiarch "${CMAKE_LIBRARY_ARCHITECTURE}")
find_path(CUDNN_INCLUDE_DIR cudnn_version.h
  HINTS ${_cudnn_hints} ${CUDAToolkit_INCLUDE_DIRS}
  PATH_SUFFIXES include "include/${_cudnn_multiarch}")

set(CUDNN_VERSION "")
if(CUDNN_INCLUDE_DIR AND EXISTS "${CUDNN_INCLUDE_DIR}/cudnn_version.h")
  file(STRINGS "${CUDNN_INCLUDE_DIR}/cudnn_version.h" _cudnn_lines
       REGEX "^#define CUDNN_(MAJOR|MINOR|PATCHLEVEL) +[0-9]+")
  string(REGEX MATCHALL "[0-9]+" CUDNN_VERSION "${_cudnn_lines}")
  list(JOIN CUDNN_VERSION "." CUDNN_VERSION)
  string(REGEX MATCH "^[0-9]+" _cudnn_major "${CUDNN_VERSION}")
  string(REGEX REPLACE "/include(/${_cudnn_multiarch})?$" "" _cudnn_prefix "${CUDNN_INCLUDE_DIR}")
  find_library(CUDNN_LIBRARY NAMES "libcudnn.so.${_cudnn_major}"
    HINTS "${_cudnn_prefix}" ${CUDAToolkit_LIBRARY_DIR}
    PATH_SUFFIXES lib lib64 "lib/${_cudnn_multiarch}")
endif()
mark_as_advanced(CUDNN_INCLUDE_DIR CUDNN_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CUDNN REQUIRED_VARS CUDNN_LIBRARY CUDNN_INCLUDE_DIR VERSION_VAR CUDNN_VERSION)

if(CUDNN_FOUND AND NOT TARGET CUDNN::headers)
  add_library(CUDNN::headers INTERFACE IMPORTED)
  target_include_directories(CUDNN::headers INTERFACE "${CUDNN_INCLUDE_DIR}")
  if(TARGET CUDA::toolkit)  # cudnn.h includes cuda_runtime.h, which a wheel keeps elsewhere
    target_link_libraries(CUDNN::headers INTERFACE CUDA::toolkit)
  endif()
endif()
