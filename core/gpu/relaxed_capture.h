// RelaxedCapture: allows calls of the CUDA runtime that a stream capture would otherwise refuse.
#pragma once

#include "lathe/core/gpu/launch.h"

namespace lathe::cuda {

/// While it lives, a thread whose stream is being captured may ask the driver for memory and wait
/// for other streams.
class RelaxedCapture {
 public:
  RelaxedCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~RelaxedCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

}  // namespace lathe::cuda
