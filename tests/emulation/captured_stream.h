// What a stream capture forbids and what a graph repeats, without either: work on the stream is
// queued as ever.
#pragma once

#include "cuda_runtime_emulation.h"

namespace lathe::emulation {

/// From now on cudaStreamGetCaptureInfo says that `stream` is being captured, as under
/// cudaStreamCaptureModeGlobal: asking any event is an error, and so are waits and taking or giving
/// back memory, except on threads in relaxed mode. Null ends it.
void pretend_capture(cudaStream_t stream);

/// Queues the kernels that went to the stream of the last pretended capture during it once more,
/// with the arguments that they had, as the launch of a graph would. The memory must still be
/// there.
void replay_capture(cudaStream_t stream);

}  // namespace lathe::emulation
