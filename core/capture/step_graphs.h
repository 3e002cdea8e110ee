// StepGraphs: work that a program repeats on batches of a few shapes, as CUDA graphs. For one shape
// cuda::capture() (cuda_capture.h) is simpler; train/step.h trains through it.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lathe/core/capture/cuda_graph.h"
#include "lathe/core/config.h"
#include "lathe/core/tensor.h"

namespace lathe::cuda {

/// Graphs for each kind of work and each list of shapes and dtypes.
///
///   StepGraphs graphs(model.parameters());
///   for (auto& [x, y] : batches) {
///     const Tensors in{x, y};
///     const Tensors out = graphs.takes({in}, 0, work) ? graphs.launch({in}) : work(in);
///   }
///
/// takes() leaves the first `eager_calls` batches of a shape to the caller. These make what stays:
/// the optimiser's memory, the choice of algorithms. takes() records the next one. From then on it
/// takes every batch of that shape.
///
/// The graphs share one pool of memory (Graph::with_pool_of). A launch may overwrite the results of
/// another kind's launch. It does not overwrite tensors that lived when it was recorded.
/// Not thread-safe.
class LATHE_API StepGraphs {
 public:
  /// Work on the GPU, from its inputs on.
  using Work = std::function<Tensors(const Tensors& inputs)>;
  /// For processes that must do the same. Gets why the work could not be recorded here; "" if it
  /// was. Returns why no process may launch it; "" if all may. It answers a reason with a reason.
  using Agree = std::function<std::string(const std::string& problem)>;

  struct Batch {
    const Tensors& inputs;  // on a GPU, at least one
    // Later batches come in the same memory (data/device/batch_places.h). A graph reads a batch
    // that stays where it lies, so each of the two places has a graph of its own. Other batches are
    // copied into memory of the graph.
    bool stays = false;
  };

  /// `state`  what the work reads and writes from batch to batch, such as weights. A graph is not
  ///          launched while one of these tensors has other memory than when it was recorded.
  explicit StepGraphs(Tensors state, int eager_calls = 2)
      : state_(std::move(state)), eager_calls_(eager_calls) {}

  /// True if launch() takes this batch. Records `work` first if it is time for that. `agree` is
  /// called once after each try to record.
  /// If recording fails, takes() leaves batches of the kind and shape to the caller from then on,
  /// and take_problem() says why. `work` may have been called then, perhaps in part, and nothing
  /// has run on the GPU. Drop what it has left, such as gradients, and call give_pool_back().
  /// There are at most kMostKinds kinds with a shape, and two places for each. The caller gets
  /// other batches.
  /// throws: what `agree` throws.
  bool takes(const Batch& batch, int64_t kind, const Work& work, const Agree& agree = {});

  /// Launches the work on the batch that takes() has seen. The results have no history of autograd.
  /// They keep their values until the next launch.
  const Tensors& launch(const Batch& batch);

  /// Gives back the memory of recordings that came to nothing, unless there are graphs: the caller
  /// needs as much for what it does instead. Memory of tensors that live stays.
  /// throws: CudaError if the GPU has failed.
  void give_pool_back();

  /// What the graph that takes() has found reads.
  const Tensors& inputs() const { return taken_->inputs; }
  /// How many graphs have been recorded.
  size_t recorded() const { return recorded_; }
  /// Kernels, copies and fills of the graph that takes() has found; 0 if it has found none.
  size_t size() const { return taken_ == nullptr ? 0 : taken_->graph.size(); }
  /// The number in `state` of the first tensor that has other memory than when the graph that
  /// takes() has found was recorded.
  std::optional<size_t> moved_state() const;
  /// Whether take_problem() has something to say.
  bool has_problem() const { return !problem_.empty(); }
  /// Why work could not be recorded, once; "" if there is nothing new.
  std::string take_problem() { return std::exchange(problem_, {}); }
  /// The error behind the newest problem; null if it was another process's.
  std::exception_ptr error() const { return error_; }

  static constexpr size_t kMostKinds = 8;

 private:
  static constexpr size_t kPlaces = 2;

  struct Recorded {
    bool copies;  // the batch into its inputs:
    Tensors inputs;
    std::vector<const void*> memory;  // of state_
    Tensors results;
    Graph graph;  // after the tensors: its memory is theirs
  };
  struct Form {  // of an input
    Shape shape;
    DType dtype;
    bool operator==(const Form&) const = default;
  };
  struct Entry {
    int64_t kind;
    std::vector<Form> forms;
    int eager = 0;  // batches that the caller ran
    bool fails = false;
    std::list<Recorded> graphs = {};
  };

  Entry* entry_of(int64_t kind, const Tensors& inputs);
  static std::vector<Form> forms_of(const Tensors& inputs);
  static Recorded* graph_of(Entry& entry, const Batch& batch);
  std::list<Recorded> record(const Entry& entry, const Batch& batch, const Work& work);
  Tensors inputs_for(const Batch& batch) const;
  std::vector<const void*> memory_now() const;

  const Tensors state_;
  const int eager_calls_;
  std::list<Entry> entries_;
  size_t recorded_ = 0;
  Recorded* taken_ = nullptr;  // by takes(), for launch()
  std::optional<Graph> pool_;  // empty: its pool is that of the graphs
  std::string problem_;
  std::exception_ptr error_;
};

}  // namespace lathe::cuda
