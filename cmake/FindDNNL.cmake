# FindDNNL: oneDNN's header and shared library, target DNNL::dnnl, and DNNL_SONAME, the name by which programs load it.
# Not through oneDNN's own config file, because the one that Debian ships insists on OpenCL's development files, which a
# CPU build does not need. A static library is none: oneDNN is loaded while the program runs.
find_path(DNNL_INCLUDE_DIR dnnl.hpp HINTS ${DNNL_ROOT} $ENV{DNNLROOT} PATH_SUFFIXES include)
find_library(DNNL_LIBRARY NAMES ${CMAKE_SHARED_LIBRARY_PREFIX}dnnl${CMAKE_SHARED_LIBRARY_SUFFIX} HINTS ${DNNL_ROOT} $ENV{DNNLROOT} PATH_SUFFIXES lib lib64)

set(_dnnl_version_header "${DNNL_INCLUDE_DIR}/oneapi/dnnl/dnnl_version.h")
if(DNNL_INCLUDE_DIR AND EXISTS "${_dnnl_version_header}")
  file(STRINGS "${_dnnl_version_header}" _dnnl_version REGEX "define DNNL_VERSION_(MAJOR|MINOR|PATCH) ")
  string(REGEX REPLACE ".*MAJOR ([0-9]+).*MINOR ([0-9]+).*PATCH ([0-9]+).*" "\\1.\\2.\\3" DNNL_VERSION
         "${_dnnl_version}")
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(DNNL REQUIRED_VARS DNNL_LIBRARY DNNL_INCLUDE_DIR VERSION_VAR DNNL_VERSION
                                  HANDLE_VERSION_RANGE)
mark_as_advanced(DNNL_INCLUDE_DIR DNNL_LIBRARY)

# Distributions choose it themselves: libdnnl.so.2 in Debian 12, libdnnl.so.3.6 in Debian 13.
lathe_soname(DNNL_SONAME "${DNNL_LIBRARY}")
if(DNNL_FOUND AND NOT DNNL_SONAME)
  string(REGEX MATCH "^[0-9]+" _dnnl_major "${DNNL_VERSION}")
  set(DNNL_SONAME "libdnnl.so.${_dnnl_major}")
endif()

if(DNNL_FOUND AND NOT TARGET DNNL::dnnl)
  add_library(DNNL::dnnl UNKNOWN IMPORTED)
  set_target_properties(DNNL::dnnl PROPERTIES
    IMPORTED_LOCATION "${DNNL_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES "${DNNL_INCLUDE_DIR}")
endif()
