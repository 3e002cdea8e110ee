// evaluate(): the loop over the batches.
#include "lathe/train/evaluate.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "lathe/autograd/autocast.h"
#include "lathe/autograd/grad_mode.h"
#include "lathe/core/error.h"
#include "lathe/core/seconds_since.h"

namespace lathe::train {

namespace {
constexpr int64_t kBatchesBetweenReads = 20;  // of a GPU's sums, for the progress line
constexpr int64_t kEvaluationKind = -1;       // of the graphs of a training

// The mode of each module as before, also after an error.
class EvaluationMode {
 public:
  explicit EvaluationMode(nn::Module& model) {
    for (auto& [name, module] : model.named_modules())
      modes_.emplace_back(module, module->is_training());
    model.eval();
  }
  ~EvaluationMode() {
    for (const auto& [module, was_training] : modes_) module->train(was_training);
  }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  std::vector<std::pair<nn::Module*, bool>> modes_;  // a module before those within it
};

// Result as tensors and back, for graphs. One without both output and target keeps its loss alone.
Tensors tensors_of_result(const Result& r) {
  Tensors out{r.loss};
  if (r.output.defined() && r.target.defined()) out.insert(out.end(), {r.output, r.target});
  return out;
}

Result result_of(const Tensors& made, int64_t samples) {
  Result out{.loss = made[0], .samples = samples};
  if (made.size() == 3) {
    out.output = made[1];
    out.target = made[2];
  }
  return out;
}

void check(const Result& made) {
  LATHE_CHECK(ValueError, made.loss.defined() && made.loss.ndim() == 0,
              "train::evaluate: the loss must be 0-d, the mean over the batch (loss: ",
              made.loss.defined() ? concat(made.loss) : "undefined", ")");
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
    LATHE_CHECK(ValueError,
                !batch.empty() && batch.front().defined() && batch.front().ndim() > 0 &&
                    batch.front().dim(0) > 0,
                "train::evaluate: a batch has no samples");
    batches.make(batch);
    const Autocast half(batch.front().device(), options.amp == "bf16" ? kBF16 : kF16,
                        options.amp != "off");
    Result made = loss(batch);
    check(made);
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
    if (options.on_batch) options.on_batch(made);
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
  if (state.done < state.total) {
    result.complete = false;  // also if it was stopped in the wait for a batch
    LATHE_CHECK(DataError, options.stop && options.stop(), "train::evaluate: the loader has ",
                state.done, " batches, but its size() says ", state.total);
  }
  tally.read();
  if (options.graphs != nullptr) result.tally.join(tally);
  result.seconds = seconds_since(begin);
  return result;
}

}  // namespace lathe::train
