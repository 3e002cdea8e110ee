// The convolutions that the tests ask every question of, and the definition as five loops.
#pragma once

#include <algorithm>
#include <string>

#include "lathe/core/tensor.h"
#include "lathe/ops/conv2d.h"

namespace lathe::test {

struct Conv2dCase {
  std::string name;
  Shape x, w;
  Conv2dOptions opt = {};
};

inline const Conv2dCase kConv2dCases[] = {
    {"the ResNet block", {2, 3, 8, 8}, {4, 3, 3, 3}, {.pad = 1}},
    {"odd sizes, last column unused", {1, 2, 7, 5}, {3, 2, 3, 3}, {.stride = 2, .pad = 1}},
    {"last rows unused", {2, 2, 6, 6}, {2, 2, 3, 3}, {.stride = 2}},
    {"dilation", {1, 2, 9, 9}, {2, 2, 3, 3}, {.dilation = 2}},
    {"the 1x1 shortcut", {2, 4, 6, 6}, {5, 4, 1, 1}, {.stride = 2}},
    {"1x1", {2, 4, 3, 5}, {3, 4, 1, 1}},
    {"1x1, padded", {1, 2, 3, 3}, {3, 2, 1, 1}, {.pad = 1}},
    {"one pixel", {3, 5, 1, 1}, {2, 5, 1, 1}},
    {"two groups", {2, 4, 5, 5}, {6, 2, 3, 3}, {.pad = 1, .groups = 2}},
    {"depthwise", {2, 3, 6, 5}, {3, 1, 3, 3}, {.stride = 2, .pad = 1, .groups = 3}},
    {"1x1 groups", {2, 4, 3, 3}, {2, 2, 1, 1}, {.groups = 2}},
    {"other rows than columns",
     {1, 2, 8, 9},
     {2, 2, 3, 2},
     {.stride = {2, 1}, .pad = {2, 0}, .dilation = {1, 3}}},
    {"kernel as large as the input", {2, 2, 4, 3}, {3, 2, 4, 3}},
    {"one output channel of one", {1, 1, 5, 5}, {1, 1, 3, 3}},
    {"pad beyond the kernel", {1, 1, 2, 2}, {1, 1, 2, 2}, {.pad = 3}},
    {"no images", {0, 2, 5, 5}, {3, 2, 3, 3}},
    {"no input channels", {2, 0, 5, 5}, {3, 0, 3, 3}},
    {"no output channels", {2, 2, 5, 5}, {0, 2, 3, 3}},
    {"nothing but padding", {1, 2, 0, 3}, {2, 2, 3, 3}, {.pad = 2}},
};

/// All multiplications of a convolution: f(index in y, index in x, index in w).
template <class F>
void for_each_product(const Conv2dCase& c, const Shape& y, F&& f) {
  const auto at = [](const Shape& s, int64_t a, int64_t b, int64_t i, int64_t j) {
    return static_cast<size_t>(((a * s[1] + b) * s[2] + i) * s[3] + j);
  };
  const int64_t group_k = std::max<int64_t>(c.w[0] / c.opt.groups, 1);
  for (int64_t n = 0; n < y[0]; ++n)
    for (int64_t k = 0; k < y[1]; ++k)
      for (int64_t p = 0; p < y[2]; ++p)
        for (int64_t q = 0; q < y[3]; ++q)
          for (int64_t ch = 0; ch < c.w[1]; ++ch)
            for (int64_t r = 0; r < c.w[2]; ++r)
              for (int64_t s = 0; s < c.w[3]; ++s) {
                const int64_t h = p * c.opt.stride.rows - c.opt.pad.rows + r * c.opt.dilation.rows;
                const int64_t w = q * c.opt.stride.cols - c.opt.pad.cols + s * c.opt.dilation.cols;
                if (h < 0 || h >= c.x[2] || w < 0 || w >= c.x[3]) continue;
                f(at(y, n, k, p, q), at(c.x, n, k / group_k * c.w[1] + ch, h, w),
                  at(c.w, k, ch, r, s));
              }
}

}  // namespace lathe::test
