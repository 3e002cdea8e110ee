// CUDA kernel of tally_scores.h: a warp per row, with the ranking of tally_scores_math.h.
#include "lathe/core/visit.h"
#include "lathe/ops/reduce_kernels/block_reduce.cuh"
#include "lathe/ops/row_kernels/tally_scores_math.h"
#include "lathe/ops/tally_scores.h"

namespace lathe::cuda {

namespace {

struct Totals {
  double* loss_sum;
  unsigned long long *counts, *confusion;  // confusion may be null
};

struct Joined {
  template <class R>
  __device__ R operator()(R a, const R& b) const {
    a.join(b);
    return a;
  }
};

// One warp per row of scores in a grid-stride loop; its lanes go over the classes. Counts are whole
// numbers, so the order of the atomic additions does not matter; one thread adds the loss. Latency
// bound: the scores of a batch are some KiB.
template <class T, class S>
__global__ void __launch_bounds__(256)
    tally_kernel(Totals totals, const T* __restrict__ scores, const int64_t* __restrict__ labels,
                 const S* mean_loss, int64_t rows, int64_t classes) {
  const int64_t warps = int64_t(gridDim.x) * (blockDim.x / kWarpSize);
  const int64_t first = (blockIdx.x * int64_t(blockDim.x) + threadIdx.x) / kWarpSize;
  const unsigned lane = threadIdx.x % kWarpSize;
  unsigned long long hits = 0, five = 0;
  for (int64_t i = first; i < rows; i += warps) {
    const T* row = scores + i * classes;
    const int64_t label = labels[i];
    const bool known = label >= 0 && label < classes;
    const S own = known ? static_cast<S>(row[label]) : S(0);
    auto ranking = math::Ranking<S>::none();
    for (int64_t c = lane; c < classes; c += kWarpSize) ranking.see(static_cast<S>(row[c]), c, own);
    ranking = warp_reduce(ranking, Joined{});
    if (lane != 0) continue;
    hits += ranking.hits(label);
    five += ranking.hits_five(label, classes);
    if (totals.confusion != nullptr && known) {
      atomicAdd(totals.confusion + label * classes + ranking.at, 1ull);
    }
  }
  if (hits > 0) atomicAdd(totals.counts + 1, hits);
  if (five > 0) atomicAdd(totals.counts + 2, five);
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    totals.counts[0] += static_cast<unsigned long long>(rows);
    *totals.loss_sum += static_cast<double>(*mean_loss) * static_cast<double>(rows);
  }
}

unsigned long long* words(const Tensor& t) {
  return t.defined() ? static_cast<unsigned long long*>(t.raw_data()) : nullptr;
}

}  // namespace

void tally_scores_(const ScoreTally& tally, const Tensor& scores, const Tensor& labels,
                   const Tensor& mean_loss) {
  const int64_t rows = scores.dim(0), classes = scores.dim(1);
  const Totals totals{tally.loss_sum.data<double>(), words(tally.counts), words(tally.confusion)};
  const auto [grid, block] = launch_1d(rows * kWarpSize);
  visit_float(scores.dtype(), "tally_scores_", [&](auto tag) {
    using T = typename decltype(tag)::type;
    using S = ComputeType<T>;
    launch(tally_kernel<T, S>, grid, block, 0, current_stream(scores.device()), totals,
           scores.data<T>(), labels.data<int64_t>(), mean_loss.data<S>(), rows, classes);
    LATHE_CUDA_CHECK(cudaGetLastError());
  });
}

}  // namespace lathe::cuda
