# Unity builds, for builds from nothing whose time is mostly headers.

# The front end takes 55 s of processor time for all sources of the library together and 390 s one by one. What is in several files
# then meets in one: a name in an unnamed namespace, or of a static function, stands in one source of a target only.
# Such a build does not notice an #include that is missing and that a neighbour has. So one of CI's stages compiles each source alone.
set(LATHE_UNITY OFF CACHE STRING "Compile sources together, 16 at a time: ON, LIBRARY (not those of the command) or OFF")
set_property(CACHE LATHE_UNITY PROPERTY STRINGS ON LIBRARY OFF)

# lathe_unite(target [ALONE source...]): with LATHE_UNITY, compiles the target's C++ sources together. Kernels stay alone: their
# time is in their loops, which a compiler inlines by the size of what surrounds them. So do sources with compile options of
# their own, as CMake sees to, and those in ALONE.
function(lathe_unite target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "ALONE")
  if(NOT LATHE_UNITY MATCHES "^(ON|LIBRARY|OFF)$")
    message(FATAL_ERROR "lathe: LATHE_UNITY is ${LATHE_UNITY}; expected ON, LIBRARY or OFF")
  endif()
  if(NOT LATHE_UNITY OR (LATHE_UNITY STREQUAL "LIBRARY" AND NOT target STREQUAL "lathe"))
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 16)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>)  # takes sources for headers
  endif()
  set(alone ${arg_ALONE})
  get_target_property(sources ${target} SOURCES)
  foreach(source IN LISTS sources)
    string(REPLACE "${PROJECT_SOURCE_DIR}/" "" path "${source}")  # whatever the folders above are called
    if(path MATCHES "kernels/|_cpu\\.cpp|_dnnl\\.cpp|^tests/|\\.cu$")
      list(APPEND alone "${source}")
    endif()
  endforeach()
  set_property(SOURCE ${alone} TARGET_DIRECTORY ${target} PROPERTY SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()
