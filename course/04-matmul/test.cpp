// Assignment 4: a product of matrices, and its gradient.
#include "tiny/matmul.h"

#include <chrono>

#include "numbers.h"

using namespace course;
using namespace tiny;

static std::vector<double> textbook(const Tensor& a, const Tensor& b) {
  const int64_t M = a.dim(0), K = a.dim(1), N = b.dim(1);
  const std::vector<double> x = values(a), y = values(b);
  std::vector<double> z(M * N, 0.0);
  for (int64_t m = 0; m < M; ++m)
    for (int64_t n = 0; n < N; ++n)
      for (int64_t k = 0; k < K; ++k) z[m * N + n] += x[m * K + k] * y[k * N + n];
  return z;
}

static double seconds_of(const std::function<void()>& f) {
  const auto begin = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

int main() {
  Report report;
  report.test(4, "a product of matrices that are not square", [] {
    const Tensor a = made_up({3, 4}, 1), b = made_up({4, 5}, 2);
    expect_close("[3,4] times [4,5]", values(matmul(a, b)), textbook(a, b));
    const Tensor row = made_up({1, 7}, 3), column = made_up({7, 1}, 4);
    expect_close("[1,7] times [7,1]", values(matmul(row, column)), textbook(row, column));
    expect_close("[7,1] times [1,7]", values(matmul(column, row)), textbook(column, row));
  });
  report.test(2, "an operand that is a view", [] {
    const Tensor a = made_up({4, 3}, 1), b = made_up({5, 4}, 2);
    expect_close("of two transposed ones", values(matmul(transpose(a), transpose(b))),
                 textbook(transpose(a), transpose(b)));
  });
  report.test(3, "add_product adds to what is there", [] {
    const Tensor a = made_up({2, 3}, 1), b = made_up({3, 2}, 2);
    Tensor c({2, 2}, {10, 20, 30, 40});
    add_product(a, b, c);
    std::vector<double> expected = textbook(a, b);
    for (int i = 0; i < 4; ++i) expected[i] += 10 * (i + 1);
    expect_close("c", values(c), expected);
  });
  report.test(3, "the gradient of a", [] {
    const Tensor a = made_up({3, 4}, 1), b = made_up({4, 2}, 2);
    expect_gradients("a, with b constant", {a},
                     [&](const Tensors& in) { return matmul(in[0], b); });
  });
  report.test(3, "the gradient of b", [] {
    const Tensor a = made_up({3, 4}, 1), b = made_up({4, 2}, 2);
    expect_gradients("b, with a constant", {b},
                     [&](const Tensors& in) { return matmul(a, in[0]); });
  });
  report.test(2, "what is not needed is not computed", [] {
    const Tensor x = parameter(made_up({2, 2}, 1));
    const Tensor y = matmul(x, made_up({2, 2}, 2));
    const std::vector<Tensor> gradients =
        y.meta()->maker->backward(made_up({2, 2}, 3), {true, false});
    expect(gradients.size() == 2 && gradients[0].defined(), "da is wanted and not there");
    expect(!gradients[1].defined(), "db is not wanted, and was computed");
  });
  report.test(3, "walks along rows: clearly faster than the textbook's order of loops", [] {
    constexpr int64_t n = 256;
    const Tensor a = made_up({n, n}, 1), b = made_up({n, n}, 2);
    Tensor c({n, n});
    const auto textbook = [&] {
      for (int64_t m = 0; m < n; ++m)
        for (int64_t k = 0; k < n; ++k) {
          double sum = 0;
          for (int64_t i = 0; i < n; ++i) sum += a.data()[m * n + i] * b.data()[i * n + k];
          c.data()[m * n + k] = sum;
        }
    };
    double slow = 1e9, yours = 1e9;
    for (int i = 0; i < 7; ++i) {  // in turns, and the best of each: other programs come and go
      slow = std::min(slow, seconds_of(textbook));
      yours = std::min(yours, seconds_of([&] { add_product(a, b, c); }));
    }
    std::ostringstream text;
    text << "256³ products: " << yours * 1e3 << " ms, the textbook's loops " << slow * 1e3
         << " ms. Does your inner loop walk along rows? If it does, take data() out of the loops";
    expect(yours * 1.3 < slow, text.str());
  });
  return report.done();
}
