# Precompiled headers, for builds whose time is mostly headers.

# A missing #include goes unnoticed with them: tests/check_precompiled.py finds it.
option(LATHE_PCH "Precompile what most sources of the library and the command include" OFF)

# ccache alone could hand out a precompiled header that another checkout made, and that names the headers there.
# tools/ccache.sh sees to it.
set(LATHE_PRECOMPILES ON)
if(CMAKE_CXX_COMPILER_LAUNCHER MATCHES "ccache" AND NOT CMAKE_CXX_COMPILER_LAUNCHER MATCHES "tools/ccache\\.sh$")
  set(LATHE_PRECOMPILES OFF)
endif()
# CMake also names the header's source with its whole path, for other tools. It is in the precompiled header, and ccache would
# take the path for a difference between two checkouts.
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  set(CMAKE_CXX_COMPILE_OPTIONS_USE_PCH -Xclang -include-pch -Xclang <PCH_FILE>)
endif()

# With g++ 12, headers of the standard library that come precompiled are no system headers any more: it warns of them,
# wrongly (of std::string's operator+). Targets with precompiled headers do without those warnings.
set(LATHE_PRECOMPILED_FLAGS)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(LATHE_PRECOMPILED_FLAGS -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread)
endif()

# What most sources include, apart from Lathe's own.
set(LATHE_COMMON_HEADERS <algorithm> <cmath> <functional> <map> <memory> <optional> <string> <string_view> <utility> <vector>)

# lathe_precompile(target header...): with LATHE_PCH, precompiled headers for the target's C++ sources. Those with compile
# options of their own do without, since a precompiled header serves one set of options, and so do CUDA kernels, whose time
# is their templates.
function(lathe_precompile target)
  if(NOT LATHE_PCH OR NOT LATHE_PRECOMPILES)
    return()
  endif()
  target_precompile_headers(${target} PRIVATE ${ARGN})
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${LATHE_PRECOMPILED_FLAGS}>")
  get_target_property(sources ${target} SOURCES)
  foreach(source IN LISTS sources)
    get_source_file_property(options "${source}" TARGET_DIRECTORY ${target} COMPILE_OPTIONS)
    if(options OR source MATCHES "\\.cu$")
      set_property(SOURCE "${source}" TARGET_DIRECTORY ${target} PROPERTY SKIP_PRECOMPILE_HEADERS ON)
    endif()
  endforeach()
endfunction()
