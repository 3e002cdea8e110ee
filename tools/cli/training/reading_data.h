// reading_data(): makes errors of reading data end the command with the exit code kData.
#pragma once

#include <utility>

#include "lathe/core/error.h"
#include "lathe/core/formats/pth.h"
#include "lathe/tools/cli/exit_codes.h"

namespace lathe::cli {

/// Calls `read`, which must read data and write no file.
/// throws: what `read` throws. A FileError becomes CommandError (kData), which has the exit code of
/// a DataError. A SectionError becomes CommandError (kData), too, with a hint at the flag that
/// names a section.
template <class Read>
decltype(auto) reading_data(Read&& read) {
  try {
    return std::forward<Read>(read)();
  } catch (const FileError& e) {
    throw CommandError(ExitCode::kData, e.message());
  } catch (const pth::SectionError& e) {
    throw CommandError(ExitCode::kData, e.message() + "; --weights-section NAME names it");
  }
}

}  // namespace lathe::cli
