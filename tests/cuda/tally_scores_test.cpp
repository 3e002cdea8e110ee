// The kernel of ops/row_kernels/tally_scores_cuda.cu against the CPU op.
#include "lathe/ops/tally_scores.h"

#include "on_device.h"

using namespace lathe;
using namespace lathe::test;

TEST_CASE("tally_scores kernel: as on the CPU") {
  for (const DType dtype : {kF32, kF64, kF16, kBF16}) {
    for (const auto& [rows, classes] :
         {std::pair<int64_t, int64_t>{1, 1}, {3, 10}, {33, 31}, {9, 100}, {0, 4}}) {
      CAPTURE(concat(dtype, " ", rows, " ", classes));
      const ScoreTally want = make_score_tally(kCPU, classes);
      const ScoreTally got = make_score_tally(kernel_device(), classes);
      const Tensor loss = full({}, 0.75, {.dtype = dtype == kF64 ? kF64 : kF32});
      for (int batch = 0; batch < 2; ++batch) {
        const Tensor scores = cast(randn({rows, classes}), dtype);
        const Tensor labels = randint(0, classes + 1, {rows});  // one too many
        cpu::tally_scores_(want, scores, labels, loss);
        cuda::tally_scores_(got, on_device(scores), on_device(labels), on_device(loss));
      }
      CHECK(on_host(got.loss_sum).item<double>() == want.loss_sum.item<double>());
      CHECK(difference(on_host(got.counts), want.counts, 0) == "");
      CHECK(difference(on_host(got.confusion), want.confusion, 0) == "");
    }
  }
}
