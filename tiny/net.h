// Layers and the network. A layer holds parameters and calls one op; a network is a list of layers.
#pragma once

#include "batch_norm.h"
#include "conv2d.h"
#include "cross_entropy.h"
#include "max_pool2d.h"
#include "random.h"

namespace tiny {

/// The bound of initial values where an output adds up `fan_in` products. The variance of their sum
/// is fan_in times that of one, which grows with the square of the values. So with values bounded
/// by 1 / sqrt(fan_in), outputs are of one size, whatever fan_in is.
inline double fan_in_bound(int64_t fan_in) { return 1 / std::sqrt(fan_in); }

/// 3x3 filters with a border of one zero: the image keeps its size. No bias: a batch norm that
/// follows would take it away with the mean.
struct Conv2d {
  Tensor weight;  // [out,in,3,3]

  Conv2d(int64_t in, int64_t out, Generator& random)
      : weight(parameter(random.uniform({out, in, 3, 3}, fan_in_bound(in * 9)))) {}
  Tensor operator()(const Tensor& x) const { return conv2d(x, weight, {.pad = 1}); }
};

struct BatchNorm2d {
  Tensor weight, bias;               // [C], learnt
  Tensor running_mean, running_var;  // [C], averages over the batches: for evaluation

  explicit BatchNorm2d(int64_t channels)
      : weight(parameter(ones(channels))),
        bias(parameter(Tensor({channels}))),
        running_mean({channels}),
        running_var(ones(channels)) {}
  Tensor operator()(const Tensor& x, bool training) {
    return batch_norm(x, weight, bias, running_mean, running_var, {.training = training});
  }

 private:
  static Tensor ones(int64_t channels) { return {{channels}, std::vector<double>(channels, 1.0)}; }
};

struct Linear {
  Tensor weight, bias;  // [out,in], [out]

  Linear(int64_t in, int64_t out, Generator& random)
      : weight(parameter(random.uniform({out, in}, fan_in_bound(in)))),
        bias(parameter(random.uniform({out}, fan_in_bound(in)))) {}
  Tensor operator()(const Tensor& x) const { return linear(x, weight, bias); }
};

/// x [N,1,H,W] → conv 3x3, batch norm, relu, pool 2x2 → the same again with twice the channels →
/// linear → scores [N,classes].
struct Net {
  Conv2d conv1;
  BatchNorm2d bn1;
  Conv2d conv2;
  BatchNorm2d bn2;
  Linear fc;

  Net(int64_t height, int64_t width, int64_t classes, Generator& random, int64_t channels = 8)
      : conv1(1, channels, random),
        bn1(channels),
        conv2(channels, 2 * channels, random),
        bn2(2 * channels),
        fc(2 * channels * (height / 4) * (width / 4), classes, random) {}

  /// training: batch norm uses and keeps the statistics of the batch.
  Tensor forward(const Tensor& x, bool training) {
    const Tensor a = max_pool2d(relu(bn1(conv1(x), training)), 2);
    const Tensor b = max_pool2d(relu(bn2(conv2(a), training)), 2);
    return fc(reshape(b, {b.dim(0), b.numel() / b.dim(0)}));
  }

  std::vector<Tensor> parameters() const {
    return {conv1.weight, bn1.weight, bn1.bias,  conv2.weight,
            bn2.weight,   bn2.bias,   fc.weight, fc.bias};
  }
};

}  // namespace tiny

// What the real one adds, and why
// - nn/module.h finds parameters and buffers by itself, moves them to a device, and names them,
//   because a checkpoint needs names (nn/checkpoint.h).
