// The library's version.
#pragma once

#include "lathe/core/config.h"

namespace lathe {

/// "major.minor.patch" of the linked library. Semantic versioning: before 1.0, a new minor version
/// may break code.
LATHE_API const char* version();

}  // namespace lathe
