// StepGraphs: records work that a program repeats on batches of a few shapes as CUDA graphs. For
// one shape cuda::capture() (cuda_capture.h) is simpler; train/step.h trains through StepGraphs.
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

/// CUDA graphs, one for each kind of work and each list of input shapes and dtypes. The caller
/// numbers the kinds, for instance 0 for training and 1 for evaluation.
///
///   StepGraphs graphs(model.parameters());
///   for (auto& [x, y] : batches) {
///     const Tensors in{x, y};
///     const Tensors out = graphs.takes({in}, /*kind=*/0, work) ? graphs.launch({in}) : work(in);
///   }
///
/// takes() leaves the first `eager_calls` batches of a shape to the caller. Running them allocates
/// lasting memory (the optimiser's) and chooses algorithms. takes() records the next batch. From
/// then on it takes every batch of that shape.
///
/// The graphs share one pool of memory (Graph::with_pool_of). A launch may overwrite the results of
/// another kind's launch. It does not overwrite tensors that lived when it was recorded.
/// Not thread-safe.
class LATHE_API StepGraphs {
 public:
  /// The work to record: computes results on the GPU from inputs there.
  using Work = std::function<Tensors(const Tensors& inputs)>;
  /// For several processes that must all launch the work or all run it themselves. Called with the
  /// reason why this process could not record the work, or "" if it could. Returns the reason why
  /// no process may launch the work, or "" if all may. If one process passes a reason, `agree`
  /// returns a reason in all of them.
  using Agree = std::function<std::string(const std::string& problem)>;

  struct Batch {
    const Tensors& inputs;  // on a GPU, at least one
    // true: batches come in one of two places in memory (data/device/batch_places.h), and each
    // place has its own graph, which reads the batch there. false: the batch is copied into the
    // graph's memory.
    bool stays = false;
  };

  ///   state  tensors that the work reads and writes from batch to batch, such as weights. A graph
  ///          is not launched while one of them has other memory than when it was recorded.
  explicit StepGraphs(Tensors state, int eager_calls = 2)
      : state_(std::move(state)), eager_calls_(eager_calls) {}

  /// Returns true if launch() can run the work on this batch; else the caller runs the work. Before
  /// that, takes() records `work` if this is the batch to record. It calls `agree` once after each
  /// try to record.
  ///   - If recording fails, takes() returns false for this kind and shape from then on, and
  ///     take_problem() says why. The host's part of `work` may have run, perhaps in part; nothing
  ///     has run on the GPU. Drop what `work` has left, such as gradients, and call
  ///     give_pool_back().
  ///   - takes() returns false for all but the first kMostKinds combinations of kind and shape. For
  ///     each combination it records at most two graphs: with Batch::stays, batches at a third
  ///     place get false.
  /// throws: what `agree` throws.
  bool takes(const Batch& batch, int64_t kind, const Work& work, const Agree& agree = {});

  /// Launches the work on the batch for which takes() has just returned true. The results have no
  /// autograd history. They keep their values until the next launch.
  const Tensors& launch(const Batch& batch);

  /// Frees the memory that failed recordings took: the caller needs it to run the work itself. Does
  /// nothing once a graph has been recorded. Memory of living tensors stays.
  /// throws: CudaError if the GPU has failed.
  void give_pool_back();

  /// The tensors that the graph of the last takes() reads. Call it only after takes() returned
  /// true.
  const Tensors& inputs() const { return taken_->inputs; }
  /// How many graphs have been recorded.
  size_t recorded() const { return recorded_; }
  /// The number of kernels, copies and fills in the graph of the last takes(); 0 if it had none.
  size_t size() const { return taken_ == nullptr ? 0 : taken_->graph.size(); }
  /// The index in `state` of the first tensor that has other memory than when the graph of the last
  /// takes() was recorded; nullopt if there is none.
  std::optional<size_t> moved_state() const;
  /// True if take_problem() would return a problem.
  bool has_problem() const { return !problem_.empty(); }
  /// Why work could not be recorded; "" if there is no new problem. Returns each problem once.
  std::string take_problem() { return std::exchange(problem_, {}); }
  /// The error behind the newest problem; null if another process had it.
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
