// StepGraphs: what a training does with its batches on a GPU, as CUDA graphs. Trainer decides what
// a batch is for (trainer_graphs.cpp).
#pragma once

#include <functional>
#include <list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lathe/core/cuda_graph.h"
#include "lathe/core/tensor.h"

namespace lathe::cli {

/// What a step reads and leaves.
struct StepTensors {
  Tensor x, y;          // the batch; the step may put others there that it has made of it
  Tensor scores, loss;  // of it
};

/// What is done with a batch.
struct StepKind {
  bool evaluation = false;  // only scores and loss
  bool adds = false;        // its gradients are added to those of earlier batches
  int64_t updates = 0;  // above 0: the weights are updated with the gradients of so many batches
  bool operator==(const StepKind&) const = default;
};

/// Graphs for each kind of step and shape of batch. Two batches of each are left to the caller,
/// whose steps make what stays: optimisers' memory and the choice of algorithms. The third is
/// recorded. From then on such batches are launched.
///
/// A batch that lies in one of two places (data/batch_places.h) is read there, so each place has a
/// graph of its own. Other batches are copied into the memory that the graph reads.
///
/// The graphs share one pool of memory (Graph::with_pool_of), so a launch may overwrite what one of
/// another kind has left. It does not overwrite tensors that lived when it was recorded.
class StepGraphs {
 public:
  /// The device work of a whole step, from its x and y on. It sets scores and loss.
  using Work = std::function<void(StepTensors&)>;
  /// For processes that must do the same. Gets why a step could not be recorded here; "" if it was.
  /// Returns why no process may launch it; "" if all may. To a reason it answers with one.
  using Agree = std::function<std::string(const std::string& problem)>;

  struct Batch {
    const Tensor &x, &y;
    bool stays = false;  // in its place: later batches come in the same memory
  };

  /// `state`  what the work reads and writes from step to step, such as weights. While one of these
  ///          tensors has other memory than when a graph was recorded, that graph is not launched.
  explicit StepGraphs(Tensors state) : state_(std::move(state)) {}

  /// True if launch() takes this batch. Records `work` first if it is time for that. If that fails,
  /// batches of the kind and shape are left to the caller from then on, and take_problem() says
  /// why; `work` may have been called then, perhaps in part, and nothing has run on the GPU. Drop
  /// what it has left, such as gradients, and call give_pool_back(). There are at most kMostKinds
  /// kinds with a shape, and two places for each; other batches are left to the caller.
  /// `agree` is called once after each try to record.
  /// throws: what `agree` throws.
  bool takes(const Batch& batch, const StepKind& kind, const Work& work, const Agree& agree = {});

  /// Gives back the memory of recordings that came to nothing, unless there are graphs: the steps
  /// that are queued instead need as much themselves. Memory of tensors that live stays.
  /// throws: CudaError if the GPU has failed.
  void give_pool_back();

  /// Launches the step of the batch that takes() has seen. The results keep their values until the
  /// next launch.
  const StepTensors& launch(const Batch& batch);

  /// How many steps have been recorded.
  size_t recorded() const { return recorded_; }
  /// Whether take_problem() has something to say.
  bool has_problem() const { return !problem_.empty(); }
  /// Why a step could not be recorded, once; "" if there is nothing new.
  std::string take_problem() { return std::exchange(problem_, {}); }

  static constexpr size_t kMostKinds = 8;

 private:
  static constexpr size_t kPlaces = 2;

  struct Recorded {
    bool copies;  // the batch into its inputs:
    Tensor x, y;
    std::vector<const void*> memory;  // of state_
    StepTensors tensors;
    cuda::Graph graph;  // after tensors: its memory is theirs
  };
  struct Entry {
    StepKind kind;
    Shape x, y;
    int eager = 0;  // batches that the caller ran
    bool fails = false;
    std::list<Recorded> graphs = {};
  };

  Entry* entry_of(const StepKind& kind, const Shape& x, const Shape& y);
  static Recorded* graph_of(Entry& entry, const Batch& batch);
  std::list<Recorded> record(const Entry& entry, const Batch& batch, const Work& work);
  StepTensors inputs_for(const Batch& batch) const;
  std::vector<const void*> memory_now() const;

  const Tensors state_;
  std::list<Entry> entries_;
  size_t recorded_ = 0;
  Recorded* taken_ = nullptr;        // by takes(), for launch()
  std::optional<cuda::Graph> pool_;  // empty: its pool is that of the graphs
  std::string problem_;
};

}  // namespace lathe::cli
