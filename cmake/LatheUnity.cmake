# Unity builds, for builds from nothing whose time is mostly headers.

# The front end takes 55 s of processor time for all sources of the library together and 390 s one by one. What is in several files
# then meets in one: a name in an unnamed namespace, or of a static function, stands in one source of a target only.
# Such a build does not notice an #include that is missing and that a neighbour has. So one of CI's stages compiles each source alone.
set(_unity OFF)
if(NOT PROJECT_IS_TOP_LEVEL)
  set(_unity ON)
endif()
set(LATHE_UNITY ${_unity} CACHE STRING "Compile sources together, 16 at a time: ON, LIBRARY (not those of the command), ALL (kernels, too) or OFF. ON inside another project")
set_property(CACHE LATHE_UNITY PROPERTY STRINGS ON LIBRARY ALL OFF)

# lathe_unite_by_options(target source...): of these, compiles those together that have compile options of their own, the
# same ones, 16 at a time.
function(lathe_unite_by_options target)
  set(keys)
  foreach(source IN LISTS ARGN)
    get_source_file_property(options "${source}" TARGET_DIRECTORY ${target} COMPILE_OPTIONS)
    get_source_file_property(definitions "${source}" TARGET_DIRECTORY ${target} COMPILE_DEFINITIONS)
    if(options AND NOT definitions AND source MATCHES "\\.cpp$")
      string(MD5 key "${options}")
      list(APPEND keys ${key})
      list(APPEND with_${key} "${source}")
      set(options_${key} "${options}")
    endif()
  endforeach()
  list(REMOVE_DUPLICATES keys)
  set(batch 0)
  foreach(key IN LISTS keys)
    list(LENGTH with_${key} left)
    while(left GREATER 1)
      list(SUBLIST with_${key} 0 16 together)
      list(REMOVE_ITEM with_${key} ${together})
      list(LENGTH with_${key} left)
      set(text "")
      foreach(source IN LISTS together)  # not by the clone's path, so that ccache finds another clone's
        string(REPLACE "${PROJECT_SOURCE_DIR}/" "lathe/" path "${source}")
        string(APPEND text "#include \"${path}\"\n")
      endforeach()
      set(united "${PROJECT_BINARY_DIR}/unity/${target}_${batch}.cpp")
      math(EXPR batch "${batch} + 1")
      file(CONFIGURE OUTPUT "${united}" CONTENT "${text}" @ONLY)
      target_sources(${target} PRIVATE "${united}")
      set_property(SOURCE "${united}" TARGET_DIRECTORY ${target} PROPERTY COMPILE_OPTIONS "${options_${key}}")
      set_property(SOURCE ${together} TARGET_DIRECTORY ${target} PROPERTY HEADER_FILE_ONLY ON)
    endwhile()
  endforeach()
endfunction()

# lathe_unite(target [ALONE source...]): with LATHE_UNITY, compiles the target's C++ sources together. Kernels stay alone: their
# time is in their loops, which a compiler inlines by the size of what surrounds them. So do sources with definitions of
# their own, as CMake sees to, and those in ALONE. CMake leaves sources with compile options alone, too: lathe_unite_by_options
# puts those of equal options together, above all the parsers, which have no precompiled headers either.
function(lathe_unite target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "ALONE")
  if(NOT LATHE_UNITY MATCHES "^(ON|LIBRARY|ALL|OFF)$")
    message(FATAL_ERROR "lathe: LATHE_UNITY is ${LATHE_UNITY}; expected ON, LIBRARY, ALL or OFF")
  endif()
  if(NOT LATHE_UNITY OR (LATHE_UNITY STREQUAL "LIBRARY" AND NOT target STREQUAL "lathe"))
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 16)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>)  # takes sources for headers
  endif()
  set(alone ${arg_ALONE})
  set(kernels)
  get_target_property(sources ${target} SOURCES)
  foreach(source IN LISTS sources)
    string(REPLACE "${PROJECT_SOURCE_DIR}/" "" path "${source}")  # whatever the folders above are called
    if(path MATCHES "^tests/|\\.cu$")
      list(APPEND alone "${source}")
    elseif(path MATCHES "kernels/|_cpu\\.cpp|_dnnl\\.cpp")
      list(APPEND kernels "${source}")
    endif()
  endforeach()
  list(REMOVE_ITEM sources ${alone} ${kernels})
  if(NOT LATHE_UNITY STREQUAL "ALL")
    list(APPEND alone ${kernels})
  endif()
  set_property(SOURCE ${alone} TARGET_DIRECTORY ${target} PROPERTY SKIP_UNITY_BUILD_INCLUSION ON)
  lathe_unite_by_options(${target} ${sources})
endfunction()
