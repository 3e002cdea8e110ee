// The model of the tests of LoRA.
#pragma once

#include <string>
#include <vector>

#include "lathe/lathe.h"
#include "lathe/nn/lora.h"

namespace lathe::testing {

/// make_lora_golden.py's model.
struct Net final : nn::Module {
  nn::Embedding emb{*this, "emb", 7, 4, EmbeddingOptions{.padding_index = 0}};
  nn::Conv2d conv{*this, "conv", 2, 4, nn::Conv2dOptions{.kernel = 3, .stride = 2, .pad = 1}};
  nn::Linear fc{*this, "fc", 4, 6};
  nn::Linear head{*this, "head", 6, 3};
  Tensor words = tensor({0, 3, 6});

  Tensor forward(const Tensor& x) override {
    return head(relu(fc(conv(x).mean({2, 3}) + emb(words).sum({0}))));
  }
};

inline const std::vector<std::string> kAdapted = {"emb", "conv", "fc"};

/// An adapter adds nothing until its second matrix is other than 0.
inline void randomise(const nn::Lora& lora) {
  const NoGrad off;
  for (const Tensor& p : lora.parameters()) p.copy_(randn_like(p) * 0.3);
}

inline double difference(const Tensor& a, const Tensor& b) {
  return (a.to(kF64) - b.to(kF64)).abs().max().item<double>();
}

}  // namespace lathe::testing
