# cmake -DSOURCE=<source root> -DOUTPUT=<file> [-DGIT=<git>] -P LatheRevision.cmake
# Writes a C++ source with the git revision of the sources, "" where there is no git or the root is not that of a
# repository (an unpacked archive, even inside somebody's repository). Leaves the file alone if it would not change.
set(revision "")
if(GIT)
  execute_process(COMMAND "${GIT}" rev-parse --show-toplevel WORKING_DIRECTORY "${SOURCE}"
                  OUTPUT_VARIABLE top OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  file(REAL_PATH "${SOURCE}" source)
  if(top)
    file(REAL_PATH "${top}" top)
  endif()
  if(top STREQUAL source)
    execute_process(COMMAND "${GIT}" --no-optional-locks describe --always --dirty --abbrev=12 --exclude=*
                    WORKING_DIRECTORY "${SOURCE}"
                    OUTPUT_VARIABLE revision OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  endif()
endif()
file(CONFIGURE OUTPUT "${OUTPUT}" CONTENT [[
// Made by cmake/LatheRevision.cmake.
#include "lathe/tools/cli/revision.h"

namespace lathe::cli {

std::string_view revision() { return "@revision@"; }

}  // namespace lathe::cli
]] @ONLY)
