// A small training whose steps can be CUDA graphs, for tests that compare such runs.
#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lathe/core/cuda.h"
#include "lathe/core/error.h"
#include "lathe/core/fault.h"
#include "lathe/core/random/generator.h"
#include "lathe/data/images/image_datasets.h"
#include "lathe/nn/activation.h"
#include "lathe/nn/batch_norm.h"
#include "lathe/nn/dropout.h"
#include "lathe/tests/cli/small_run.h"

namespace lathe::test {

/// A training with dropout and batch norm of 26 images in batches of 4: seven batches an epoch, the
/// last one of two images.
struct GraphTraining {
  int64_t steps = 42, epochs = 6;
  int64_t accumulate = 1;
  int64_t eval_every = 2;
  bool half = false, capture = true;
  bool resident = false;  // bytes on the GPU, from which each step makes its batch
  int64_t pause_after = 0, log_every = 50;
  std::function<void(int64_t step)> after_step = {};

  /// The run, continued from what `paused` has saved unless that is null.
  void operator()(Run& run, const Run* paused = nullptr) const {
    manual_seed(7);
    run.train.loader = data::DataLoader(images(26, -1), {.batch_size = 4});
    run.test.loader = data::DataLoader(images(10, -1), {.batch_size = 4});
    if (resident) use_resident_images(run);
    run.model.add<nn::Flatten>();
    run.model.add<nn::Linear>(resident ? 3 * 5 * 5 : 4, 8);
    run.model.add<nn::BatchNorm1d>(8);
    run.model.add<nn::ReLU>();
    run.model.add<nn::Dropout>(0.3);
    run.model.add<nn::Linear>(8, 2);
    run.to(Device(DeviceType::kCUDA));
    cli::Settings& s = run.settings;
    s.epochs = epochs;
    s.accumulate = accumulate;
    s.capture = capture;
    s.stop_after = pause_after;
    s.log_every = log_every;
    s.clip_grad_norm = 1;
    s.ema = 0.9;
    s.eval_every = eval_every;
    if (half) s.amp = "fp16";
    s.init_scale = 0x1p18;
    s.growth_interval = 6;  // again and again to where gradients overflow
    optim::SGD optimizer(run.model.parameters(), {.lr = 0.1, .momentum = 0.9});
    optim::LambdaLR schedule(
        optimizer, [](int64_t step) { return 1 / (1 + 0.02 * static_cast<double>(step)); });
    cli::Training training({.settings = s,
                            .model = run.model,
                            .schedule = schedule,
                            .train = run.train,
                            .test = run.test,
                            .out = run.out,
                            .log = run.log,
                            .after_step =
                                [&](int64_t step) {
                                  if (after_step) after_step(step);
                                  return true;
                                }},
                           steps);
    if (paused != nullptr) {
      const std::string last = (paused->folder.path() / "last.safetensors").string();
      CHECK(training.trainer().resume(read_checkpoint(last), last) > 0);
    }
    training.trainer().use_folder(run.folder.path(), false, {});
    training.run();
  }

  void use_resident_images(Run& run) const {
    const Device gpu(DeviceType::kCUDA);
    data::ImageSet set{3, 6, 6, {}, {}};
    for (int64_t i = 0; i < 26 * set.image_bytes(); ++i)
      set.pixels.push_back(static_cast<uint8_t>(i * i % 251));
    for (int64_t i = 0; i < 26; ++i) set.labels.push_back(static_cast<uint8_t>(i % 2));
    cli::Settings settings = run.settings;
    settings.data_cache = "gpu";
    settings.batch_size = 4;
    settings.workers = 0;
    settings.amp = half ? "fp16" : "off";
    const auto stored = [&](const data::Transform& transform) {
      return std::make_shared<data::StoredImages>(set, std::vector<std::string>{"a", "b"},
                                                  std::vector{.5, .5, .5}, std::vector{.2, .3, .2},
                                                  transform);
    };
    const data::Transform normal = data::normalize({.5, .4, .3}, {.2, .3, .2});
    run.train = cli::make_input(
        stored(compose(data::pad_crop(5, 2), data::hflip(), normal, data::cutout(2))), settings,
        gpu, true);
    run.test = cli::make_input(stored(compose(data::center_crop(5), normal)), settings, gpu, false);
  }

  Bytes saved() const {
    Run run;
    (*this)(run);
    return run.saved_bytes();
  }
};

/// Names of the tensors that differ.
inline std::string differences(const Bytes& a, const Bytes& b) {
  std::string out;
  CHECK(a.size() == b.size());
  for (const auto& [name, bytes] : a) {
    const auto other = b.find(name);
    if (other == b.end() || other->second != bytes) out += name + " ";
  }
  return out;
}

/// A training, each time with another call of `point` that fails: a run that goes on to its end has
/// the numbers of one where nothing fails. Sampled: every call in turn would take minutes.
inline void check_failures(FaultPoint& point, int64_t samples) {
  const GraphTraining training{
      .steps = 8, .epochs = 2, .accumulate = 2, .eval_every = 1, .half = true};
  const Bytes expected = training.saved();
  cuda::empty_cache();
  point.count();
  training.saved();
  point.disarm();
  const int64_t calls = point.calls();
  CHECK(calls >= samples);
  int done = 0;
  for (int64_t i = 0; i < samples; ++i) {
    const int64_t n = 1 + i * (calls - 1) / (samples - 1);
    CAPTURE(n);
    cuda::empty_cache();
    Run run;
    try {
      const ArmedFault armed(point, n);
      training(run);
    } catch (const Error&) {  // outside of a capture
      continue;
    }
    ++done;
    CHECK(differences(run.saved_bytes(), expected) == "");
  }
  CHECK(done > 0);
}

}  // namespace lathe::test
