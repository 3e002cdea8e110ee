// Programs run by the library.
#pragma once

#include "program.h"

namespace lathe::programs {

/// Every line in turn, as written: with views, in-place writes and the engine. The last line's
/// backward pass frees the graph, those before it retain it.
Log run_lathe(const Program& program);

}  // namespace lathe::programs
