// Assignment 5: convolution as a matrix product.
#include "tiny/conv2d.h"

#include "numbers.h"

using namespace course;
using namespace tiny;

/// The formula at the head of conv2d.h, with seven loops.
static std::vector<double> loops(const Tensor& x, const Tensor& w, const Conv2dOptions& opt) {
  const int64_t N = x.dim(0), C = x.dim(1), H = x.dim(2), W = x.dim(3), K = w.dim(0), R = w.dim(2),
                S = w.dim(3);
  std::vector<double> y;
  for (int64_t n = 0; n < N; ++n)
    for (int64_t k = 0; k < K; ++k)
      for (int64_t top = -opt.pad; top + R <= H + opt.pad; top += opt.stride)
        for (int64_t left = -opt.pad; left + S <= W + opt.pad; left += opt.stride) {
          double sum = 0;
          for (int64_t c = 0; c < C; ++c)
            for (int64_t r = 0; r < R; ++r)
              for (int64_t s = 0; s < S; ++s) {
                const int64_t h = top + r, v = left + s;
                if (h < 0 || h >= H || v < 0 || v >= W) continue;
                sum += x.data()[((n * C + c) * H + h) * W + v] *
                       w.data()[((k * C + c) * R + r) * S + s];
              }
          y.push_back(sum);
        }
  return y;
}

struct Case {
  Shape x, w;
  Conv2dOptions opt;
};

static void expect_loops(const std::string& what, const Case& c) {
  const Tensor x = made_up(c.x, 1), w = made_up(c.w, 2);
  expect_close(what, values(conv2d(x, w, c.opt)), loops(x, w, c.opt));
}

static void expect_gradient_of(int input, const Case& c) {
  const Tensor x = made_up(c.x, 1), w = made_up(c.w, 2);
  if (input == 0)
    expect_gradients("x", {x}, [&](const Tensors& in) { return conv2d(in[0], w, c.opt); });
  else
    expect_gradients("w", {w}, [&](const Tensors& in) { return conv2d(x, in[0], c.opt); });
}

int main() {
  Report report;
  report.test(3, "the size of the output", [] {
    const auto size = [](const Shape& x, const Shape& w, const Conv2dOptions& opt) {
      const Conv2dSizes z = conv2d_sizes(x, w, opt);
      return std::vector<int64_t>{z.P, z.Q};
    };
    expect_equal("6 x 5, 3 x 2", size({1, 1, 6, 5}, {1, 1, 3, 2}, {}), {4, 4});
    expect_equal("6 x 5, 3 x 3, a border of 1", size({1, 1, 6, 5}, {1, 1, 3, 3}, {.pad = 1}),
                 {6, 5});
    expect_equal("7 x 5, 3 x 3, a border of 1, stride 2",
                 size({1, 1, 7, 5}, {1, 1, 3, 3}, {.stride = 2, .pad = 1}), {4, 3});
    expect_equal("6 x 6, 3 x 3, stride 2: the last row is not used",
                 size({1, 1, 6, 6}, {1, 1, 3, 3}, {.stride = 2}), {2, 2});
  });
  report.test(3, "one channel, no border", [] {
    expect_loops("3 x 4 image, 2 x 2 filter", {{1, 1, 3, 4}, {1, 1, 2, 2}, {}});
    expect_loops("5 x 5 image, 2 x 3 filter", {{1, 1, 5, 5}, {1, 1, 2, 3}, {}});
  });
  report.test(2, "outside of the image is 0", [] {
    expect_loops("border of 1", {{1, 1, 4, 3}, {1, 1, 3, 3}, {.pad = 1}});
    expect_loops("border of 2", {{1, 1, 3, 3}, {1, 1, 3, 3}, {.pad = 2}});
  });
  report.test(2, "a stride of 2", [] {
    expect_loops("without a border", {{1, 1, 7, 6}, {1, 1, 3, 3}, {.stride = 2}});
    expect_loops("with a border", {{1, 1, 7, 6}, {1, 1, 3, 3}, {.stride = 2, .pad = 1}});
  });
  report.test(2, "images, channels and filters", [] {
    expect_loops("2 images, 3 channels, 4 filters", {{2, 3, 5, 4}, {4, 3, 3, 2}, {.pad = 1}});
  });
  report.test(3, "the gradient of w is summed over images and places", [] {
    expect_gradient_of(1, {{2, 2, 4, 4}, {3, 2, 3, 3}, {.pad = 1}});
    expect_gradient_of(1, {{3, 1, 5, 4}, {1, 1, 3, 2}, {.stride = 2}});
  });
  report.test(4, "the gradient of x adds up all columns that see a pixel", [] {
    expect_gradient_of(0, {{2, 2, 4, 4}, {3, 2, 3, 3}, {.pad = 1}});
    expect_gradient_of(0, {{1, 1, 5, 4}, {2, 1, 3, 2}, {}});
  });
  report.test(1, "the gradient of x with a stride of 2", [] {
    expect_gradient_of(0, {{1, 2, 7, 6}, {2, 2, 3, 3}, {.stride = 2, .pad = 1}});
  });
  return report.done();
}
