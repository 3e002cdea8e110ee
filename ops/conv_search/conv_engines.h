// What the convolution search (conv_search.h) needs of a library: a list of engines, and to make
// one of them ready, time it and run it. conv2d_engines_cudnn.cpp implements it over cuDNN, the
// tests over a list of fakes.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lathe/core/config.h"

namespace lathe {

/// One of the library's ways to compute a convolution: an engine and the values of its knobs.
/// Means the same in every process with the same library.
struct ConvEngine {
  int64_t index = 0;
  std::vector<std::pair<int64_t, int64_t>> knobs;  // {type, value}

  auto operator<=>(const ConvEngine&) const = default;
};

/// "7", or "7:2=5,24=10" with knobs.
LATHE_API void append_text(std::string& out, const ConvEngine& engine);
/// throws: DataError for any text that append_text does not write.
LATHE_API ConvEngine parse_conv_engine(std::string_view text);

/// An engine with what the library says of it before it is made ready.
struct ConvCandidate {
  ConvEngine engine;
  int64_t workspace_bytes = 0;
  bool deterministic = true;   // the same bits in every run
  bool tensor_cores = false;   // on f32 this means that products are rounded to TF32
  bool down_converts = false;  // computes in a narrower dtype than the tensors have
  bool narrow_sums = false;    // adds up in a narrower dtype than key.compute
  bool compiles = false;       // is compiled when made ready for the first time: slow

  bool operator==(const ConvCandidate&) const = default;
};

/// One call's convolution: its tensors are bound, its problem is the key it is searched with. Used
/// by the calling thread only.
///
/// prepare, time_ms and execute may throw OutOfMemoryError, then less workspace is tried, or
/// CudaError, then this engine is given up and the next one tried. Before either is thrown the CUDA
/// runtime's error state is cleared (cudaGetLastError), so that the next engine's calls do not
/// report it again. Any other exception, and any from another function, ends the call.
class ConvEngines {
 public:
  virtual ~ConvEngines() = default;

  /// Engines that may be able to compute the problem, the library's best guess first (heuristics A,
  /// then its fall-back). Unfiltered; an engine that is listed twice counts once.
  virtual std::vector<ConvCandidate> candidates() = 0;

  /// Makes the engine ready to run in this thread (finalises its plan; keeps it for execute).
  /// → bytes of workspace that it needs, now for certain
  virtual int64_t prepare(const ConvEngine& engine) = 0;

  /// Runs a prepared engine on the call's inputs, with outputs and workspace of its own, on the
  /// call's stream. Waits for it.   → milliseconds of one run on the device, without what the host
  /// takes to start it
  virtual double time_ms(const ConvEngine& engine) = 0;

  /// Queues the engine on the call's inputs and outputs; prepares it first where this thread has
  /// not. If it throws, the outputs are as before or will be written completely by the next engine.
  virtual void execute(const ConvEngine& engine) = 0;

  /// What could be allocated now for a workspace without taking memory from others: the largest
  /// free block plus what the device has left.
  virtual int64_t available_bytes() = 0;

  /// True while the call's stream is captured into a graph: nothing may be timed.
  virtual bool capturing() = 0;
};

}  // namespace lathe
