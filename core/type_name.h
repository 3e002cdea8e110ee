// The name of a class as users know it.
#pragma once

#include <string>
#include <typeinfo>

#include "lathe/core/config.h"

namespace lathe {

/// The class without its namespaces: "Conv2d".
LATHE_API std::string type_name(const std::type_info& type);

}  // namespace lathe
