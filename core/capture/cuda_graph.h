// cuda::Graph: GPU work that is recorded once and then queued again and again with a single launch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "lathe/core/config.h"
#include "lathe/core/device.h"

namespace lathe::cuda {

/// A training step is hundreds of kernels, each of which the host queues and the GPU starts. A
/// graph queues all of them at once: the host's work per step becomes one call, and the gap between
/// two kernels shrinks.
///
///   step();                        // once as ever: makes gradients' and optimisers' memory
///   cuda::Graph graph;
///   graph.capture([&] { step(); });
///   for (…) { copy_values(x, next_batch); graph.launch(); }
///
/// Every launch runs the same kernels on the same memory. So new input is copied into the tensors
/// that `step` reads, and results are read from the tensors that it left. These keep their values
/// until the next launch. What the host computed while recording is a constant of the graph:
/// learning rates, sizes, branches. An optimiser follows its learning rate and counts its steps
/// after set_capturable().
///
/// Random numbers that a launch draws on its GPU are those that the step would draw if it ran
/// instead: each launch takes them from the generators where these are then, and moves them on.
/// A capture moves none. While it lasts, other threads draw nothing from the same generators. A
/// generator of your own must live as long as the graph is launched.
///
/// Memory that the recorded work takes comes from a pool of the graph's own, which lives as long as
/// the graph. Other tensors that it reads or writes must live as long as the graph is launched.
/// Graphs of which one runs at a time can share a pool: with_pool_of().
/// ref: NVIDIA CUDA Programming Guide, "CUDA Graphs", "Stream Capture".
class LATHE_API Graph {
 public:
  /// throws: NoCudaError, DeviceError.
  explicit Graph(Device device = Device(DeviceType::kCUDA));
  /// Waits for the last launch.
  ~Graph();
  Graph(Graph&&) noexcept;
  Graph& operator=(Graph&&) noexcept;

  /// An empty graph that takes its memory from the pool of `other`. Steps of two kinds, of which
  /// one runs at a time, then need the memory of the larger one, and not of both. A launch of
  /// either waits for the launch before, of both. It may overwrite what the other has left, but
  /// not tensors that lived when it was captured.
  static Graph with_pool_of(const Graph& other);

  /// Records what `work` queues on this thread's current stream. The host's part of `work` runs;
  /// nothing runs on the GPU. Other threads go on as ever.
  /// If `work` throws, the graph stays empty, and tensors that `work` made or changed hold no
  /// meaningful values.
  /// throws: StateError if the graph is not empty, if another capture is underway, with
  /// LATHE_NO_CACHE=1, or if `work` waits for the GPU (item(), a copy to or from the host,
  /// synchronize()), draws numbers of cuRAND, or seeds a generator or sets it back to before its
  /// first draw in the graph; OutOfMemoryError; CudaError; any other error of `work`.
  void capture(const std::function<void()>& work);

  /// Queues the recorded work on the current stream, behind what is queued there.
  /// throws: StateError for an empty graph; CudaError. Then no generator has moved.
  /// DistributedError if it has collectives and a rank has failed, before the launch or meanwhile.
  void launch();

  /// Kernels, copies and fills in the graph; 0 if it is empty.
  size_t size() const noexcept;

 private:
  struct Impl;
  explicit Graph(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Within Graph::capture(): `work` runs on the host at the beginning of each launch of that graph.
/// What it queues comes before the graph. It is for memory that the recorded kernels read and that
/// others may have written since. Does nothing outside a capture on this thread.
LATHE_API void before_each_launch(std::function<void()> work);

/// Within Graph::capture(): `work` runs on the host after each launch of that graph is queued, with
/// the stream of the launch as the current one. Does nothing outside a capture on this thread.
LATHE_API void after_each_launch(std::function<void()> work);

/// Within Graph::capture(): `work` runs once, when what is captured has ended, and is recorded like
/// the end of it. Does nothing outside a capture on this thread.
LATHE_API void at_end_of_capture(std::function<void()> work);

/// The capture that this thread makes, each with another number; 0 outside of one.
LATHE_API uint64_t capture_number() noexcept;

}  // namespace lathe::cuda
