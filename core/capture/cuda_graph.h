// cuda::Graph: GPU work that is recorded once and then queued again and again with a single launch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "lathe/core/config.h"
#include "lathe/core/device.h"

namespace lathe::cuda {

/// Records the GPU work of a step, and launches all of it with one call. A training step is
/// hundreds of kernels, each of which the host otherwise queues on its own; in a graph also the gap
/// between two kernels is shorter.
///
///   step();                        // once normally: makes gradients and optimiser state
///   cuda::Graph graph;
///   graph.capture([&] { step(); });
///   for (…) { copy_values(x, next_batch); graph.launch(); }
///
/// Every launch runs the same kernels on the same memory. So copy new input into the tensors that
/// `step` reads, and read results from the tensors that it left. They keep their values until the
/// next launch. Numbers that the host computed while recording are constants of the graph: learning
/// rates, sizes, branches. After set_capturable() an optimiser follows its learning rate and counts
/// its steps in launches too.
///
/// On its GPU, a launch draws the random numbers that the step would draw if it ran instead: it
/// takes them from the generators as they are then, and moves them on. A capture moves no
/// generator. While it lasts, other threads must not draw from the same generators. A generator of
/// your own must live as long as the graph is launched.
///
/// The recorded work takes its memory from a pool of the graph's own, which lives as long as the
/// graph. Other tensors that it reads or writes must live as long as the graph is launched. Graphs
/// that never run at the same time can share a pool: with_pool_of().
/// ref: NVIDIA CUDA Programming Guide, "CUDA Graphs", "Stream Capture".
class LATHE_API Graph {
 public:
  /// throws: NoCudaError, DeviceError.
  explicit Graph(Device device = Device(DeviceType::kCUDA));
  /// Waits for the last launch.
  ~Graph();
  Graph(Graph&&) noexcept;
  Graph& operator=(Graph&&) noexcept;

  /// Makes an empty graph that takes its memory from the pool of `other`. If only one of them runs
  /// at a time, the two need the memory of the larger one, and not of both. A launch of either
  /// waits for the launch before, of either. It may overwrite results of the other graph, but not
  /// tensors that lived when it was captured.
  static Graph with_pool_of(const Graph& other);

  /// Records what `work` queues on this thread's current stream. The host's part of `work` runs;
  /// nothing runs on the GPU. Other threads go on normally.
  /// If `work` throws, the graph stays empty, and tensors that `work` made or changed hold no
  /// meaningful values.
  /// throws: OutOfMemoryError; CudaError; any other error of `work`. StateError if the graph is not
  /// empty, if another capture is underway, with LATHE_NO_CACHE=1, or if `work`
  ///   - waits for the GPU (item(), a copy to or from the host, synchronize())
  ///   - draws numbers of cuRAND
  ///   - seeds a generator, or sets it back to before its first draw in the graph
  void capture(const std::function<void()>& work);

  /// Queues the recorded work on the current stream, behind what is queued there.
  /// throws: StateError for an empty graph; CudaError. Then no generator has moved.
  /// DistributedError if the graph has collectives and a rank has failed, before the launch or
  /// meanwhile.
  void launch();

  /// Kernels, copies and fills in the graph; 0 if it is empty.
  size_t size() const noexcept;

 private:
  struct Impl;
  explicit Graph(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Within Graph::capture(): `work` runs on the host at the beginning of each launch of that graph.
/// The GPU work that it queues comes before the graph. Use it for memory that the recorded kernels
/// read and that others may have written since. Does nothing outside a capture on this thread.
LATHE_API void before_each_launch(std::function<void()> work);

/// Within Graph::capture(): `work` runs on the host after each launch of that graph is queued, with
/// the stream of the launch as the current one. Does nothing outside a capture on this thread.
LATHE_API void after_each_launch(std::function<void()> work);

/// Within Graph::capture(): `work` runs once, at the end of the capture, and is recorded as its
/// last part. Does nothing outside a capture on this thread.
LATHE_API void at_end_of_capture(std::function<void()> work);

/// The number of the capture that this thread makes; each capture has another one. 0 outside of a
/// capture.
LATHE_API uint64_t capture_number() noexcept;

}  // namespace lathe::cuda
