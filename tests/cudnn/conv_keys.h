// Keys of convolutions for tests, as conv2d_cudnn.cpp makes them of its tensors.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "../ops/conv2d_cases.h"
#include "lathe/ops/conv/conv2d_geometry.h"
#include "lathe/ops/conv_search/conv_key.h"

namespace lathe::test {

inline ConvTensor conv_tensor(const Shape& shape, DType dtype, MemoryFormat format) {
  const Strides strides = dense_strides(shape, format);
  ConvTensor t{.dtype = dtype, .alignment = 16};
  std::copy(shape.begin(), shape.end(), t.dims.begin());
  std::copy(strides.begin(), strides.end(), t.strides.begin());
  return t;
}

inline ConvKey conv_key(const Conv2dGeometry& g, ConvPass pass, DType dtype, MemoryFormat format) {
  ConvKey key;
  key.pass = pass;
  key.x = conv_tensor(g.x_shape(), dtype, format);
  key.w = conv_tensor(g.w_shape(), dtype, format);
  key.y = conv_tensor(g.y_shape(), dtype, format);
  key.stride = {g.stride.rows, g.stride.cols};
  key.pad = {g.pad.rows, g.pad.cols};
  key.dilation = {g.dilation.rows, g.dilation.cols};
  key.groups = g.groups;
  return key;
}

inline Conv2dGeometry geometry_of(const Conv2dCase& c) {
  return conv2d_geometry("test", c.x, c.w, c.opt);
}

/// Every convolution of ResNet-18, each once: for 32x32 images and for 224x224 ones.
inline std::vector<Conv2dCase> resnet18_convolutions(int64_t batch) {
  std::vector<Conv2dCase> all = {
      {"CIFAR stem", {batch, 3, 32, 32}, {64, 3, 3, 3}, {.pad = 1}},
      {"ImageNet stem", {batch, 3, 224, 224}, {64, 3, 7, 7}, {.stride = 2, .pad = 3}}};
  for (const int64_t first : {32, 56}) {
    int64_t size = first;
    for (int64_t channels = 64; channels <= 512; channels *= 2) {
      const auto add = [&](const char* name, int64_t in, int64_t kernel, int64_t stride) {
        all.push_back({concat(name, " ", in, "->", channels, " at ", size),
                       {batch, in, size, size},
                       {channels, in, kernel, kernel},
                       {.stride = stride, .pad = kernel / 2}});
      };
      if (channels > 64) {
        add("first of a stage", channels / 2, 3, 2);
        add("shortcut", channels / 2, 1, 2);
        size /= 2;
      }
      add("block", channels, 3, 1);
    }
  }
  return all;
}

inline constexpr ConvPass kPasses[] = {ConvPass::kForward, ConvPass::kBackwardInput,
                                       ConvPass::kBackwardWeight};
inline constexpr MemoryFormat kFormats[] = {kContiguous, kChannelsLast};

}  // namespace lathe::test
