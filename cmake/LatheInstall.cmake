# Install rules: the library, its headers under include/lathe/ as they lie in the tree, the command, the CMake package
# and the pkg-config file. Both kinds of package are relocatable.

include(CMakePackageConfigHelpers)

set(_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/lathe")

install(TARGETS lathe EXPORT latheTargets)
install(FILES lathe.h DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/lathe")
set(_kernel_headers  # for our own kernels, emulated or not, and calls of cuDNN
  core/cudnn_descriptor.h
  core/cudnn_graph.h
  core/cudnn_handle.h
  core/cudnn_plan.h
  core/device_fault.h
  core/launch.h
  core/packet.h
  core/pointwise.h
  core/strided_index.h
  ops/batch_norm_layout.h
  ops/block_reduce.h
  ops/class_targets_device.h
  ops/conv2d_cudnn.h
  ops/conv2d_operands.h
  ops/conv2d_portable.h
  ops/gemm_tile.h
  ops/line_kernels.h
  ops/plane_index.h
  ops/reduce_device.h
  ops/reduce_kernels.h
  ops/reduce_plan.h
  optim/array_table.h
  optim/grad_tables.h
)
list(TRANSFORM _kernel_headers REPLACE "(.+)" "PATTERN;\\1;EXCLUDE")
install(DIRECTORY core autograd ops nn optim data DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/lathe"
        FILES_MATCHING PATTERN "*.h" ${_kernel_headers})
if(LATHE_BUILD_CLI)
  file(RELATIVE_PATH _lib_from_bin "/${CMAKE_INSTALL_BINDIR}" "/${CMAKE_INSTALL_LIBDIR}")
  set_target_properties(lathe_cli PROPERTIES INSTALL_RPATH "$ORIGIN/${_lib_from_bin}")
  install(TARGETS lathe_cli)
endif()

install(EXPORT latheTargets NAMESPACE lathe:: DESTINATION "${_package_dir}")
configure_package_config_file(cmake/latheConfig.cmake.in "${PROJECT_BINARY_DIR}/latheConfig.cmake"
                              INSTALL_DESTINATION "${_package_dir}")
# Before 1.0 a new minor version may break code, so a package satisfies its own minor version only.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/latheConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/latheConfig.cmake" "${PROJECT_BINARY_DIR}/latheConfigVersion.cmake"
              cmake/FindDNNL.cmake DESTINATION "${_package_dir}")

# A shared lathe brings its libraries along; a static one leaves them to whoever links it.
set(LATHE_PC_CFLAGS "")
set(LATHE_PC_LIBS "")
if(BUILD_SHARED_LIBS)
  set(LATHE_PC_CFLAGS " -DLATHE_SHARED")
else()
  if(LATHE_HAS_ONEDNN)
    string(APPEND LATHE_PC_LIBS " -ldnnl ${OpenMP_CXX_FLAGS}")
  endif()
  if(LATHE_HAS_ZLIB)
    string(APPEND LATHE_PC_LIBS " -lz")
  endif()
  if(LATHE_HAS_CURL)
    string(APPEND LATHE_PC_LIBS " -lcurl")
  endif()
  string(APPEND LATHE_PC_LIBS " -pthread")
endif()
file(RELATIVE_PATH LATHE_PC_PREFIX "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
string(REGEX REPLACE "/$" "" LATHE_PC_PREFIX "${LATHE_PC_PREFIX}")
configure_file(cmake/lathe.pc.in "${PROJECT_BINARY_DIR}/lathe.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/lathe.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
