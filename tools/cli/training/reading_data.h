// How a command ends whose data cannot be read.
#pragma once

#include <utility>

#include "lathe/core/error.h"
#include "lathe/tools/cli/exit_codes.h"

namespace lathe::cli {

/// Calls `read`, which reads data and writes no file: a FileError of it is one of the data,
/// CommandError (kData), as a DataError is.
template <class Read>
decltype(auto) reading_data(Read&& read) {
  try {
    return std::forward<Read>(read)();
  } catch (const FileError& e) {
    throw CommandError(ExitCode::kData, e.message());
  }
}

}  // namespace lathe::cli
