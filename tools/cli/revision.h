// The git revision of the sources that this command was built from. Defined in a file that every
// build looks at anew and compiles only when it has changed (cmake/LatheRevision.cmake).
#pragma once

#include <string_view>

namespace lathe::cli {

/// "a1b2c3d4e5f6", with "-dirty" behind it if files differed from it; "" where it is not known.
std::string_view revision();

}  // namespace lathe::cli
