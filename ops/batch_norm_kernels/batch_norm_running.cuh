// The running statistics of batch normalisation on a GPU, and what the thread that finishes a
// channel reads of it. For .cu files only.
#pragma once

#include "lathe/ops/batch_norm_kernels/batch_norm_layout.cuh"

namespace lathe::cuda {

/// The running statistics; null if they stay as they are.
template <class S>
struct Running {
  S *mean, *var;
  int64_t mean_stride, var_stride;
  double momentum, unbias;  // unbias: factor of the variance
  unsigned long long* num_batches;
};

/// What a thread that finishes channel c reads of it. Read before the sums are known: in a training
/// step none of this is in the cache, and one after another the reads cost several microseconds.
template <class S>
struct ChannelValues {
  S weight, bias, running_mean, running_var;

  __device__ ChannelValues(const ChannelParams<S>& params, const Running<S>& running, int64_t c,
                           bool moves)
      : weight(params.weight[c]),
        bias(params.bias[c]),
        running_mean(moves ? running.mean[c * running.mean_stride] : S(0)),
        running_var(moves ? running.var[c * running.var_stride] : S(0)) {}

  /// Channel 0 counts the batch, atomically: so its thread waits for no number, and no other thread
  /// reads the one that it writes.
  __device__ void move(const Running<S>& to, int64_t c, S mean, S var) const {
    const double keep = 1 - to.momentum;
    to.mean[c * to.mean_stride] = static_cast<S>(keep * running_mean + to.momentum * mean);
    to.var[c * to.var_stride] = static_cast<S>(keep * running_var + to.momentum * to.unbias * var);
    if (c == 0 && to.num_batches != nullptr) atomicAdd(to.num_batches, 1ull);
  }
};

template <class S>
Running<S> running_of(const BatchNormRunning& running, double count) {
  if (!running.mean.defined()) return {};
  auto* const counter = static_cast<unsigned long long*>(
      running.num_batches.defined() ? running.num_batches.raw_data() : nullptr);
  return {running.mean.data<S>(),
          running.var.data<S>(),
          running.mean.stride(0),
          running.var.stride(0),
          running.momentum,
          count / (count - 1),
          counter};
}

}  // namespace lathe::cuda
