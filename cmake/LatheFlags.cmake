# Compiler flags of our own targets. Nothing here reaches a user's target.

include(CheckCXXCompilerFlag)
include(CheckLinkerFlag)

check_linker_flag(CXX "LINKER:--as-needed" LATHE_HAS_AS_NEEDED)
check_linker_flag(CXX "LINKER:--gc-sections" LATHE_HAS_GC_SECTIONS)

if(NOT LATHE_MARCH STREQUAL "" AND CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
  check_cxx_compiler_flag("-march=${LATHE_MARCH}" LATHE_HAS_MARCH)
  if(NOT LATHE_HAS_MARCH)
    message(FATAL_ERROR "lathe: the compiler does not know -march=${LATHE_MARCH}; set LATHE_MARCH")
  endif()
endif()

# lathe_require_files(path...): an error for a path below the source folder that leads nowhere. A property of a file that
# was moved would otherwise be lost without a word.
function(lathe_require_files)
  foreach(path IN LISTS ARGN)
    if(NOT EXISTS "${PROJECT_SOURCE_DIR}/${path}")
      message(FATAL_ERROR "lathe: a list in cmake/ names ${path}, which does not exist")
    endif()
  endforeach()
endfunction()

# lathe_count_for_fuzzing(target regex): in a build for libFuzzer, counters in the target's sources whose paths match, for
# it to see which input reaches new code. Only parsers get them, since they slow other loops down.
function(lathe_count_for_fuzzing target regex)
  if(NOT LATHE_FUZZ)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "${regex}")
  set_property(SOURCE ${sources} TARGET_DIRECTORY ${target} APPEND PROPERTY COMPILE_OPTIONS -fsanitize=fuzzer-no-link)
endfunction()

# lathe_avx512(file.cpp... [OPTIONS flag...]): adds sources of the calling folder that are compiled for AVX-512, level 4 of the
# x86-64 psABI, and called on processors that have it. Other architectures leave them out.
function(lathe_avx512)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "" "OPTIONS")
  if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
    return()
  endif()
  target_sources(lathe PRIVATE ${arg_UNPARSED_ARGUMENTS})
  # GCC 12 takes the "any value" of its own AVX-512 functions for a mistake (bug 105593).
  set_source_files_properties(${arg_UNPARSED_ARGUMENTS} TARGET_DIRECTORY lathe PROPERTIES COMPILE_OPTIONS
    "-march=x86-64-v4;${arg_OPTIONS};$<$<CXX_COMPILER_ID:GNU>:-Wno-uninitialized;-Wno-maybe-uninitialized>")
endfunction()

# A project that holds Lathe and sets no build type would get it unoptimised, ten times slower, without a word.
set(LATHE_OPTIMISE OFF)
if(NOT PROJECT_IS_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES AND NOT CMAKE_CXX_FLAGS MATCHES "(^| )-O")
  set(LATHE_OPTIMISE ON)
  message(STATUS "lathe: CMAKE_BUILD_TYPE is not set; Lathe itself is compiled with -O3, your own targets as you say")
endif()

# Error messages name ops/conv2d.cpp and not the machine's directories. tools/build.sh lets ccache call the compiler with paths
# relative to the build folder, so that another clone finds the same objects in the cache.
cmake_path(RELATIVE_PATH PROJECT_SOURCE_DIR BASE_DIRECTORY "${CMAKE_BINARY_DIR}" OUTPUT_VARIABLE source_from_build)
file(RELATIVE_PATH include_from_build "${CMAKE_BINARY_DIR}" "${PROJECT_BINARY_DIR}/include")
set(LATHE_RELATIVE_PATH_MAPS "-fmacro-prefix-map=${source_from_build}/=" "-fmacro-prefix-map=${include_from_build}/lathe/=")
set(LATHE_PATH_MAPS "-fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=" "-fmacro-prefix-map=${PROJECT_BINARY_DIR}/include/lathe/="
                    ${LATHE_RELATIVE_PATH_MAPS})

# lathe_target_flags(target [COLD]): flags for the library, the command and the tests alike.
#   -ffp-contract=off   a*b+c rounds twice on the host, as our CUDA code does, so that both sides agree to the bit.
# COLD is code that runs briefly: -O1 in a release build, a quarter less to compile than -O3. Sanitizers triple its compile
# time when it is optimised, so there it is not.
function(lathe_target_flags target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "COLD" "" "")
  set_target_properties(${target} PROPERTIES
    CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  # Options structs are written {.stride = 2}: what is not named keeps its default, on purpose.
  set(flags -Wall -Wextra -Wpedantic -Wshadow -Wno-missing-field-initializers -ffp-contract=off
      ${LATHE_PATH_MAPS})
  if(LATHE_HAS_MARCH)
    list(APPEND flags "-march=${LATHE_MARCH}")
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    list(APPEND flags -Wno-restrict)  # wrong about std::string (GCC bug 105651)
  endif()
  if(LATHE_WERROR)
    list(APPEND flags -Werror)
  endif()
  if(LATHE_HAS_GC_SECTIONS AND NOT LATHE_SANITIZE)  # so that a program carries only the functions that it can reach
    list(APPEND flags -ffunction-sections -fdata-sections)
  endif()
  if(LATHE_OPTIMISE)
    list(APPEND flags -O3 -DNDEBUG)
  endif()
  if(arg_COLD)
    list(APPEND flags "$<$<CONFIG:Release>:-O1>")
  endif()
  if(LATHE_SANITIZE)
    list(APPEND flags "-fsanitize=${LATHE_SANITIZE}" -fno-sanitize-recover=all -fno-omit-frame-pointer)
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      list(APPEND flags -Wno-maybe-uninitialized)  # GCC warns wrongly about instrumented code
    endif()
    if(arg_COLD)
      list(APPEND flags -O0)
    endif()
    target_link_options(${target} PRIVATE "-fsanitize=${LATHE_SANITIZE}")
  endif()
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${flags}>")
  if(LATHE_OPTIMISE)
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:-O3;-DNDEBUG>")
  endif()
  if(LATHE_HAS_AS_NEEDED)  # a program that calls nothing of a library does not load it
    target_link_options(${target} PRIVATE "LINKER:--as-needed")
  endif()
endfunction()
