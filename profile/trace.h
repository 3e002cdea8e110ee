// A recording as a trace: the JSON that chrome://tracing and Perfetto (ui.perfetto.dev) open.
//
// Each thread is a row of nested ranges, each GPU a row of its own. Arrows lead from an op to its
// gradient and from a range to its work on the GPU. The bytes in use are drawn as a line.
// ref: "Trace Event Format" of Chrome's catapult project.
#pragma once

#include <string>

#include "lathe/core/config.h"
#include "lathe/core/hooks/record.h"

namespace lathe::profile {

/// Writes `recording` to `path`, which is the old file until the new one is complete. Names show
/// what controls a terminal or the direction of writing as printable() does.
/// throws: FileError.
LATHE_API void write_trace(const Recording& recording, const std::string& path);

/// Like write_trace(), for use while training: an error becomes a warning, and the file stays as it
/// was.
/// → false after an error
LATHE_API bool try_write_trace(const Recording& recording, const std::string& path) noexcept;

}  // namespace lathe::profile
