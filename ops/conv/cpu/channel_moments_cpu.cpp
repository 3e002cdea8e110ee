// The moments of blocks and their sum. Contracts: channel_moments_cpu.h.
#include "lathe/ops/conv/cpu/channel_moments_cpu.h"

#include <algorithm>
#include <vector>

#include "lathe/core/thread_pool.h"
#include "lathe/ops/conv/cpu/winograd_kernels.h"

namespace lathe::cpu {

void BlockMoments::add(const float* const* pixels, int64_t n, int64_t channels) {
  if (n == 0) return;
  if (count == 0) std::copy_n(pixels[0], channels, shift);
  count += n;
  winograd::kernel_set().f4.moments(sums, squares, shift, pixels, n, channels);
}

ChannelMoments::ChannelMoments(int64_t blocks, int64_t channels)
    : blocks_(blocks),
      channels_(channels),
      means_(winograd::scratch(blocks * channels)),
      squares_(winograd::scratch(blocks * channels)),
      counts_(winograd::scratch(blocks)) {
  std::fill_n(counts_.data<float>(), blocks, 0.f);
}

void ChannelMoments::keep(int64_t block, int64_t channel, int64_t n, const BlockMoments& moments) {
  const float count = static_cast<float>(moments.count);
  if (channel == 0) counts_.data<float>()[block] = count;
  float* const mean = means_.data<float>() + block * channels_ + channel;
  float* const square = squares_.data<float>() + block * channels_ + channel;
  for (int64_t i = 0; i < n; ++i) {
    const float offset = moments.sums[i] / count;
    mean[i] = moments.shift[i] + offset;
    const float rest = moments.squares[i] - offset * moments.sums[i];
    square[i] = rest < 0 ? 0 : rest;  // NaN, of values that are too large, stays
  }
}

Tensor ChannelMoments::joined() const {
  constexpr int64_t kGrain = 16384, kChannels = 16;  // blocks and channels; channels at least
  Tensor result = empty({2, channels_}, {.dtype = kF32});
  float* const out = result.data<float>();
  const float *const counts = counts_.data<float>(), *const means = means_.data<float>();
  const float* const squares = squares_.data<float>();
  parallel_for(channels_, std::max(kChannels, kGrain / blocks_), [&](int64_t begin, int64_t end) {
    const auto size = static_cast<size_t>(end - begin);
    std::vector<double> mean(size), square(size);
    double total = 0;
    for (int64_t block = 0; block < blocks_; ++block) {
      if (counts[block] == 0) continue;
      const double before = total;
      total += counts[block];
      const double share = counts[block] / total, weight = before * share;
      const float* const mean_of = means + block * channels_ + begin;
      const float* const square_of = squares + block * channels_ + begin;
      for (size_t i = 0; i < size; ++i) {
        const double d = mean_of[i] - mean[i];
        mean[i] += d * share;
        square[i] += square_of[i] + d * d * weight;
      }
    }
    for (size_t i = 0; i < size; ++i) {
      out[begin + static_cast<int64_t>(i)] = static_cast<float>(mean[i]);
      out[channels_ + begin + static_cast<int64_t>(i)] = static_cast<float>(square[i] / total);
    }
  });
  return result;
}

}  // namespace lathe::cpu
