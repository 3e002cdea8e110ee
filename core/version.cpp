// The version that CMake compiled in.
#include "lathe/core/version.h"

namespace lathe {

const char* version() { return LATHE_VERSION; }

}  // namespace lathe
