// A training of a few steps in this process: what train.cpp puts together, in small.
#pragma once

#include <doctest/doctest.h>

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lathe/core/error.h"
#include "lathe/core/formats/safetensors.h"
#include "lathe/data/dataset.h"
#include "lathe/nn/containers.h"
#include "lathe/nn/linear.h"
#include "lathe/ops/creation.h"
#include "lathe/optim/sgd.h"
#include "lathe/tests/cli/temporary_folder.h"
#include "lathe/tools/cli/training/training.h"

namespace lathe::test {

/// Images [1,2,2] of two classes; sample `bad` is on a disk that does not answer.
inline std::shared_ptr<const data::Dataset> images(int64_t count, int64_t bad) {
  return std::make_shared<data::FunctionDataset>(data::from_function(count, [bad](int64_t i) {
    if (i == bad) throw FileError("images/" + std::to_string(i) + ": cannot read");
    return data::Example{full({1, 2, 2}, static_cast<double>(i % 2)),
                         full({}, i % 2, {.dtype = kI64})};
  }));
}

using Bytes = std::map<std::string, std::vector<std::byte>>;  // of tensors, by name

struct RunOptions {
  int64_t steps = 4;
  int64_t bad_train = -1, bad_test = -1;  // samples that cannot be read
};

/// One epoch, batches of two, on the CPU. Its model begins empty.
struct Run {
  static constexpr int64_t kBatch = 2;

  explicit Run(const RunOptions& options = {})
      : steps(options.steps),
        train{data::DataLoader(images(steps * kBatch, options.bad_train), {.batch_size = kBatch}),
              kCPU},
        test{data::DataLoader(images(4 * kBatch, options.bad_test), {.batch_size = kBatch}), kCPU} {
    settings.dataset = "samples";
    settings.model = "linear";
    settings.epochs = 1;
    settings.batch_size = kBatch;
    settings.quiet = true;
    settings.progress = "none";
  }

  void to(Device device) {
    train.device = test.device = device;
    model.to(device);
  }

  cli::ExitCode operator()() {
    optim::SGD optimizer(model.parameters(), {.lr = 0.1});
    optim::LambdaLR schedule(optimizer, [](int64_t) { return 1.0; });
    cli::Training training({settings, model, schedule, train, test, out, log}, steps);
    training.trainer().use_folder(folder.path(), false, {});
    return training.run();
  }

  /// The exit code of an error, after checking its text.
  cli::ExitCode failure(const char* text) {
    try {
      (*this)();
    } catch (const cli::CommandError& e) {
      CHECK(std::string(e.what()).find(text) != std::string::npos);
      return e.code();
    }
    FAIL("training ended well");
    return cli::ExitCode::kDone;
  }

  /// last.safetensors.
  safetensors::Contents saved() const {
    return safetensors::read((folder.path() / "last.safetensors").string());
  }

  /// The bytes of its tensors, but of those that a resume begins anew.
  Bytes saved_bytes() const {
    Bytes bytes;
    for (const auto& [name, t] : saved().tensors) {
      if (name == "trainer.metrics_rows") continue;  // of the folder, which is new after a resume
      const auto* const begin = static_cast<const std::byte*>(t.raw_data());
      bytes[name].assign(begin, begin + t.bytes());
    }
    return bytes;
  }

  int64_t steps;
  TemporaryFolder folder;
  cli::Settings settings;
  nn::Sequential model;
  cli::Input train, test;
  cli::Output out{false};
  cli::Log log{true};
};

inline void add_linear(nn::Sequential& model) {
  model.add<nn::Flatten>();
  model.add<nn::Linear>(4, 2);
}

}  // namespace lathe::test
