// What a stream capture forbids, without a capture: work on the stream is queued as ever.
#pragma once

#include "cuda_runtime_emulation.h"

namespace lathe::emulation {

/// From now on cudaStreamGetCaptureInfo says that `stream` is being captured, and asking any event
/// is an error, as under cudaStreamCaptureModeGlobal. Null ends it.
void pretend_capture(cudaStream_t stream);

}  // namespace lathe::emulation
