// Steps whose launches are planned, for the tests of train/plan/.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "lathe/lathe.h"
#include "lathe/nn/models.h"
#include "lathe/train/plan/launch_list.h"
#include "lathe/train/plan/step_ledger.h"
#include "lathe/train/plan/step_recording.h"

namespace lathe::test {

/// How a step is made; square images of 3 channels and 10 classes.
struct StepCase {
  std::string optimizer = "sgd", amp = "fp16";
  double momentum = 0.9, clip = 0;
  bool no_decay_norm = false;  // norms and biases are a second group
  bool recompute = false, channels_last = true;
  int64_t side = 32;
};

using MakeModel = std::function<std::unique_ptr<nn::Module>()>;

/// LARS and LAMB always get two groups, as `lathe train` makes them.
inline std::unique_ptr<optim::Optimizer> optimizer_of(const StepCase& c, nn::Module& model,
                                                      double lr) {
  const auto make = [&]<class Optimizer, class Options, class Group>(
                        bool apart, Options options,
                        Group rest) -> std::unique_ptr<optim::Optimizer> {
    options.lr = lr;
    options.weight_decay = 5e-4;
    if (!apart) return std::make_unique<Optimizer>(model.parameters(), options);
    const auto [decay, no_decay] = optim::split_by_decay(model);
    Group first;
    first.params = decay;
    rest.params = no_decay;
    rest.weight_decay = 0.0;
    std::vector<Group> groups{first, rest};
    return std::make_unique<Optimizer>(std::move(groups), options);
  };
  using namespace optim;
  const bool apart = c.no_decay_norm;
  if (c.optimizer == "adam") return make.operator()<Adam, AdamOptions, AdamGroup>(apart, {}, {});
  if (c.optimizer == "adamw") return make.operator()<AdamW, AdamWOptions, AdamGroup>(apart, {}, {});
  if (c.optimizer == "rmsprop") {
    return make.operator()<RMSprop, RMSpropOptions, RMSpropGroup>(apart, {.momentum = c.momentum},
                                                                  {});
  }
  if (c.optimizer == "lars") {
    return make.operator()<LARS, LARSOptions, LARSGroup>(true, {.momentum = c.momentum},
                                                         {.adapt = false});
  }
  if (c.optimizer == "lamb")
    return make.operator()<LAMB, LAMBOptions, LAMBGroup>(true, {}, {.adapt = false});
  if (c.optimizer == "novograd")
    return make.operator()<NovoGrad, NovoGradOptions, NovoGradGroup>(apart, {}, {});
  return make.operator()<SGD, SGDOptions, SGDGroup>(apart, {.momentum = c.momentum}, {});
}

inline train::StepSetup setup_of(const StepCase& c, const MakeModel& make) {
  return {.model =
              [make] {
                manual_seed(1);
                return make();
              },
          .optimizer = [c](nn::Module& model) { return optimizer_of(c, model, 1e-8); },
          .loss =
              [c](nn::Module& model) {
                return [&model, c](const Tensors& batch) {
                  const Tensor x = c.channels_last ? batch[0].contiguous(kChannelsLast) : batch[0];
                  const Tensor scores = model(x).to(kF32);
                  return train::Result{cross_entropy(scores, batch[1]), scores, batch[1]};
                };
              },
          .batch =
              [c](int64_t images, Device device) {
                const Tensor x = randn({images, 3, c.side, c.side}, {.device = device});
                return Tensors{c.channels_last ? x.contiguous(kChannelsLast) : x,
                               randint(0, 10, {images}, {.device = device})};
              },
          .options = {.amp = c.amp, .clip_grad_norm = c.clip, .recompute = c.recompute},
          .channels_last = c.channels_last};
}

inline plan::StepRecording record(const StepCase& c, int64_t batch, const MakeModel& make) {
  return plan::record_small_step(setup_of(c, make), batch);
}

/// A model of nn/models.h for images of the step's side.
inline MakeModel named_model(const std::string& name, int64_t side) {
  return [=] {
    return nn::make_model(name, {.classes = 10, .image_size = side, .stem = nn::Stem::kCifar});
  };
}

}  // namespace lathe::test
