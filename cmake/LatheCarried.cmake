# Headers that tools/carry_deps.sh collected stand in for packages that this machine lacks.

# lathe_carried(<package> <target> <folder below .deps/include>): defines the target and <package>_FOUND.
macro(lathe_carried package target folder)
  if(NOT ${package}_FOUND AND EXISTS "${PROJECT_SOURCE_DIR}/.deps/include/${folder}")
    add_library(${target} INTERFACE IMPORTED)
    target_include_directories(${target} SYSTEM INTERFACE "${PROJECT_SOURCE_DIR}/.deps/include${ARGN}")
    set(${package}_FOUND ON)
    list(APPEND LATHE_CARRIED ${package})
  endif()
endmacro()
