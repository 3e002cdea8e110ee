// Tally: adding and reading the sums (ScoreTally of ops/), and their state.
#include "lathe/tools/cli/training/tally.h"

#include <utility>

#include "lathe/core/copy.h"
#include "lathe/core/error.h"

namespace lathe::cli {

void Tally::add(const Tensor& scores, const Tensor& labels, const Tensor& mean_loss) {
  if (!sums_) sums_ = make_score_tally(scores.device(), classes_);
  tally_scores_(*sums_, scores.detach(), labels, mean_loss.detach());
  count_ += scores.dim(0);
  if (scores.device().is_cpu()) read_numbers();
}

void Tally::record(const Tensor& scores, const Tensor& labels, const Tensor& mean_loss) const {
  LATHE_CHECK(StateError, sums_.has_value(), "tally: nothing was added before a graph is recorded");
  tally_scores_(*sums_, scores.detach(), labels, mean_loss.detach());
}

void Tally::clear() {
  std::optional<ScoreTally> kept;
  if (sums_ && sums_->counts.device().is_cuda()) kept = *sums_;
  *this = Tally(classes_);
  sums_ = std::move(kept);
  if (!sums_) return;
  for (const Tensor* t : {&sums_->loss_sum, &sums_->counts, &sums_->confusion}) {
    if (t->defined()) fill_values(*t, 0);
  }
}

void Tally::read_numbers() {
  const std::vector<int64_t> counts = sums_->counts.cpu().to_vector<int64_t>();
  read_ = joined_;
  read_.count += counts[0];
  read_.top1 += counts[1];
  read_.top5 += counts[2];
  read_.loss_sum += sums_->loss_sum.item<double>();
}

void Tally::read() {
  if (!sums_) return;
  read_numbers();
  if (classes_ > 0) confusion_ = sums_->confusion.cpu().to_vector<int64_t>();
}

void Tally::join(const Tally& other) {
  const Numbers& more = other.read_;
  for (Numbers* to : {&read_, &joined_}) {
    to->count += more.count;
    to->top1 += more.top1;
    to->top5 += more.top5;
    to->loss_sum += more.loss_sum;
  }
  count_ += other.count_;
}

std::vector<double> Tally::numbers() const {
  return {static_cast<double>(read_.count), static_cast<double>(read_.top1),
          static_cast<double>(read_.top5), read_.loss_sum};
}

Tally Tally::of_numbers(const std::vector<double>& numbers) {
  Tally out;
  out.read_ = out.joined_ = {.count = static_cast<int64_t>(numbers.at(0)),
                             .top1 = static_cast<int64_t>(numbers.at(1)),
                             .top5 = static_cast<int64_t>(numbers.at(2)),
                             .loss_sum = numbers.at(3)};
  out.count_ = out.read_.count;
  return out;
}

StateDict Tally::state_dict() const {
  StateDict out;
  out.add_number("count", joined_.count);
  out.add_number("top1", joined_.top1);
  out.add_number("top5", joined_.top5);
  out.add_number("loss_sum", joined_.loss_sum);
  const ScoreTally added = sums_ ? *sums_ : make_score_tally(kCPU);
  out.add("added.loss_sum", added.loss_sum.cpu());
  out.add("added.counts", added.counts.cpu());
  return out.clone();
}

void Tally::load_state_dict(const StateDict& state, Device device) {
  Tally loaded(classes_);
  loaded.joined_ = {.count = state.count("count"),
                    .top1 = state.count("top1"),
                    .top5 = state.count("top5"),
                    .loss_sum = state.number<double>("loss_sum")};
  loaded.sums_ = make_score_tally(device, classes_);
  for (const auto& [name, to] : {std::pair{"added.loss_sum", loaded.sums_->loss_sum},
                                 std::pair{"added.counts", loaded.sums_->counts}}) {
    const Tensor& from = state.at(name);
    LATHE_CHECK(ShapeError, from.shape() == to.shape(), "tally: ", name, " is ", from,
                " instead of ", to);
    copy_values(to, from);
  }
  for (const int64_t added : state.at("added.counts").cpu().to_vector<int64_t>()) {
    LATHE_CHECK(ValueError, added >= 0 && added <= kMostCounted, "tally: added.counts holds ",
                added);
  }
  loaded.read_numbers();
  loaded.count_ = loaded.read_.count;
  *this = std::move(loaded);
}

}  // namespace lathe::cli
