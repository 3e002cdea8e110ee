// The git revision of the sources that this command was built from. It is defined in a file that
// every build generates and compiles only if it has changed (cmake/LatheRevision.cmake).
#pragma once

#include <string_view>

namespace lathe::cli {

/// The git revision, "a1b2c3d4e5f6", followed by "-dirty" if files differed from the revision; ""
/// if unknown.
std::string_view revision();

}  // namespace lathe::cli
