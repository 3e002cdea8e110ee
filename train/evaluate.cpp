// evaluate(): the loop over the batches.
#include "lathe/train/evaluate.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "lathe/autograd/autocast.h"
#include "lathe/autograd/grad_mode.h"
#include "lathe/core/seconds_since.h"

namespace lathe::train {

namespace {
constexpr int64_t kBatchesBetweenReads = 20;  // of a GPU's sums, for the progress line
constexpr int64_t kEvaluationKind = -1;       // of the graphs of a training

// The mode of all modules as before, also after an error.
class EvaluationMode {
 public:
  explicit EvaluationMode(nn::Module& model) : model_(model), was_training_(model.is_training()) {
    model_.eval();
  }
  ~EvaluationMode() { model_.train(was_training_); }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  nn::Module& model_;
  bool was_training_;
};

// Result as tensors and back, for graphs.
Tensors tensors_of_result(const Result& r) {
  Tensors out{r.loss};
  if (r.output.defined()) out.push_back(r.output);
  if (r.target.defined()) out.push_back(r.target);
  return out;
}

Result result_of(const Tensors& made, int64_t samples) {
  return {.loss = made[0],
          .output = made.size() > 1 ? made[1] : Tensor(),
          .target = made.size() > 2 ? made[2] : Tensor(),
          .samples = samples};
}

}  // namespace

Evaluation evaluate(nn::Module& model, Batches& batches, const LossFunction& loss, Tally own,
                    const EvaluateOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  const EvaluationMode mode(model);
  const NoGrad no_grad;
  Evaluation result{std::move(own)};
  result.tally.clear();
  Tally& tally = options.graphs != nullptr ? *options.sums : result.tally;
  tally.clear();
  const auto forward = [&](const Tensors& inputs) {
    Tensors batch = inputs;
    batches.make(batch);
    const Autocast half(batch.front().device(), options.amp == "bf16" ? kBF16 : kF16,
                        options.amp != "off");
    Result made = loss(batch);
    made.samples = batch.front().dim(0);
    return made;
  };
  const cuda::StepGraphs::Work recorded = [&](const Tensors& inputs) {
    const Result made = forward(inputs);
    tally.record(made);
    return tensors_of_result(made);
  };
  const auto launches = [&](const cuda::StepGraphs::Batch& batch) {
    if (options.graphs == nullptr) return false;
    const bool had_problem = options.graphs->has_problem();
    const bool takes = options.graphs->takes(batch, kEvaluationKind, recorded);
    if (!had_problem && options.graphs->has_problem()) options.graphs->give_pool_back();
    return takes;
  };
  ProgressState state{.label = "eval", .total = std::max<int64_t>(batches.size(), 0)};
  const std::unique_ptr<Pass> pass = batches.begin(0, 0);
  Tensors inputs;
  while (pass->next(inputs)) {
    const cuda::StepGraphs::Batch batch{inputs, batches.keeps_places()};
    Result made;
    if (launches(batch)) {
      made = result_of(options.graphs->launch(batch), inputs.front().dim(0));
      tally.launched(made.samples);
    } else {
      made = forward(inputs);
      tally.add(made);
    }
    if (options.batch) options.batch(made);
    result.seconds = seconds_since(begin);
    result.complete = !options.stop || !options.stop();
    if (!result.complete) break;
    if (state.done % kBatchesBetweenReads == 0) tally.read();
    ++state.done;
    if (options.progress) {
      state.loss = tally.loss();
      state.metrics = tally.values();
      state.samples_per_second = static_cast<double>(tally.count()) / result.seconds;
      state.eta_seconds = result.seconds / static_cast<double>(state.done) *
                          static_cast<double>(state.total - state.done);
      options.progress(state);
    }
  }
  if (state.done < state.total) result.complete = false;  // also in the wait for a batch
  tally.read();
  if (options.graphs != nullptr) result.tally.join(tally);
  result.seconds = seconds_since(begin);
  return result;
}

}  // namespace lathe::train
