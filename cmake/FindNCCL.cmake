# FindNCCL: the folder of NCCL's header, NCCL_INCLUDE_DIR; its library, NCCL_LIBRARY, which is opened at run time and not linked;
# NCCL_VERSION as the header says it. Hints, the first that holds nccl.h wins:
#   NCCL_ROOT                  a prefix; CMake variable or environment
#   VIRTUAL_ENV, CONDA_PREFIX  a Python with NVIDIA's wheel (nvidia-nccl-cu13)
#   the CUDA toolkit, then the system

set(_nccl_hints ${NCCL_ROOT} $ENV{NCCL_ROOT})
foreach(_python IN ITEMS "$ENV{VIRTUAL_ENV}" "$ENV{CONDA_PREFIX}")
  if(_python)
    file(GLOB _wheels LIST_DIRECTORIES true "${_python}/lib*/python3*/*-packages/nvidia/nccl")
    list(APPEND _nccl_hints ${_wheels} "${_python}")
  endif()
endforeach()

find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${_nccl_hints} ${CUDAToolkit_INCLUDE_DIRS} PATH_SUFFIXES include)
set(NCCL_VERSION "")
if(NCCL_INCLUDE_DIR)
  file(STRINGS "${NCCL_INCLUDE_DIR}/nccl.h" _nccl_lines REGEX "^#define NCCL_(MAJOR|MINOR|PATCH) +[0-9]+")
  string(REGEX MATCHALL "[0-9]+" NCCL_VERSION "${_nccl_lines}")
  list(JOIN NCCL_VERSION "." NCCL_VERSION)
  string(REGEX MATCH "^[0-9]+" _nccl_major "${NCCL_VERSION}")
  string(REGEX REPLACE "/include$" "" _nccl_prefix "${NCCL_INCLUDE_DIR}")
  find_library(NCCL_LIBRARY NAMES "libnccl.so.${_nccl_major}"
    HINTS "${_nccl_prefix}" ${CUDAToolkit_LIBRARY_DIR}
    PATH_SUFFIXES lib lib64 "lib/${CMAKE_LIBRARY_ARCHITECTURE}")
endif()
mark_as_advanced(NCCL_INCLUDE_DIR NCCL_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(NCCL REQUIRED_VARS NCCL_LIBRARY NCCL_INCLUDE_DIR VERSION_VAR NCCL_VERSION)
