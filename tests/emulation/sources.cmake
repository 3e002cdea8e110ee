# What the emulated GPU is made of, beside the kernels.
set(LATHE_EMULATION_SOURCES
  "${CMAKE_CURRENT_LIST_DIR}/cuda_emulation.cpp"
  "${CMAKE_CURRENT_LIST_DIR}/cuda_runtime_device.cpp"
  "${CMAKE_CURRENT_LIST_DIR}/cuda_runtime_graph.cpp"
  "${CMAKE_CURRENT_LIST_DIR}/cuda_runtime_machine.cpp"
  "${CMAKE_CURRENT_LIST_DIR}/cuda_runtime_memory.cpp"
  "${CMAKE_CURRENT_LIST_DIR}/cuda_runtime_stream.cpp"
  "${CMAKE_CURRENT_LIST_DIR}/device_arena.cpp"
  "${CMAKE_CURRENT_LIST_DIR}/device_ranges.cpp"
  "${CMAKE_CURRENT_LIST_DIR}/driver_emulation.cpp")
# And of its cuDNN and cuBLAS, in builds that have the backend. Their headers, and the driver's, are in these folders.
set(LATHE_LIBRARY_EMULATION_DIRS
  "${CMAKE_CURRENT_LIST_DIR}/cublas" "${CMAKE_CURRENT_LIST_DIR}/cudnn" "${CMAKE_CURRENT_LIST_DIR}/driver")
set(LATHE_LIBRARY_EMULATION_SOURCES
  "${CMAKE_CURRENT_LIST_DIR}/cublas_emulation.cpp"
  "${CMAKE_CURRENT_LIST_DIR}/cudnn_emulation.cpp"
  "${CMAKE_CURRENT_LIST_DIR}/cudnn_meaning.cpp"
  "${CMAKE_CURRENT_LIST_DIR}/cudnn_program.cpp"
  "${CMAKE_CURRENT_LIST_DIR}/library_emulation.cpp")
