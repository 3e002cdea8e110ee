// Cross-entropy: how badly scores z [N,C] predict the classes. Softmax makes them probabilities:
//
//   p_c = exp(z_c) / sum over j of exp(z_j)
//
// and the loss of an image of class t is -log p_t, averaged over the batch. With m = max z,
//
//   -log p_t = -(z_t - m) + log sum over j of exp(z_j - m)
//
// which is the same and cannot overflow: the largest exponent is 0.
//
// Its gradient: dz_t/dz_c = [c = t] (1 if c = t, else 0), and the derivative of log sum exp(z_j)
// by z_c is exp(z_c) / sum exp(z_j) = p_c. So
//
//   d(-log p_t)/dz_c = p_c - [c = t]
//
// the probabilities minus one at the right class (softmax - onehot), divided by N for the average.
#pragma once

#include "pointwise.h"

namespace tiny {

using Labels = std::vector<int64_t>;

/// log softmax of each row of z [N,C].
inline Tensor log_softmax(const Tensor& z) {
  Tensor log_p = copy_of(z);
  const int64_t C = z.dim(1);
  for (int64_t n = 0; n < z.dim(0); ++n) {
    double* row = log_p.data() + n * C;
    const double largest = *std::max_element(row, row + C);
    double sum = 0;
    for (int64_t c = 0; c < C; ++c) sum += std::exp(row[c] - largest);
    for (int64_t c = 0; c < C; ++c) row[c] = row[c] - largest - std::log(sum);
  }
  return log_p;
}

/// The mean loss, of the shape []. z [N,C]; labels: N numbers below C.
/// throws: ShapeError; ValueError naming the first label that is out of range.
inline Tensor cross_entropy(const Tensor& z, const Labels& labels) {
  const int64_t N = labels.size(), C = z.shape().empty() ? 0 : z.shape().back();
  check<ShapeError>(z.shape() == Shape{N, C} && N > 0 && C > 0,
                    "cross_entropy: scores must be [N,C] for ", N, " labels, got ", z.shape());
  for (int64_t n = 0; n < N; ++n)
    check<ValueError>(0 <= labels[n] && labels[n] < C, "cross_entropy: label ", n, " is ",
                      labels[n], ", not in 0 to ", C - 1);
  const Tensor log_p = log_softmax(z);
  double loss = 0;
  for (int64_t n = 0; n < N; ++n) loss -= log_p.data()[n * C + labels[n]] / N;
  return record("cross_entropy", Tensor({}, {loss}), {z},
                [log_p = Saved(log_p), labels, N, C](const Tensor& dy, const Needs&) {
                  Tensor dz = map(log_p.get(), [](double v) { return std::exp(v); });
                  for (int64_t n = 0; n < N; ++n) dz.data()[n * C + labels[n]] -= 1;
                  return std::vector{map(dz, [&](double v) { return v * dy.item() / N; })};
                });
}

}  // namespace tiny

// What the real one adds, and why
// - ops/losses/cross_entropy.h keeps two numbers per row, the maximum and the logarithm of the sum,
//   instead of N * C: with the words of a language as classes that is most of a model's memory.
// - On a GPU a label out of range is known only after the kernel: the next call that waits throws.
