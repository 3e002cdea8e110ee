# What the emulated GPU is made of, beside the kernels.
set(LATHE_EMULATION_SOURCES
  "${CMAKE_CURRENT_LIST_DIR}/cuda_emulation.cpp"
  "${CMAKE_CURRENT_LIST_DIR}/cuda_runtime_emulation.cpp"
  "${CMAKE_CURRENT_LIST_DIR}/device_arena.cpp")
# And of its cuDNN, in builds that have the backend. <cudnn.h> is the one in LATHE_CUDNN_EMULATION_DIR.
set(LATHE_CUDNN_EMULATION_DIR "${CMAKE_CURRENT_LIST_DIR}/cudnn")
set(LATHE_CUDNN_EMULATION_SOURCES
  "${CMAKE_CURRENT_LIST_DIR}/cudnn_emulation.cpp"
  "${CMAKE_CURRENT_LIST_DIR}/cudnn_meaning.cpp"
  "${CMAKE_CURRENT_LIST_DIR}/cudnn_program.cpp")
