// The machine and the build, as `lathe info` prints them and env.json keeps them.
#pragma once

#include <string>

#include "lathe/tools/cli/row.h"

namespace lathe::cli {

/// The processor's name as the system gives it, or its architecture.
std::string cpu_name();
/// Of the machine, in bytes; 0 if the system does not say.
int64_t memory_bytes();

/// lathe, compiler, build, one row per library found at build time, cpu, usable cpus, memory,
/// system.
Row environment_row();

}  // namespace lathe::cli
