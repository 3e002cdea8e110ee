// Chapter 5: batch norm and its gradient: by the formula, by Lathe, and by differences.
#include <lathe/lathe.h>

#include <cmath>
#include <cstdio>
#include <vector>

using lathe::Tensor;

constexpr double kEps = 1e-5;

/// The gradient on paper, for one channel of weight 1: s (dy - mean(dy) - h mean(dy h)).
static std::vector<double> by_formula(const std::vector<double>& x, const std::vector<double>& dy) {
  const auto n = static_cast<double>(x.size());
  double mean = 0, var = 0, mean_dy = 0, mean_dyh = 0;
  for (const double value : x) mean += value / n;
  for (const double value : x) var += (value - mean) * (value - mean) / n;
  const double s = 1 / std::sqrt(var + kEps);
  for (size_t i = 0; i < x.size(); ++i) {
    mean_dy += dy[i] / n;
    mean_dyh += dy[i] * (x[i] - mean) * s / n;
  }
  std::vector<double> dx;
  for (size_t i = 0; i < x.size(); ++i)
    dx.push_back(s * (dy[i] - mean_dy - (x[i] - mean) * s * mean_dyh));
  return dx;
}

static Tensor normalized(const Tensor& x) {
  return lathe::batch_norm(x, {}, {}, {}, {}, {.training = true, .eps = kEps});
}

static void print(const char* name, const std::vector<double>& values) {
  std::printf("%-14s", name);
  for (const double value : values) std::printf(" %9.5f", value + 0.0);
  std::printf("\n");
}

int main() {
  // Five samples of one channel.
  const std::vector<double> x_values = {1, 2, 4, 4, 9}, dy_values = {-1, 0, 0, 1, 2};
  const Tensor x = lathe::tensor(x_values).reshape({5, 1});
  const Tensor dy = lathe::tensor(dy_values).reshape({5, 1});
  x.requires_grad_();
  const Tensor y = normalized(x);
  print("x", x_values);
  print("dy", dy_values);
  print("y", y.detach().to_vector<double>());
  y.backward(dy);
  const std::vector<double> dx = x.grad().to_vector<double>();
  print("by formula", by_formula(x_values, dy_values));
  print("by backward()", dx);

  std::vector<double> by_differences;
  for (size_t i = 0; i < x_values.size(); ++i) {
    const lathe::NoGrad off;
    const double step = 1e-5;
    Tensor up = x.detach().clone(), down = x.detach().clone();
    up[static_cast<int64_t>(i)] = x_values[i] + step;
    down[static_cast<int64_t>(i)] = x_values[i] - step;
    by_differences.push_back(((normalized(up) - normalized(down)) * dy).sum().item<double>() /
                             (2 * step));
  }
  print("by differences", by_differences);

  // y does not change if x moves as a whole, nor (but for eps) if it is stretched. So the gradient
  // has nothing in these two directions.
  double along_one = 0, along_h = 0;
  const std::vector<double> h = y.detach().to_vector<double>();
  for (size_t i = 0; i < dx.size(); ++i) {
    along_one += dx[i];
    along_h += dx[i] * h[i];
  }
  std::printf("sum of dx      %9.5f\nsum of dx * y  %9.5f\n", std::abs(along_one),
              std::abs(along_h));
}
