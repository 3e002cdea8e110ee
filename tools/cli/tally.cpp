#include "lathe/tools/cli/tally.h"

namespace lathe::cli {

void Tally::add(const Tensor& scores, const Tensor& labels, const Tensor& mean_loss) {
  if (!sums_) sums_ = make_score_tally(scores.device(), classes_);
  tally_scores_(*sums_, scores.detach(), labels, mean_loss.detach());
  count_ += scores.dim(0);
  if (scores.device().is_cpu()) read_numbers();
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

}  // namespace lathe::cli
