// The name of a kernel that only its address is known of, for messages.
#pragma once

#include <string>

namespace lathe::emulation {

/// From the symbols of the program or library that holds it; "a kernel" where they were stripped.
std::string kernel_name(void (*address)());

}  // namespace lathe::emulation
