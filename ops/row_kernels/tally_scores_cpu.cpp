// CPU kernel of tally_scores.h: row by row, with the ranking of tally_scores_math.h.
#include "lathe/core/visit.h"
#include "lathe/ops/row_kernels/tally_scores_math.h"
#include "lathe/ops/tally_scores.h"

namespace lathe::cpu {

void tally_scores_(const ScoreTally& tally, const Tensor& scores, const Tensor& labels,
                   const Tensor& mean_loss) {
  const int64_t rows = scores.dim(0), classes = scores.dim(1);
  const int64_t* label = labels.data<int64_t>();
  int64_t* counts = tally.counts.data<int64_t>();
  int64_t* confusion = tally.confusion.defined() ? tally.confusion.data<int64_t>() : nullptr;
  visit_float(scores.dtype(), "tally_scores_", [&](auto tag) {
    using T = typename decltype(tag)::type;
    using S = ComputeType<T>;
    const T* row = scores.data<T>();
    for (int64_t i = 0; i < rows; ++i, row += classes) {
      const bool known = label[i] >= 0 && label[i] < classes;
      const S own = known ? static_cast<S>(row[label[i]]) : S(0);
      auto ranking = math::Ranking<S>::none();
      for (int64_t c = 0; c < classes; ++c) ranking.see(static_cast<S>(row[c]), c, own);
      counts[1] += ranking.hits(label[i]);
      counts[2] += ranking.hits_five(label[i], classes);
      if (confusion != nullptr && known) ++confusion[label[i] * classes + ranking.at];
    }
    counts[0] += rows;
    *tally.loss_sum.data<double>() +=
        static_cast<double>(*mean_loss.data<S>()) * static_cast<double>(rows);
  });
}

}  // namespace lathe::cpu
