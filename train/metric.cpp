// Sums over batches, and the metrics that come with the library.
#include "lathe/train/metric.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "lathe/autograd/grad_mode.h"
#include "lathe/core/capture/cuda_graph.h"
#include "lathe/core/copy.h"
#include "lathe/core/error.h"
#include "lathe/ops/argmax.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/index.h"
#include "lathe/ops/join.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/sort.h"
#include "lathe/ops/views.h"
#include "lathe/ops/where.h"

namespace lathe::train {

Metric::Metric(std::string name, Sums sums, Value value, Better better)
    : name_(std::move(name)), sums_(std::move(sums)), value_(std::move(value)), better_(better) {
  const auto fits = [](unsigned char c) {
    return std::isalnum(c) != 0 || std::string_view("_-./@").find(c) != std::string_view::npos;
  };
  LATHE_CHECK(ValueError, !name_.empty() && std::ranges::all_of(name_, fits),
              "train::Metric: a name is made of letters, digits and _-./@, got \"", name_, "\"");
  LATHE_CHECK(ValueError, sums_ != nullptr && value_ != nullptr, "train::Metric: ", name_,
              " lacks a function");
}

void Metric::add(const Result& result) {
  const NoGrad off;
  const Tensor sums = sums_(result).to(kF64).reshape({-1});
  if (!totals_.defined()) {
    LATHE_CHECK(StateError, cuda::capture_number() == 0, "train::Metric: ", name_,
                " must have had a batch before a CUDA graph is recorded");
    totals_ = zeros(sums.shape(), {.dtype = kF64, .device = sums.device()});
  }
  LATHE_CHECK(ShapeError, sums.shape() == totals_.shape(), "train::Metric: ", name_,
              " has other sums than before (now: ", sums, ", before: ", totals_, ")");
  totals_.add_(sums);
}

double Metric::value() const {
  if (!totals_.defined()) return std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> totals = totals_.cpu().to_vector<double>();
  return value_(totals);
}

void Metric::clear() {
  if (totals_.defined()) fill_values(totals_, 0);
}

StateDict Metric::state_dict() const {
  StateDict out;
  if (totals_.defined()) out.add("totals", totals_.clone());
  return out;
}

void Metric::load_state_dict(const StateDict& state, Device device) {
  const Tensor* const totals = state.find("totals");
  for (const auto& [name, tensor] : state)
    LATHE_CHECK(ValueError, name == "totals", "train::Metric: ", name_,
                " has a state with an unexpected ", state.full_name(name));
  if (totals == nullptr) {
    totals_ = {};
    return;
  }
  LATHE_CHECK(DTypeError, totals->dtype() == kF64, "train::Metric: ", name_, ": ",
              state.full_name("totals"), " is no f64 (", *totals, ")");
  LATHE_CHECK(ValueError, totals->ndim() == 1, "train::Metric: ", name_, ": ",
              state.full_name("totals"), " is no list (", *totals, ")");
  LATHE_CHECK(ValueError, !totals_.defined() || totals->shape() == totals_.shape(),
              "train::Metric: ", name_, ": ", state.full_name("totals"), " is ", *totals,
              " instead of ", totals_);
  totals_ = totals->clone().to(device);
}

namespace {

double ratio(std::span<const double> totals) { return totals[0] / totals[1]; }

/// Sums whose ratio is the mean over samples.
Tensor weighted(const Tensor& mean_of_batch, int64_t samples) {
  const Tensor value = mean_of_batch.to(kF64);
  LATHE_CHECK(ValueError, value.numel() == 1 && samples > 0,
              "train::mean: a batch needs one number and at least one sample (got: ", value, ", ",
              samples, " samples)");
  const Tensor count =
      full({1}, static_cast<double>(samples), {.dtype = kF64, .device = value.device()});
  return cat({value.reshape({1}) * static_cast<double>(samples), count}, 0);
}

void check_scores(const char* metric, const Result& r) {
  LATHE_CHECK(ValueError, r.output.defined() && r.target.defined(), metric,
              ": the loss function gives no output or no target");
  const Shape &scores = r.output.shape(), &classes = r.target.shape();
  bool fits =
      r.output.ndim() == r.target.ndim() + 1 && r.target.ndim() >= 1 && scores[0] == classes[0];
  for (int d = 1; fits && d < r.target.ndim(); ++d) fits = scores[d + 1] == classes[d];
  LATHE_CHECK(ShapeError, fits, metric,
              ": the output must be scores [N,C,...] and the target classes [N,...] (output: ",
              r.output, ", target: ", r.target, ")");
  LATHE_CHECK(DTypeError, !is_floating(r.target.dtype()), metric,
              ": the target must be class numbers (", r.target, ")");
}

/// How many of `hit` are true where the target counts, and how many targets count.
Tensor hits_of(const Tensor& hit, const Tensor& target) {
  const Tensor counts = ge(target, 0);
  return stack({sum(logical_and(hit, counts).to(kF64)), sum(counts.to(kF64))}, 0);
}

}  // namespace

Metric mean(std::string name, std::function<Tensor(const Result&)> of_batch, Better better) {
  LATHE_CHECK(ValueError, of_batch != nullptr, "train::mean: the function is empty");
  return Metric(
      std::move(name),
      [of = std::move(of_batch)](const Result& r) { return weighted(of(r), r.samples); }, ratio,
      better);
}

Metric mean_loss() {
  return mean("loss", [](const Result& r) { return r.loss; });
}

Metric perplexity() {
  return Metric(
      "perplexity", [](const Result& r) { return weighted(r.loss, r.samples); },
      [](std::span<const double> totals) { return std::exp(ratio(totals)); }, Better::kLower);
}

Metric accuracy() {
  Metric metric(
      "accuracy",
      [](const Result& r) {
        check_scores("train::accuracy", r);
        return hits_of(eq(argmax(r.output, 1), r.target), r.target);
      },
      ratio);
  metric.is_accuracy_ = true;
  return metric;
}

Metric top_k(int64_t k) {
  LATHE_CHECK(ValueError, k >= 1, "train::top_k: k must be at least 1, got ", k);
  return Metric(
      concat("top", k),
      [k](const Result& r) {
        check_scores("train::top_k", r);
        const int64_t most = std::min(k, r.output.dim(1));
        const Tensor best = topk(r.output, most, 1).indices;
        return hits_of(any(eq(best, r.target.unsqueeze(1)), {1}), r.target);
      },
      ratio);
}

Metric mean_iou(int64_t classes) {
  LATHE_CHECK(ValueError, classes >= 1, "train::mean_iou: there must be a class, got ", classes);
  const auto sums = [classes](const Result& r) {
    check_scores("train::mean_iou", r);
    LATHE_CHECK(ShapeError, r.output.dim(1) == classes, "train::mean_iou: the output must have ",
                classes, " classes (output: ", r.output, ")");
    // Cell [target, predicted] of the confusion matrix; the cell behind it is for what does not
    // count.
    const Tensor target = r.target.to(kI64);
    const Tensor inside = logical_and(ge(target, 0), lt(target, classes));
    const Tensor cell = where(inside, target * classes + argmax(r.output, 1),
                              full_like(target, static_cast<double>(classes * classes)));
    const TensorOptions f64{.dtype = kF64, .device = r.output.device()};
    return scatter_add(zeros({classes * classes + 1}, f64), 0, cell.reshape({-1}),
                       ones({cell.numel()}, f64))
        .slice(0, 0, classes * classes);
  };
  const auto value = [classes](std::span<const double> confusion) {
    const auto n = static_cast<size_t>(classes);
    double total = 0, present = 0;
    for (size_t c = 0; c < n; ++c) {
      double of_target = 0, of_prediction = 0;
      for (size_t other = 0; other < n; ++other) {
        of_target += confusion[c * n + other];
        of_prediction += confusion[other * n + c];
      }
      const double both = confusion[c * n + c], either = of_target + of_prediction - both;
      if (either == 0) continue;
      total += both / either;
      present += 1;
    }
    return total / present;
  };
  return Metric("iou", sums, value);
}

}  // namespace lathe::train
