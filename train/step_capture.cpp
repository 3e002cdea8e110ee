// Which steps are launched as CUDA graphs, and what these leave. Contract: step_impl.h.
//
// Note [Graphs of a training]
// A batch that is an update by itself is one graph, from its tensors to new weights. With
// accumulation the batches of an update are a graph each: the first makes the gradients, the next
// ones add to them, and the last one updates the weights too. They hand the gradients on in tensors
// that the first one's recording made (`gradients`): while they live, no other graph gets their
// memory. Where such a first batch lies in the other place (data/device/batch_places.h), its graph
// copies its gradients there. An update whose first batch was not launched runs kernel by kernel.
// One whose first batch was launched can go on either way: kernels that are queued one by one add
// to the same tensors, in place.
// A graph holds the weight of its batch as a constant, and that of an update the sum of all weights
// (accumulation.h). The first batch of an update has one size in all graphs (`first_batch`), so the
// weight follows from the batch's shape. The sum follows from the samples of the update, which are
// a part of its kind.
// With several ranks a graph has the reductions too, if NCCL makes them. One that hands gradients
// on is not made there: they travel in memory of DistributedDataParallel. All ranks try to record
// the same steps. If one of them cannot, none launches what it has recorded: all make the same
// calls.
#include <string>
#include <vector>

#include "lathe/core/copy.h"
#include "lathe/core/error.h"
#include "lathe/train/step_impl.h"

namespace lathe::train {

bool Step::Impl::can_capture() const {
  if (!device.is_cuda() || !options.capture) return false;
  return options.group == nullptr || (options.accumulate == 1 && options.group->queues_on(device));
}

void Step::Impl::prepare_capture() {
  Tensors state = parameters;
  for (const auto& [name, buffer] : model.named_buffers()) state.push_back(buffer);
  graphs.emplace(std::move(state));
  optimizer.set_capturable();
  if (options.ema != nullptr) options.ema->set_capturable();
}

namespace {

// The kinds of steps of StepGraphs: how many samples the update has (0: it is not made yet), and
// whether the batch adds to gradients.
int64_t kind_of(int64_t samples, bool adds) { return 2 * samples + static_cast<int64_t>(adds); }

// Why the first of the ranks that could not record could not; "" if all could.
std::string problem_of_any_rank(distributed::ProcessGroup& group, const std::string& own) {
  const std::vector<std::string> problems = group.all_gather_text(own);
  for (size_t rank = 0; rank < problems.size(); ++rank) {
    if (!problems[rank].empty()) return concat("rank ", rank, ": ", problems[rank]);
  }
  return {};
}

}  // namespace

// Whether the batch is launched as a CUDA graph. Then `result` is its result.
bool Step::Impl::launches(const Tensors& batch, bool stays) {
  const bool adds = batches.count() > 1, makes_gradients = !adds && !ends;
  if (adds && !gradients_in_graph) return false;
  if (!adds) gradients_in_graph = false;
  const Shape& shape = batch.front().shape();
  if (makes_gradients && !gradients.empty() && !(shape == first_batch)) return false;
  cuda::StepGraphs::Agree agree;
  if (parallel) {
    agree = [this](const std::string& own) { return problem_of_any_rank(*options.group, own); };
  }
  const cuda::StepGraphs::Batch given{batch, stays};
  const bool takes = graphs->takes(
      given, kind_of(ends ? batches.samples() : 0, adds),
      [&](const Tensors& in) { return record(in, adds); }, agree);
  if (!takes) {
    if (graphs->has_problem()) {
      abandon_recording(adds);
      graphs->give_pool_back();
    }
    return false;
  }
  if (makes_gradients) {
    first_batch = shape;
    use_recorded_gradients();
  }
  const Tensors& out = graphs->launch(given);
  result = {out[0], out[1], out[2], batch.front().dim(0)};
  return true;
}

// Within a capture.
Tensors Step::Impl::record(const Tensors& batch, bool adds) {
  const Result made = compute(batch);
  scaler.scale(batches.weighted(made.loss)).backward();
  if (ends) {
    average_gradients();
    apply_gradients(false);
    optimizer.zero_grad();
  } else if (!adds && !gradients.empty()) {
    move_to_recorded_gradients();
  }
  return {made.loss, made.output, made.target};
}

// The batch runs kernel by kernel, with what was there before the recording.
void Step::Impl::abandon_recording(bool adds) {
  scaler.abandon_step();
  optimizer.zero_grad();
  if (adds) use_recorded_gradients();
}

// Within a capture.
void Step::Impl::move_to_recorded_gradients() {
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (!gradients[i].defined()) continue;
    copy_values(gradients[i], parameters[i].grad());
    parameters[i].set_grad(gradients[i]);
  }
}

// What the first graph of an update leaves are the parameters' gradients, now that it is recorded,
// and at each of its launches.
void Step::Impl::use_recorded_gradients() {
  if (gradients.empty()) {
    for (const Tensor& p : parameters) gradients.push_back(p.grad());
  }
  for (size_t i = 0; i < parameters.size(); ++i) parameters[i].set_grad(gradients[i]);
  gradients_in_graph = true;
}

}  // namespace lathe::train
