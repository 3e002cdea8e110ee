// Small trainings for tests of train::Trainer.
#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lathe/core/random/generator.h"
#include "lathe/core/state_dict.h"
#include "lathe/data/data_loader.h"
#include "lathe/nn/batch_norm.h"
#include "lathe/nn/containers.h"
#include "lathe/nn/dropout.h"
#include "lathe/nn/linear.h"
#include "lathe/ops/creation.h"
#include "lathe/optim/sgd.h"

namespace lathe::test {

/// 22 samples of two classes.
inline std::shared_ptr<const data::Dataset> samples(int64_t count = 22) {
  return std::make_shared<data::FunctionDataset>(data::from_function(count, [](int64_t i) {
    return data::Example{full({4}, std::sin(static_cast<double>(i))),
                         full({}, i % 2, {.dtype = kI64})};
  }));
}

/// A network with all that a checkpoint must hold: batch norm's statistics, dropout's generator.
struct Net {
  nn::Sequential model;
  std::unique_ptr<optim::SGD> optimizer;
  data::DataLoader train, test;

  explicit Net(uint64_t seed = 3)
      : train(samples(), {.batch_size = 4, .shuffle = true, .seed = 1}),
        test(samples(10), {.batch_size = 4}) {
    manual_seed(seed);
    model.add<nn::Linear>(4, 8);
    model.add<nn::BatchNorm1d>(8);
    model.add<nn::Dropout>(0.3);
    model.add<nn::Linear>(8, 2);
    optimizer = std::make_unique<optim::SGD>(model.parameters(),
                                             optim::SGDOptions{.lr = 0.1, .momentum = 0.9});
  }
};

inline std::map<std::string, std::vector<double>> values_of(const StateDict& state) {
  std::map<std::string, std::vector<double>> out;
  for (const auto& [name, t] : state) out[name] = t.to(kF64).to_vector<double>();
  return out;
}

/// A task without classes: x is to be reproduced.
struct Pair {
  Tensor x, wanted;
};

inline std::vector<Pair> pairs(int64_t count) {
  std::vector<Pair> out;
  for (int64_t i = 0; i < count; ++i) {
    const Tensor x = full({3, 4}, std::cos(static_cast<double>(i)));
    out.push_back({x, x * 2.0});
  }
  return out;
}

}  // namespace lathe::test
