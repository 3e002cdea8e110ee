# What the emulated GPU is made of, beside the kernels. The folder has <cuda_runtime.h> for the host compiler.
set(LATHE_EMULATION_RUNTIME_DIR "${CMAKE_CURRENT_LIST_DIR}/runtime")
set(LATHE_EMULATION_SOURCES
  "${CMAKE_CURRENT_LIST_DIR}/cuda_emulation.cpp"
  "${CMAKE_CURRENT_LIST_DIR}/cuda_runtime_device.cpp"
  "${CMAKE_CURRENT_LIST_DIR}/cuda_runtime_graph.cpp"
  "${CMAKE_CURRENT_LIST_DIR}/cuda_runtime_machine.cpp"
  "${CMAKE_CURRENT_LIST_DIR}/cuda_runtime_memory.cpp"
  "${CMAKE_CURRENT_LIST_DIR}/cuda_runtime_stream.cpp"
  "${CMAKE_CURRENT_LIST_DIR}/device_ranges.cpp"
  "${CMAKE_CURRENT_LIST_DIR}/driver_emulation.cpp"
  "${CMAKE_CURRENT_LIST_DIR}/emulated_block.cpp"
  "${CMAKE_CURRENT_LIST_DIR}/emulated_memory.cpp"
  "${CMAKE_CURRENT_LIST_DIR}/kernel_access.cpp"
  "${CMAKE_CURRENT_LIST_DIR}/kernel_name.cpp"
  "${CMAKE_CURRENT_LIST_DIR}/launch_limits.cpp"
  "${CMAKE_CURRENT_LIST_DIR}/memory_shadow.cpp"
  "${CMAKE_CURRENT_LIST_DIR}/schedule.cpp"
  "${CMAKE_CURRENT_LIST_DIR}/shared_memory.cpp"
  "${CMAKE_CURRENT_LIST_DIR}/shared_shadow.cpp"
  "${CMAKE_CURRENT_LIST_DIR}/stack_switch.cpp")

# lathe_watch_accesses(source...): the compiler announces what these sources, of the calling folder, read and write, and the
# emulation looks at it when they run as kernels on the emulated device (kernel_access.h). Not under ThreadSanitizer, which
# looks itself, nor with g++'s other sanitizers, which do not go with this one.
set(LATHE_WATCHES_ACCESSES OFF)
if(LATHE_CUDA STREQUAL "EMULATE" AND NOT LATHE_SANITIZE MATCHES "thread")
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    set(LATHE_WATCHES_ACCESSES ON)
    set(LATHE_WATCH_FLAGS "-fsanitize-coverage=func,inline-bool-flag,trace-loads,trace-stores")
  elseif(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT LATHE_SANITIZE)
    set(LATHE_WATCHES_ACCESSES ON)  # the macro would say that AddressSanitizer's runtime is there
    set(LATHE_WATCH_FLAGS -O1 -fsanitize=kernel-address -U__SANITIZE_ADDRESS__ -fsanitize=alignment)
  endif()
endif()
function(lathe_watch_accesses)
  if(LATHE_WATCHES_ACCESSES)
    set_property(SOURCE ${ARGN} APPEND PROPERTY COMPILE_OPTIONS "${LATHE_WATCH_FLAGS}")
  endif()
endfunction()
# And of its cuDNN, cuBLAS and NCCL, in builds that have the backend. Their headers, and the driver's, are in these folders.
set(LATHE_LIBRARY_EMULATION_DIRS
  "${CMAKE_CURRENT_LIST_DIR}/cublas" "${CMAKE_CURRENT_LIST_DIR}/cudnn" "${CMAKE_CURRENT_LIST_DIR}/driver"
  "${CMAKE_CURRENT_LIST_DIR}/nccl")
set(LATHE_LIBRARY_EMULATION_SOURCES
  "${CMAKE_CURRENT_LIST_DIR}/cublas_emulation.cpp"
  "${CMAKE_CURRENT_LIST_DIR}/cudnn_emulation.cpp"
  "${CMAKE_CURRENT_LIST_DIR}/cudnn_meaning.cpp"
  "${CMAKE_CURRENT_LIST_DIR}/cudnn_program.cpp"
  "${CMAKE_CURRENT_LIST_DIR}/library_emulation.cpp"
  "${CMAKE_CURRENT_LIST_DIR}/nccl_emulation.cpp")
