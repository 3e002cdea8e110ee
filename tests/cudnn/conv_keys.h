// Convolutions for tests of cuDNN; conv2d_key() makes keys of them.
#pragma once

#include <string>
#include <vector>

#include "../ops/conv2d_cases.h"
#include "lathe/ops/conv/conv2d_geometry.h"
#include "lathe/ops/conv/search/conv2d_key.h"

namespace lathe::test {

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
