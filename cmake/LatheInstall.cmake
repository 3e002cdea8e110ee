# Install rules: the library, its headers under include/lathe/ as they lie in the tree, the command, the CMake package
# and the pkg-config file. Both kinds of package are relocatable.

include(CMakePackageConfigHelpers)

set(_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/lathe")

# Binaries are built with the search path that they are installed with. To change it then, CMake adds colons to that of
# the build, and an empty entry has the current folder searched for libraries.
# Libraries outside the system's folders are found again after the install.
set(_search_path "")
set_target_properties(lathe PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON BUILD_WITH_INSTALL_RPATH ON)
install(TARGETS lathe EXPORT latheTargets)
install(FILES lathe.h lathe_c.h train.h DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/lathe")
install(FILES c/lathe.f90 DESTINATION share/lathe)  # compilers of Fortran do not read each other's modules
set(_private_headers ${LATHE_KERNEL_HEADERS} ${LATHE_CUDA_LIBRARY_HEADERS})
list(APPEND _private_headers graph/onnx/onnx_export.h graph/onnx/onnx_file.h graph/onnx/onnx_import.h graph/onnx/onnx_proto.h
     graph/module_tree.h graph/op_arguments.h graph/op_table.h graph/pt2/pt2_call.h graph/pt2/pt2_calls.h graph/pt2/pt2_file.h graph/pt2/pt2_head.h graph/pt2/pt2_fuse.h
     graph/pt2/pt2_inline.h graph/pt2/pt2_json.h graph/pt2/pt2_layers.h graph/pt2/pt2_memory.h graph/pt2/pt2_schema.h
     graph/pt2/pt2_steps.h graph/pt2/pt2_write.h graph/tracer.h nn/lora_adapter.h)
# Of these, some name libraries that a user of Lathe needs not have.
list(APPEND _private_headers core/json.h core/json_members.h core/text/count_text.h core/text/formatted.h ops/conv/cudnn/conv2d_fuse_or_split_cudnn.h ops/conv/cudnn/conv2d_patterns_cudnn.h
     ops/conv/cpu/conv2d_primitive_dnnl.h ops/matmul_kernels/gemm_kernel_eigen.h
     ops/onednn/onednn.h ops/onednn/onednn_table.h)
list(APPEND _private_headers distributed/backend.h distributed/buckets.h distributed/control.h
     distributed/control_client.h distributed/control_server.h distributed/device_answers.h distributed/device_backend.h distributed/device_calls.h
     distributed/group_state.h distributed/hex.h distributed/reducer.h
     distributed/socket.h distributed/tensor_list.h train/step_impl.h train/trainer_impl.h)
if(LATHE_HAS_CUDA_LIBRARIES)
  list(REMOVE_ITEM _private_headers core/gpu/launch.h)  # programs start kernels of their own through it, too
endif()
list(TRANSFORM _private_headers REPLACE "(.+)" "PATTERN;\\1;EXCLUDE")
install(DIRECTORY core profile autograd ops nn graph optim data distributed train bridge DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/lathe"
        FILES_MATCHING PATTERN "*.h" PATTERN ".*" EXCLUDE ${_private_headers})  # ".*": an editor's
# What was measured on GPUs (docs/conv-search.md) lies beside the programs of the build and of the installation.
set(_measured "${PROJECT_SOURCE_DIR}/ops/conv/search/measured/")
file(COPY "${_measured}" DESTINATION "${PROJECT_BINARY_DIR}/share/lathe/algos" FILES_MATCHING PATTERN "*.json")
install(DIRECTORY "${_measured}" DESTINATION share/lathe/algos FILES_MATCHING PATTERN "*.json")
if(LATHE_BUILD_CLI)
  if(BUILD_SHARED_LIBS)  # so the build folder is laid out as the installed one
    file(RELATIVE_PATH _lib_from_bin "/${CMAKE_INSTALL_BINDIR}" "/${CMAKE_INSTALL_LIBDIR}")
    set(_search_path "$ORIGIN/${_lib_from_bin}")
    set_target_properties(lathe PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/${CMAKE_INSTALL_LIBDIR}")
    set_target_properties(lathe_cli PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/${CMAKE_INSTALL_BINDIR}")
  endif()
  set_target_properties(lathe_cli PROPERTIES
    INSTALL_RPATH "${_search_path}" INSTALL_RPATH_USE_LINK_PATH ON BUILD_WITH_INSTALL_RPATH ON)
  install(TARGETS lathe_cli)
  install(TARGETS lathe_trainer EXPORT latheTargets)
  install(FILES trainer.h DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/lathe")
endif()

install(EXPORT latheTargets NAMESPACE lathe:: DESTINATION "${_package_dir}")
configure_package_config_file(cmake/latheConfig.cmake.in "${PROJECT_BINARY_DIR}/latheConfig.cmake"
                              INSTALL_DESTINATION "${_package_dir}")
# Before 1.0 a new minor version may break code, so a package satisfies its own minor version only.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/latheConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/latheConfig.cmake" "${PROJECT_BINARY_DIR}/latheConfigVersion.cmake"
              cmake/LatheKernels.cmake DESTINATION "${_package_dir}")

# A shared lathe brings its libraries along; a static one leaves them to whoever links it.
set(LATHE_PC_CFLAGS "")
set(LATHE_PC_LIBS "")
if(LATHE_HAS_CUDA)
  string(APPEND LATHE_PC_CFLAGS " -DLATHE_WITH_CUDA")
endif()
if(LATHE_CUDA STREQUAL "EMULATE")
  string(APPEND LATHE_PC_CFLAGS " -DLATHE_CUDA_EMULATED")
endif()
if(BUILD_SHARED_LIBS)
  string(APPEND LATHE_PC_CFLAGS " -DLATHE_SHARED")
else()
  if(LATHE_HAS_GC_SECTIONS)
    string(APPEND LATHE_PC_LIBS " -Wl,--gc-sections")
  endif()
  if(LATHE_HAS_CUDA_LIBRARIES)
    string(APPEND LATHE_PC_LIBS " -L\${cuda_libdir} -lcudart_static -lrt -ldl")
  endif()
  if(LATHE_HAS_ZLIB)
    string(APPEND LATHE_PC_LIBS " -lz")
  endif()
  if(LATHE_HAS_DISTRIBUTED)
    string(APPEND LATHE_PC_LIBS " -Wl,--push-state,--as-needed -lgloo -Wl,--pop-state")
  endif()
  string(APPEND LATHE_PC_LIBS " -ldl -pthread")
endif()
file(RELATIVE_PATH LATHE_PC_PREFIX "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
string(REGEX REPLACE "/$" "" LATHE_PC_PREFIX "${LATHE_PC_PREFIX}")
set(_opened "")  # by which names libraries are opened at their first use, for who packages Lathe
if(LATHE_HAS_ONEDNN)
  list(APPEND _opened "${DNNL_SONAME}")
endif()
foreach(feature IN ITEMS CURL JPEG PNG WEBP)
  if(LATHE_HAS_${feature})
    list(APPEND _opened "${LATHE_${feature}_SONAME}")
  endif()
endforeach()
list(JOIN _opened " " _opened)
set(LATHE_PC_VARIABLES "opened=${_opened}\n")
if(LATHE_HAS_CUDA_LIBRARIES)
  string(APPEND LATHE_PC_VARIABLES "cuda_libdir=${CUDAToolkit_LIBRARY_DIR}\n")
endif()
configure_file(cmake/lathe.pc.in "${PROJECT_BINARY_DIR}/lathe.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/lathe.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
