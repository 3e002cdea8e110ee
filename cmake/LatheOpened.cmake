# Libraries that are opened when they are first needed (core/shared_library.h), not linked: their headers, and the name that a
# program opens. A static library is none.

# lathe_soname(<variable> <shared library>): the name that programs load it by, such as libcurl.so.4; "" if it is not known.
function(lathe_soname variable library)
  set(soname "")
  if(library AND CMAKE_READELF)
    execute_process(COMMAND "${CMAKE_READELF}" -d "${library}" OUTPUT_VARIABLE dynamic ERROR_QUIET)
    if(dynamic MATCHES "SONAME[^[]*\\[([^]]+)\\]")
      set(soname "${CMAKE_MATCH_1}")
    endif()
  endif()
  set(${variable} "${soname}" PARENT_SCOPE)
endfunction()

# lathe_opened(<feature> <Debian package> <name for pkg-config> <library> <header>) looks for the library as lathe_optional()
# does, and sets LATHE_<feature>_VERSION, _SONAME, _LIBRARY and _INCLUDE_DIR. Only pkg-config knows the version.
function(lathe_opened feature package module library header)
  find_path(LATHE_${feature}_INCLUDE_DIR ${header})
  find_library(LATHE_${feature}_LIBRARY NAMES ${CMAKE_SHARED_LIBRARY_PREFIX}${library}${CMAKE_SHARED_LIBRARY_SUFFIX})
  mark_as_advanced(LATHE_${feature}_INCLUDE_DIR LATHE_${feature}_LIBRARY)
  lathe_soname(soname "${LATHE_${feature}_LIBRARY}")
  set(found OFF)
  set(version "(version unknown)")
  if(LATHE_${feature}_INCLUDE_DIR AND soname)
    set(found ON)
    find_package(PkgConfig QUIET)
    if(PKG_CONFIG_FOUND)
      pkg_check_modules(module QUIET ${module})
      if(module_FOUND)
        set(version "${module_VERSION}")
      endif()
    endif()
  endif()
  lathe_optional(${feature} ${found} "${version}" ${package})
  set(LATHE_HAS_${feature} ${LATHE_HAS_${feature}} PARENT_SCOPE)
  set(LATHE_${feature}_NOTE "${LATHE_${feature}_NOTE}" PARENT_SCOPE)
  set(LATHE_${feature}_VERSION "${version}" PARENT_SCOPE)
  set(LATHE_${feature}_SONAME "${soname}" PARENT_SCOPE)
endfunction()

# lathe_open_from(<source> <soname> <library> <folder of headers>): the source of lathe that opens the library. It sees the
# headers, LATHE_LIBRARY_FILE and LATHE_LIBRARY_FOLDER, which is "" where the system looks by itself.
function(lathe_open_from source soname library headers)
  get_filename_component(folder "${library}" DIRECTORY)
  if(folder IN_LIST CMAKE_CXX_IMPLICIT_LINK_DIRECTORIES)
    set(folder "")
  endif()
  set_source_files_properties("${source}" TARGET_DIRECTORY lathe PROPERTIES
    COMPILE_DEFINITIONS "LATHE_LIBRARY_FILE=\"${soname}\";LATHE_LIBRARY_FOLDER=\"${folder}\"")
  target_include_directories(lathe SYSTEM PRIVATE "${headers}")
endfunction()
