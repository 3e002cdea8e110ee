// The pass and its sums. Contracts: norm_gradient_cpu.h.
#include "lathe/ops/conv/norm_gradient_cpu.h"

#include <algorithm>

#include "lathe/core/thread_pool.h"
#include "lathe/ops/conv/winograd_tiles.h"

namespace lathe::cpu {

NormGradient::NormGradient(const NormBehind& norm, const Tensor& dx)
    : norm_(norm),
      channels_(dx.dim(1)),
      scale_(static_cast<size_t>(channels_), 1.f),
      bias_(static_cast<size_t>(channels_), 0.f) {
  const BatchNormCall& call = norm_.call;
  for (int64_t c = 0; c < channels_; ++c) {
    const auto i = static_cast<size_t>(c);
    if (call.weight.defined()) scale_[i] = call.weight.data<float>()[c * call.weight.stride(0)];
    scale_[i] *= call.invstd.data<float>()[c];
    if (call.bias.defined()) bias_[i] = call.bias.data<float>()[c * call.bias.stride(0)];
  }
  pass_ = {.form = call.form,
           .dy = dx.data<float>(),
           .second = norm_.second.defined() ? norm_.second.data<float>() : nullptr,
           .x = call.x.data<float>(),
           .y = norm_.y.defined() ? norm_.y.data<float>() : nullptr,
           .norm = {call.mean.data<float>(), scale_.data(), bias_.data()}};
  for (const float* const from : {pass_.x, pass_.y, pass_.second}) {
    if (from != nullptr) read_.push_back(from);
  }
}

void NormGradient::reserve(int64_t blocks) {
  blocks_ = blocks;
  for (Tensor* const parts : {&sums_, &products_}) {
    *parts = winograd::scratch(blocks * channels_);
    std::fill_n(parts->data<float>(), blocks * channels_, 0.f);  // a block may be empty
  }
}

void NormGradient::add(int64_t block, int64_t channel, int64_t n, float* const* pixels,
                       int64_t count) {
  const int64_t at = block * channels_ + channel;
  PixelNormGrad pass = pass_;
  pass.norm.mean += channel;
  pass.norm.scale += channel;
  pass.norm.bias += channel;
  batch_norm_grad_pixels(sums_.data<float>() + at, products_.data<float>() + at, pass, pixels,
                         count, n);
}

Tensor NormGradient::joined() const {
  constexpr int64_t kGrain = 16384, kChannels = 16;  // blocks and channels; channels at least
  Tensor result = empty({2, channels_}, {.dtype = kF64});
  const auto join = [&](const Tensor& parts, double* to) {
    const float* const from = parts.data<float>();
    parallel_for(channels_, std::max(kChannels, kGrain / std::max(blocks_, int64_t{1})),
                 [&](int64_t begin, int64_t end) {
                   std::fill(to + begin, to + end, 0.0);
                   for (int64_t block = 0; block < blocks_; ++block) {
                     const float* const row = from + block * channels_;
                     for (int64_t c = begin; c < end; ++c) to[c] += row[c];
                   }
                 });
  };
  join(sums_, result.data<double>());
  join(products_, result.data<double>() + channels_);
  return result;
}

}  // namespace lathe::cpu
