// Trainer: which steps are launched as CUDA graphs, and what these leave.
//
// Note [Graphs of a training]
// A batch that is an update by itself is one graph, from its images to new weights and to the sums
// of losses and hits. With --accumulate the batches of an update are a graph each: the first makes
// the gradients, the next ones add to them, and the last one updates the weights too. They hand the
// gradients on in tensors that the first one's recording made (gradients_): while they live, no
// other graph gets their memory. Where such a first batch lies in the other place
// (data/batch_places.h), its graph copies its gradients there. An update whose first batch was not
// launched is computed kernel by kernel. One whose first batch was launched can go on either way:
// what is queued kernel by kernel adds to the same tensors, in place.
// A graph holds the weight of its batch and the sum of all of them as constants (update_batches.h).
// Both follow from the kind of step and the batch's shape: within an epoch only the last batch can
// have another size.
// On several ranks a graph has the reductions too, if NCCL makes them. One that hands gradients on
// is not made there: they travel in memory of DistributedDataParallel. Nor is one with batch norms
// over all ranks, whose host reads how many values there are. All ranks try to record the same
// steps. If one of them cannot, none launches what it has recorded: all make the same calls.
#include <utility>

#include "lathe/core/copy.h"
#include "lathe/tools/cli/formatted.h"
#include "lathe/tools/cli/training/debug_scopes.h"
#include "lathe/tools/cli/training/trainer.h"

namespace lathe::cli {

bool Trainer::captures_steps() const {
  const Device device = parts_.train.device;
  if (!device.is_cuda() || !settings_.capture || wants_single_ops(settings_)) return false;
  if (!parallel_) return true;
  return settings_.accumulate == 1 && !settings_.sync_batch_norm &&
         parts_.ranks.group().queues_on(device);
}

// Whether this batch is launched as a CUDA graph. Says so if one cannot be recorded.
bool Trainer::runs_as_graph(const StepGraphs::Batch& batch) {
  updated_ = false;
  if (!graphs_) return false;
  const int64_t batches = micro_batches_.count();
  const StepKind kind{.adds = batches > 1, .updates = ends_update() ? batches : 0};
  const bool makes_gradients = !kind.adds && kind.updates == 0;
  if (kind.adds && !gradients_in_graph_) return false;
  if (!kind.adds) gradients_in_graph_ = false;
  if (makes_gradients && !gradients_.empty() && !(batch.x.shape() == first_batch_)) return false;
  StepGraphs::Agree agree;
  if (parallel_) agree = [this](const std::string& own) { return problem_of_any_rank(own); };
  const size_t recorded = graphs_->recorded();
  const bool takes = graphs_->takes(
      batch, kind, [&](StepTensors& step) { record_step(step, kind); }, agree);
  if (!takes) {
    if (graphs_->has_problem()) {
      abandon_recording(kind);
      graphs_->give_pool_back();
    }
    return false;
  }
  if (graphs_->recorded() > recorded) memory_.part_is_graph(true);
  if (makes_gradients) {
    first_batch_ = batch.x.shape();
    use_recorded_gradients();
  }
  updated_ = kind.updates > 0;
  return true;
}

// Within a capture.
void Trainer::record_step(StepTensors& step, const StepKind& kind) {
  memory_.begin_part();
  forward(step);
  scaler_.scale(micro_batches_.weighted(step.loss)).backward();
  if (kind.updates > 0) {
    average_gradients();
    apply_gradients(false);
    optimizer_.zero_grad();
  } else if (!kind.adds && !gradients_.empty()) {
    move_to_recorded_gradients();
  }
  if (!parallel_) window_.record(step.scores, step.y, step.loss);  // ranks: backward_on_ranks()
}

// The batch is computed kernel by kernel, with what was there before the recording.
void Trainer::abandon_recording(const StepKind& kind) {
  scaler_.abandon_step();
  optimizer_.zero_grad();
  if (kind.adds) use_recorded_gradients();
  say_not_recorded("steps are");
}

// Within a capture.
void Trainer::move_to_recorded_gradients() {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (!gradients_[i].defined()) continue;
    copy_values(gradients_[i], parameters_[i].grad());
    parameters_[i].set_grad(gradients_[i]);
  }
}

// What the first graph of an update leaves are the parameters' gradients, now that it is recorded,
// and at each of its launches.
void Trainer::use_recorded_gradients() {
  if (gradients_.empty()) {
    for (const Tensor& p : parameters_) gradients_.push_back(p.grad());
  }
  for (size_t i = 0; i < parameters_.size(); ++i) parameters_[i].set_grad(gradients_[i]);
  gradients_in_graph_ = true;
}

void Trainer::say_not_recorded(const char* what) {
  const std::string problem = graphs_->take_problem();
  if (problem.empty()) return;
  parts_.log.line(formatted("{} queued kernel by kernel, not as a CUDA graph: {}", what, problem));
}

}  // namespace lathe::cli
