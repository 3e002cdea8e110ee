// What the convolution search (conv_search.h) needs from a library: a list of engines, and how to
// make one of them ready, time it and run it. conv2d_engines_cudnn.cpp implements it over cuDNN,
// the tests over a list of fakes.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lathe/core/config.h"

namespace lathe {

/// One of the library's engines in one setting. It means the same in every process with the same
/// library.
struct ConvEngine {
  int64_t index = 0;
  std::vector<std::pair<int64_t, int64_t>> setting;  // of its knobs: {knob, value}

  auto operator<=>(const ConvEngine&) const = default;
};

/// The index of the split engine: of a fused key, the same by several kernels.
inline constexpr int64_t kSplitEngine = -1;

/// "7", or "7:2=5,24=10" with its setting.
LATHE_API void append_text(std::string& out, const ConvEngine& engine);
/// throws: DataError for any text that append_text does not write.
LATHE_API ConvEngine parse_conv_engine(std::string_view text);

/// Where the library's suggestions come from; the names are cuDNN's.
enum class ConvHeuristic : uint8_t {
  kA,         // quickly asked
  kB,         // knows more, and takes ten times as long
  kFallback,  // slow engines that take nearly every problem
};

/// An engine, with what the library says about it before it is made ready.
struct ConvEngineInfo {
  ConvEngine engine;
  int64_t workspace_bytes = 0;
  bool deterministic = true;   // the same bits in every run
  bool tensor_cores = false;   // on f32 this means that products are rounded to TF32
  bool down_converts = false;  // computes in a narrower dtype than the tensors have
  bool narrow_sums = false;    // adds up in a narrower dtype than key.compute
  bool compiles = false;       // is compiled when first made ready: slow

  bool operator==(const ConvEngineInfo&) const = default;
};

/// What a measurement found.
struct ConvTime {
  double ms = 0;  // of one run, the mean
  int runs = 0;   // how many there were; 0: ms is an earlier measurement's
};

/// One call's convolution: its tensors are bound, and its problem is the key that is searched for.
/// Used by the calling thread only.
///
/// prepare, time and execute may throw OutOfMemoryError, upon which the search tries less
/// workspace, or CudaError, upon which it gives this engine up and tries the next. Before throwing
/// either, they clear the CUDA runtime's error state (cudaGetLastError), so that the next engine's
/// calls do not report it again. Any other exception, and any from another function, ends the call.
class ConvEngines {
 public:
  virtual ~ConvEngines() = default;

  /// What a heuristic suggests for the problem, the best guess first; none if it knows no such
  /// problem. The engines are not filtered, and may not be able to compute it.
  virtual std::vector<ConvEngineInfo> suggested(ConvHeuristic heuristic) = 0;

  /// Makes the engine ready to run in this thread: finalises its plan and keeps it for execute.
  /// Returns the bytes of workspace that it needs, now exact.
  virtual int64_t prepare(const ConvEngine& engine) = 0;

  /// Runs a prepared engine `runs` times, on the call's stream, with outputs and workspace of its
  /// own, and waits for it. The time is that on the device, without what the host takes to start
  /// it. The inputs are the call's. Where a run would find them in a cache because the run before
  /// left them there, copies of them take turns, as far as there is memory.
  virtual ConvTime time(const ConvEngine& engine, int runs) = 0;

  /// Queues the engine on the call's inputs and outputs; first prepares it if this thread has not.
  /// If it throws, the outputs are unchanged or the next engine will write all of them.
  virtual void execute(const ConvEngine& engine) = 0;

  /// Bytes that could be allocated now for a workspace without taking memory from others: the
  /// largest free block plus what the device has left.
  virtual int64_t available_bytes() = 0;

  /// True while the call's stream is captured into a graph: nothing may be timed then, and no code
  /// loaded.
  virtual bool capturing() = 0;
};

}  // namespace lathe
