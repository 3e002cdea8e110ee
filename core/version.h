// The library's version.
#pragma once

#include "lathe/core/config.h"

namespace lathe {

/// "major.minor.patch" of the linked library (semantic versioning: before 1.0, a new minor may
/// break code).
LATHE_API const char* version();

}  // namespace lathe
