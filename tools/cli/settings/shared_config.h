// The config file of several ranks: each of them reads it by itself.
#pragma once

#include <string>

namespace lathe::cli {

/// Refuses a config file that is not the same for each process that reads it: a pipe, which gives
/// its text once, and /dev/stdin or another name of an open file, because `lathe launch` gives its
/// ranks no stdin. Empty means that there is no config file.
/// throws: UsageError naming the path.
void check_shared_config(const std::string& path);

}  // namespace lathe::cli
