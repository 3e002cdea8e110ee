// Constants that a program makes for the size of its batch, a mask for instance. Internal to
// trace.cpp.
#pragma once

#include <cstdint>

#include "lathe/graph/graph.h"

namespace lathe::jit {

/// Makes two traces of one program, for batches of `first` and `second` samples, alike where they
/// differ by such constants:
///   - Nodes that no output needs are removed.
///   - Nodes that read nothing but constants are computed.
///   - A constant of `first` rows in `a` and of `second` rows in `b`, all rows the same, becomes
///     that row and an "expand".
void share_batch_constants(Graph& a, int64_t first, Graph& b, int64_t second);

}  // namespace lathe::jit
