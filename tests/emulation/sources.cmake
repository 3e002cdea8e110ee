# What the emulated GPU is made of, beside the kernels.
set(LATHE_EMULATION_SOURCES
  "${CMAKE_CURRENT_LIST_DIR}/cuda_emulation.cpp"
  "${CMAKE_CURRENT_LIST_DIR}/cuda_runtime_emulation.cpp"
  "${CMAKE_CURRENT_LIST_DIR}/device_arena.cpp")
