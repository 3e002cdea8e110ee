// A small convolutional network, trained without Lathe: forward and backward pass by hand, in
// double precision, one loop per formula. docs/tour points here for every formula that it names;
// tests/tour/from_scratch_test.cpp trains the same network with Lathe and compares every number.
//
//   x [4,2,6,6] → conv1 3x3 → batch norm → relu → conv2 3x3 → relu → mean → linear → cross-entropy
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

namespace from_scratch {

using Numbers = std::vector<double>;

// Sizes: images, input channels, rows, columns; channels after conv1 and conv2; classes.
constexpr int64_t kN = 4, kC = 2, kH = 6, kW = 6, kK = 3, kL = 5, kClasses = 3;
constexpr int64_t kPixels = kH * kW;
constexpr double kEps = 1e-5;  // of batch norm

// "a += b" for whole arrays would hide the arithmetic. What is left are these two.
Numbers zeros(int64_t count) { return Numbers(static_cast<size_t>(count), 0.0); }
double& at(Numbers& v, int64_t i) { return v[static_cast<size_t>(i)]; }
double at(const Numbers& v, int64_t i) { return v[static_cast<size_t>(i)]; }

/// `count` numbers in (-scale, scale) that look random and are the same on every machine.
Numbers made_up(int64_t count, int64_t salt, double scale) {
  Numbers out = zeros(count);
  uint64_t state = static_cast<uint64_t>(salt) * 2654435761u + 12345;
  for (double& value : out) {
    state = state * 6364136223846793005u + 1442695040888963407u;           // Knuth's generator
    value = scale * (static_cast<double>(state >> 40) / 8388608.0 - 1.0);  // 24 bits
  }
  return out;
}

// --- convolution, 3x3 with a border of one zero -------------------------------------------------

/// y[n,k,p,q] = sum over c,r,s of x[n,c,p+r-1,q+s-1] · w[k,c,r,s]. Calls f(index in y, in x, in w)
/// for every product of that sum. All three passes are this loop: each product adds to one of the
/// three arrays what the other two say.
void for_each_product(int64_t C, int64_t K,
                      const std::function<void(int64_t y, int64_t x, int64_t w)>& f) {
  for (int64_t n = 0; n < kN; ++n)
    for (int64_t k = 0; k < K; ++k)
      for (int64_t p = 0; p < kH; ++p)
        for (int64_t q = 0; q < kW; ++q)
          for (int64_t c = 0; c < C; ++c)
            for (int64_t r = 0; r < 3; ++r)
              for (int64_t s = 0; s < 3; ++s) {
                const int64_t h = p + r - 1, v = q + s - 1;
                if (h < 0 || h >= kH || v < 0 || v >= kW) continue;  // the border of zeros
                f(((n * K + k) * kH + p) * kW + q, ((n * C + c) * kH + h) * kW + v,
                  ((k * C + c) * 3 + r) * 3 + s);
              }
}

Numbers conv(const Numbers& x, const Numbers& w, int64_t C, int64_t K) {
  Numbers y = zeros(kN * K * kPixels);
  for_each_product(C, K,
                   [&](int64_t iy, int64_t ix, int64_t iw) { at(y, iy) += at(x, ix) * at(w, iw); });
  return y;
}

Numbers conv_input_grad(const Numbers& dy, const Numbers& w, int64_t C, int64_t K) {
  Numbers dx = zeros(kN * C * kPixels);
  for_each_product(
      C, K, [&](int64_t iy, int64_t ix, int64_t iw) { at(dx, ix) += at(dy, iy) * at(w, iw); });
  return dx;
}

Numbers conv_weight_grad(const Numbers& dy, const Numbers& x, int64_t C, int64_t K) {
  Numbers dw = zeros(K * C * 9);
  for_each_product(
      C, K, [&](int64_t iy, int64_t ix, int64_t iw) { at(dw, iw) += at(dy, iy) * at(x, ix); });
  return dw;
}

// --- batch norm over channels, with the statistics of the batch ----------------------------------

/// Calls f(i) for the index of every value of channel k of an array [N,channels,H,W].
void for_each_of_channel(int64_t k, int64_t channels, const std::function<void(int64_t)>& f) {
  for (int64_t n = 0; n < kN; ++n)
    for (int64_t i = 0; i < kPixels; ++i) f((n * channels + k) * kPixels + i);
}

struct Normalized {
  Numbers h;       // (x - mean) / sqrt(var + eps)
  Numbers invstd;  // 1 / sqrt(var + eps), one per channel
};

Normalized normalize(const Numbers& x, int64_t channels) {
  Normalized out{zeros(kN * channels * kPixels), zeros(channels)};
  const double count = kN * kPixels;
  for (int64_t k = 0; k < channels; ++k) {
    double mean = 0, var = 0;
    for_each_of_channel(k, channels, [&](int64_t i) { mean += at(x, i) / count; });
    for_each_of_channel(k, channels,
                        [&](int64_t i) { var += (at(x, i) - mean) * (at(x, i) - mean) / count; });
    at(out.invstd, k) = 1 / std::sqrt(var + kEps);
    for_each_of_channel(k, channels,
                        [&](int64_t i) { at(out.h, i) = (at(x, i) - mean) * at(out.invstd, k); });
  }
  return out;
}

struct NormGrads {
  Numbers dx, dgamma, dbeta;
};

/// y = gamma · h + beta. With means over a channel:
///   dgamma = sum(dy h),  dbeta = sum(dy),  dx = gamma · invstd · (dy - mean(dy) - h · mean(dy h))
NormGrads norm_grads(const Numbers& dy, const Normalized& norm, const Numbers& gamma) {
  const auto channels = static_cast<int64_t>(gamma.size());
  NormGrads out{zeros(kN * channels * kPixels), zeros(channels), zeros(channels)};
  const double count = kN * kPixels;
  for (int64_t k = 0; k < channels; ++k) {
    double &sum_dyh = at(out.dgamma, k), &sum_dy = at(out.dbeta, k);
    for_each_of_channel(k, channels, [&](int64_t i) {
      sum_dyh += at(dy, i) * at(norm.h, i);
      sum_dy += at(dy, i);
    });
    const double scale = at(gamma, k) * at(norm.invstd, k);
    for_each_of_channel(k, channels, [&](int64_t i) {
      at(out.dx, i) = scale * (at(dy, i) - sum_dy / count - at(norm.h, i) * sum_dyh / count);
    });
  }
  return out;
}

// --- relu, and softmax with cross-entropy --------------------------------------------------------

Numbers relu(Numbers x) {
  for (double& value : x) value = value > 0 ? value : 0;
  return x;
}

/// Passes where the output is positive: it is enough to keep y.
Numbers relu_grad(Numbers dy, const Numbers& y) {
  for (size_t i = 0; i < dy.size(); ++i) dy[i] = y[i] > 0 ? dy[i] : 0;
  return dy;
}

struct Loss {
  double value;
  Numbers dscores;  // its gradient: (softmax(scores) - one at the label) / N
};

Loss cross_entropy(const Numbers& scores, const std::vector<int64_t>& labels) {
  Loss out{0, zeros(kN * kClasses)};
  for (int64_t n = 0; n < kN; ++n) {
    double largest = at(scores, n * kClasses), sum = 0;
    for (int64_t j = 0; j < kClasses; ++j)
      largest = std::max(largest, at(scores, n * kClasses + j));
    for (int64_t j = 0; j < kClasses; ++j) sum += std::exp(at(scores, n * kClasses + j) - largest);
    for (int64_t j = 0; j < kClasses; ++j) {
      const double log_p = at(scores, n * kClasses + j) - largest - std::log(sum);
      const bool right = j == labels[static_cast<size_t>(n)];
      if (right) out.value -= log_p / kN;
      at(out.dscores, n * kClasses + j) = (std::exp(log_p) - (right ? 1 : 0)) / kN;
    }
  }
  return out;
}

// --- the network ---------------------------------------------------------------------------------

struct Parameter {
  std::string name;
  Numbers value, grad = {}, velocity = {};
};

struct Net {
  Parameter conv1{"conv1.weight", made_up(kK* kC * 9, 1, 0.3)};
  Parameter gamma{"bn1.weight", Numbers(kK, 1.0)};
  Parameter beta{"bn1.bias", zeros(kK)};
  Parameter conv2{"conv2.weight", made_up(kL* kK * 9, 2, 0.3)};
  Parameter weight{"fc.weight", made_up(kClasses* kL, 3, 0.5)};
  Parameter bias{"fc.bias", zeros(kClasses)};

  std::vector<Parameter*> parameters() { return {&conv1, &gamma, &beta, &conv2, &weight, &bias}; }

  /// One pass forward and one backward: sets every parameter's grad, and returns the loss.
  double forward_and_backward(const Numbers& x, const std::vector<int64_t>& labels) {
    const Numbers a = conv(x, conv1.value, kC, kK);
    const Normalized norm = normalize(a, kK);
    Numbers b = norm.h;
    for (int64_t k = 0; k < kK; ++k)
      for_each_of_channel(
          k, kK, [&](int64_t i) { at(b, i) = at(gamma.value, k) * at(b, i) + at(beta.value, k); });
    const Numbers c = relu(b);
    const Numbers d = relu(conv(c, conv2.value, kK, kL));
    Numbers pooled = zeros(kN * kL);  // the mean over each channel of each image
    for (int64_t i = 0; i < kN * kL * kPixels; ++i) at(pooled, i / kPixels) += at(d, i) / kPixels;
    Numbers scores = zeros(kN * kClasses);
    for (int64_t n = 0; n < kN; ++n)
      for (int64_t j = 0; j < kClasses; ++j) {
        at(scores, n * kClasses + j) = at(bias.value, j);
        for (int64_t l = 0; l < kL; ++l)
          at(scores, n * kClasses + j) += at(pooled, n * kL + l) * at(weight.value, j * kL + l);
      }
    const Loss loss = cross_entropy(scores, labels);

    // Backward: the same lines from the bottom up, each with its own gradient.
    Numbers dpooled = zeros(kN * kL);
    weight.grad = zeros(kClasses * kL);
    bias.grad = zeros(kClasses);
    for (int64_t n = 0; n < kN; ++n)
      for (int64_t j = 0; j < kClasses; ++j) {
        const double g = at(loss.dscores, n * kClasses + j);
        at(bias.grad, j) += g;
        for (int64_t l = 0; l < kL; ++l) {
          at(weight.grad, j * kL + l) += g * at(pooled, n * kL + l);
          at(dpooled, n * kL + l) += g * at(weight.value, j * kL + l);
        }
      }
    Numbers dd = zeros(kN * kL * kPixels);
    for (int64_t i = 0; i < kN * kL * kPixels; ++i) at(dd, i) = at(dpooled, i / kPixels) / kPixels;
    dd = relu_grad(dd, d);
    conv2.grad = conv_weight_grad(dd, c, kK, kL);
    const Numbers db = relu_grad(conv_input_grad(dd, conv2.value, kK, kL), c);
    const NormGrads norm_grad = norm_grads(db, norm, gamma.value);
    gamma.grad = norm_grad.dgamma;
    beta.grad = norm_grad.dbeta;
    conv1.grad = conv_weight_grad(norm_grad.dx, x, kC, kK);
    return loss.value;
  }

  /// SGD: g += decay·p; v = momentum·v + g, the first v is g; p -= lr·v.
  void step(double lr, double momentum, double decay) {
    for (Parameter* p : parameters()) {
      const bool first = p->velocity.empty();
      if (first) p->velocity = zeros(static_cast<int64_t>(p->value.size()));
      for (size_t i = 0; i < p->value.size(); ++i) {
        const double g = p->grad[i] + decay * p->value[i];
        p->velocity[i] = first ? g : momentum * p->velocity[i] + g;
        p->value[i] -= lr * p->velocity[i];
      }
    }
  }
};

/// The batch: made-up images, of which those of class j are brighter in row j.
struct Batch {
  Numbers x = made_up(kN * kC * kPixels, 4, 1.0);
  std::vector<int64_t> labels = {0, 1, 2, 1};

  Batch() {
    for (int64_t n = 0; n < kN; ++n)
      for (int64_t c = 0; c < kC; ++c)
        for (int64_t q = 0; q < kW; ++q)
          at(x, ((n * kC + c) * kH + labels[static_cast<size_t>(n)]) * kW + q) += 2;
  }
};

constexpr double kLr = 0.1, kMomentum = 0.9, kDecay = 0.01;

}  // namespace from_scratch

int main() {
  using namespace from_scratch;
  const Batch batch;
  Net net;
  for (int step = 0; step < 30; ++step) {
    const double loss = net.forward_and_backward(batch.x, batch.labels);
    if (step == 0) {
      std::printf("lengths of the gradients of the first step:\n");
      for (const Parameter* p : net.parameters()) {
        double sum = 0;
        for (const double g : p->grad) sum += g * g;
        std::printf("  %-12s %9.6f\n", p->name.c_str(), std::sqrt(sum));
      }
    }
    net.step(kLr, kMomentum, kDecay);
    if (step % 5 == 0 || step == 29) std::printf("step %2d  loss %.6f\n", step, loss);
  }
  return 0;
}
