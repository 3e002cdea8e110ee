#include "lathe/tools/cli/tally.h"

#include <algorithm>
#include <cmath>

namespace lathe::cli {

void Tally::add(const Tensor& scores, const Tensor& labels, double mean_loss) {
  const int64_t n = scores.dim(0), classes = scores.dim(1);
  const std::vector<float> values = scores.to_vector<float>();
  const std::vector<int64_t> wanted = labels.to_vector<int64_t>();
  for (int64_t i = 0; i < n; ++i) {
    const float* const row = values.data() + i * classes;
    const int64_t label = wanted[static_cast<size_t>(i)];
    const int64_t best = std::max_element(row, row + classes) - row;
    const auto better =
        std::count_if(row, row + classes, [&](float s) { return !(s < row[label]); }) - 1;
    top1_ += best == label && !std::isnan(row[best]);
    top5_ += better < 5;
    if (classes_ > 0) ++confusion_[static_cast<size_t>(label * classes_ + best)];
  }
  loss_sum_ += mean_loss * static_cast<double>(n);
  count_ += n;
}

}  // namespace lathe::cli
