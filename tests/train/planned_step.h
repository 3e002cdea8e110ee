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
  bool muon_sgd = false;       // as --muon-rest sgd: SGD updates what is no hidden matrix
  bool recompute = false, channels_last = true;
  int64_t side = 32;
};

using MakeModel = std::function<std::unique_ptr<nn::Module>()>;

/// LARS and LAMB always get two groups, as `lathe train` makes them.
inline std::unique_ptr<optim::Optimizer> optimizer_of(const StepCase& c, nn::Module& model,
                                                      double lr) {
  using Made = std::unique_ptr<optim::Optimizer>;
  return optim::with_optimizer(c.optimizer, [&]<class O, class Options, class Group>() -> Made {
    Options options{.lr = lr};
    options.weight_decay = 5e-4;
    if constexpr (requires { options.momentum; }) options.momentum = c.momentum;
    Group first, rest;
    if constexpr (requires { rest.use_adamw; }) {
      optim::MuonSplit split = optim::split_for_muon(model);
      first.params = split.hidden;
      rest.params = split.others;
      first.normalize = c.muon_sgd;
      (c.muon_sgd ? rest.use_sgd : rest.use_adamw) = true;
      return std::make_unique<O>(std::vector<Group>{first, rest}, options);
    }
    constexpr bool kAdapts = requires { rest.adapt; };
    if (!c.no_decay_norm && !kAdapts) return std::make_unique<O>(model.parameters(), options);
    if constexpr (kAdapts) rest.adapt = false;
    const auto [decay, no_decay] = optim::split_by_decay(model);
    first.params = decay;
    rest.params = no_decay;
    rest.weight_decay = 0.0;
    return std::make_unique<O>(std::vector<Group>{first, rest}, options);
  });
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
