// The config file of several ranks, which each of them reads.
#pragma once

#include <string>

namespace lathe::cli {

/// Refuses a config file that not every process can read: a pipe, which gives its text only once,
/// and /dev/stdin or another name of an open file, because `lathe launch` gives its ranks no stdin.
/// An empty path means that there is no config file.
/// throws: UsageError naming the path.
void check_shared_config(const std::string& path);

}  // namespace lathe::cli
