# Finds what lathe is built from. A missing required package stops with one line naming the Debian package; a missing
# optional one turns its feature off, and LATHE_<feature>_NOTE tells the summary why.

# lathe_require(<what is missing> <debian package>): the one line.
function(lathe_require what package)
  message(FATAL_ERROR "lathe: ${what} not found; install it with: apt-get install ${package}")
endfunction()

# lathe_optional(<feature> <found> <version> <debian package> [<problem>]) sets LATHE_HAS_<feature> and
# LATHE_<feature>_NOTE from the option LATHE_<feature> (AUTO, ON, OFF) and from what was found. <problem> says why
# what is there will not do; without it, it is not there.
function(lathe_optional feature found version package)
  set(has OFF)
  set(problem "not found")
  if(ARGC GREATER 4)
    set(problem "${ARGV4}")
  endif()
  if("${LATHE_${feature}}" STREQUAL "AUTO" OR LATHE_${feature})
    if(found)
      set(has ON)
      set(note "found ${version}")
    elseif("${LATHE_${feature}}" STREQUAL "AUTO")
      set(note "${problem} (apt-get install ${package})")
    else()
      message(FATAL_ERROR "lathe: LATHE_${feature}=ON but it was ${problem}; install it with: apt-get install ${package}")
    endif()
  else()
    set(note "LATHE_${feature}=OFF")
  endif()
  set(LATHE_HAS_${feature} ${has} PARENT_SCOPE)
  set(LATHE_${feature}_NOTE "${note}" PARENT_SCOPE)
endfunction()

include(LatheCarried)
include(LatheOpened)

# --- required --------------------------------------------------------------------------------------------------
find_package(Threads REQUIRED)
find_package(Eigen3 3.4 QUIET NO_MODULE)
lathe_carried(Eigen3 Eigen3::Eigen eigen3 /eigen3)
if(NOT Eigen3_FOUND)
  lathe_require("Eigen 3.4" libeigen3-dev)
endif()
find_package(fmt QUIET)
lathe_carried(fmt fmt::fmt-header-only fmt)
if("fmt" IN_LIST LATHE_CARRIED)
  target_compile_definitions(fmt::fmt-header-only INTERFACE FMT_HEADER_ONLY=1)
endif()
if(NOT fmt_FOUND)
  lathe_require("fmt" libfmt-dev)
endif()
find_package(nlohmann_json 3.10 QUIET)
lathe_carried(nlohmann_json nlohmann_json::nlohmann_json nlohmann)
if(NOT nlohmann_json_FOUND)
  lathe_require("nlohmann-json 3.10" nlohmann-json3-dev)
endif()
if(LATHE_BUILD_TESTS)
  find_package(doctest 2.4 QUIET)
  lathe_carried(doctest doctest::doctest doctest)
  if(NOT doctest_FOUND)
    lathe_require("doctest, needed by the tests (LATHE_BUILD_TESTS)," doctest-dev)
  endif()
  find_package(Python3 QUIET COMPONENTS Interpreter)
  if(NOT Python3_FOUND)
    lathe_require("Python 3, needed by the tests (LATHE_BUILD_TESTS)," python3)
  endif()
endif()

# --- optional --------------------------------------------------------------------------------------------------
# Only oneDNN's header is needed here: it is loaded, and the OpenMP that it computes with, when the first operation needs
# it (ops/onednn/onednn_table.h). A version 4 would change the interface that ops/onednn/onednn.h evens out between 2 and 3.
find_package(DNNL 2.6...<4 QUIET)
if(DNNL_FOUND)
  set(_onednn "${DNNL_VERSION}")
  if(DNNL_VERSION VERSION_GREATER_EQUAL 3 AND CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
    string(APPEND _onednn ", which has no Winograd convolution")
  endif()
  lathe_optional(ONEDNN TRUE "${_onednn}" libdnnl-dev)
elseif(DNNL_VERSION)
  lathe_optional(ONEDNN FALSE "" libdnnl-dev "found in version ${DNNL_VERSION}, not 2.6 or later and below 4")
else()
  lathe_optional(ONEDNN FALSE "" libdnnl-dev)
endif()
find_package(ZLIB QUIET)
lathe_optional(ZLIB "${ZLIB_FOUND}" "${ZLIB_VERSION_STRING}" zlib1g-dev)
lathe_opened(CURL libcurl4-openssl-dev libcurl curl curl/curl.h)
lathe_opened(JPEG libjpeg-dev libjpeg jpeg jpeglib.h)
lathe_opened(PNG libpng-dev libpng png16 png.h)
lathe_opened(WEBP libwebp-dev libwebp webp webp/decode.h)
find_package(Gloo QUIET CONFIG)
lathe_optional(DISTRIBUTED "${Gloo_FOUND}" "Gloo ${Gloo_VERSION}" libgloo-dev)

# The bridge to OpenCV is a header; its test and its example need OpenCV's core module. (OpenCV's own package file finds nothing
# without all other modules.)
find_path(LATHE_OPENCV_INCLUDE_DIR opencv2/core.hpp PATH_SUFFIXES opencv4)
find_library(LATHE_OPENCV_LIBRARY opencv_core)
mark_as_advanced(LATHE_OPENCV_INCLUDE_DIR LATHE_OPENCV_LIBRARY)
if(LATHE_OPENCV_INCLUDE_DIR AND LATHE_OPENCV_LIBRARY)
  add_library(lathe_opencv INTERFACE)
  target_include_directories(lathe_opencv SYSTEM INTERFACE "${LATHE_OPENCV_INCLUDE_DIR}")
  target_link_libraries(lathe_opencv INTERFACE "${LATHE_OPENCV_LIBRARY}")
endif()

include(LatheCuda)

# Header-only packages stay private to the build: whoever installs lathe needs none of them. The others are shared
# libraries that a static liblathe.a asks its user to link (cmake/latheConfig.cmake.in, cmake/lathe.pc.in).
function(lathe_link_dependencies target)
  target_link_libraries(${target} PRIVATE
    "$<BUILD_INTERFACE:Eigen3::Eigen>" "$<BUILD_INTERFACE:nlohmann_json::nlohmann_json>"
    Threads::Threads ${CMAKE_DL_LIBS})
  # Of {fmt} the headers are enough: core/text/formatted.cpp compiles its code.
  target_include_directories(${target} SYSTEM PRIVATE
    $<TARGET_PROPERTY:fmt::fmt-header-only,INTERFACE_INCLUDE_DIRECTORIES>)
  target_compile_definitions(${target} PRIVATE EIGEN_MPL2_ONLY)
  if(LATHE_HAS_ONEDNN)
    target_compile_definitions(${target} PRIVATE LATHE_WITH_ONEDNN)
  endif()
  if(LATHE_HAS_ZLIB)
    target_link_libraries(${target} PRIVATE ZLIB::ZLIB)
  endif()
  if(LATHE_HAS_DISTRIBUTED)
    # A static library's user that starts no process group does not need Gloo: its objects are then not taken (CMakeLists.txt).
    target_link_libraries(${target} PRIVATE "-Wl,--push-state,--as-needed" gloo "-Wl,--pop-state")
  endif()
endfunction()
