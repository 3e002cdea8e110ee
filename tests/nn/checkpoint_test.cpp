// Checkpoints: the layout of the file, all or nothing, the path that goes on bit by bit, and what
// damage and failing disks do.
#include "lathe/nn/checkpoint.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "lathe/core/files/file.h"
#include "lathe/core/random/generator.h"
#include "lathe/core/random/random_state.h"
#include "lathe/data/data_loader.h"
#include "lathe/nn/containers.h"
#include "lathe/nn/dropout.h"
#include "lathe/nn/linear.h"
#include "lathe/nn/weights.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/losses/cross_entropy.h"
#include "lathe/ops/random.h"
#include "lathe/ops/unary.h"
#include "lathe/optim/adam.h"
#include "lathe/optim/grad_scaler.h"
#include "lathe/optim/scheduler.h"
#include "lathe/optim/sgd.h"
#include "lathe/tests/data/files.h"

namespace lathe {
namespace {

using data::testing::message_of;
using data::testing::read_file;
using data::testing::TempDir;
using data::testing::write_file;

struct Net : nn::Module {
  nn::Linear fc1{*this, "fc1", 4, 8}, fc2{*this, "fc2", 8, 3};
  nn::Dropout drop{*this, "drop", 0.25};
  Tensor forward(const Tensor& x) override { return fc2(drop(relu(fc1(x)))); }
};

/// A training of everything that has a state; Optimizer is constructed from parameters.
template <class Optimizer>
struct Training {
  Net net;
  Optimizer optimizer;
  optim::StepLR schedule{optimizer, {.step_size = 3, .gamma = 0.5}};
  optim::GradScaler scaler{{.init_scale = 8, .growth_interval = 2}};
  data::FunctionDataset samples = data::from_function(20, [](int64_t i) {
    return data::Example{full({4}, static_cast<double>(i % 7) - 3),
                         full({}, i % 3, {.dtype = kI64})};
  });
  data::DataLoader loader{samples, {.batch_size = 3, .shuffle = true, .seed = 5}};

  template <class Options>
  explicit Training(const Options& options) : optimizer(net.parameters(), options) {}

  CheckpointParts parts() {
    return {{"model", net},
            {"optimizer", optimizer},
            {"scheduler", schedule},
            {"scaler", scaler},
            {"loader", loader}};
  }

  /// Trains until the step number `to`; the losses. After the step `save_at` the state goes to
  /// `path`.
  std::vector<float> run(int64_t& step, int64_t to, int64_t save_at = -1,
                         const std::string& path = {}) {
    std::vector<float> losses;
    while (step < to) {
      for (auto& [x, y] : loader) {
        optimizer.zero_grad();
        const Tensor loss = cross_entropy(net(x), y);
        scaler.scale(loss).backward();
        scaler.step(optimizer);
        scaler.update();
        schedule.step();
        losses.push_back(loss.item<float>());
        if (++step == save_at) save_checkpoint(path, parts(), {{"step", std::to_string(step)}});
        if (step == to) break;
      }
    }
    return losses;
  }
};

std::string bytes_of(const Checkpoint& checkpoint) {
  std::string out;
  for (const auto& [name, t] : checkpoint.tensors) {
    out += name;
    const Tensor flat = t.contiguous();
    out.append(static_cast<const char*>(flat.raw_data()), static_cast<size_t>(flat.bytes()));
  }
  return out;
}

template <class Optimizer, class Options>
void check_that_it_goes_on(const Options& options) {
  const TempDir dir;
  constexpr int64_t kSteps = 17;                         // 7 steps are an epoch
  for (const int64_t at : {1, 2, 3, 6, 7, 8, 13, 15}) {  // first, inside, borders
    CAPTURE(at);
    const std::string path = dir / "at.safetensors";
    manual_seed(3);
    Training<Optimizer> whole(options);
    int64_t step = 0;
    std::vector<float> losses = whole.run(step, kSteps, at, path);
    losses.erase(losses.begin(), losses.begin() + at);
    const std::string end = bytes_of(collect_checkpoint(whole.parts()));

    manual_seed(99);  // everything is different until it is loaded
    Training<Optimizer> resumed(options);
    int64_t other = 0;
    resumed.run(other, 2);
    const auto metadata = load_checkpoint(path, resumed.parts());
    CHECK(metadata == safetensors::Metadata{{"step", std::to_string(at)}});
    step = at;
    CHECK(resumed.run(step, kSteps) == losses);
    CHECK(bytes_of(collect_checkpoint(resumed.parts())) == end);
  }
}

TEST_CASE("checkpoint: training goes on bit by bit with SGD and with Adam") {
  check_that_it_goes_on<optim::SGD>(optim::SGDOptions{.lr = 0.1, .momentum = 0.9});
  check_that_it_goes_on<optim::Adam>(optim::AdamOptions{.lr = 0.01});
}

using SgdTraining = Training<optim::SGD>;
const optim::SGDOptions kSgd{.lr = 0.1, .momentum = 0.9};

TEST_CASE("checkpoint: the model's entries keep their names, the other parts have prefixes") {
  const TempDir dir;
  const std::string path = dir / "c.safetensors";
  SgdTraining training(kSgd);
  int64_t step = 0;
  training.run(step, 2, 2, path);
  const Checkpoint file = read_checkpoint(path);
  CHECK(checkpoint_parts(file.metadata) ==
        std::vector<std::string>{"model", "optimizer", "scheduler", "scaler", "loader"});
  for (const char* name : {"fc1.weight", "optimizer.state.0.momentum_buffer",
                           "scheduler.last_epoch", "scaler.scale", "loader.seed", "rng.cpu"}) {
    CHECK_MESSAGE(file.tensors.contains(name), name);
  }
  CHECK(checkpoint_section(file, "model").size() == training.net.state_dict().size());
  CHECK(checkpoint_section(file, "loader").template number<int64_t>("batch") == 2);

  Net weights;  // it always loads as weights
  nn::load(weights, path);
  CHECK(weights.fc1.weight.template to_vector<float>() ==
        training.net.fc1.weight.template to_vector<float>());
}

TEST_CASE("checkpoint: some of its parts can be loaded, and the rest is passed over") {
  const TempDir dir;
  const std::string path = dir / "c.safetensors";
  SgdTraining training(kSgd), other(kSgd);
  int64_t step = 0;
  training.run(step, 2, 2, path);
  load_checkpoint(path, {{"model", other.net}, {"loader", other.loader}});
  CHECK(other.net.fc2.bias.template to_vector<float>() ==
        training.net.fc2.bias.template to_vector<float>());
  CHECK(other.optimizer.state_dict().find("state.0.step") == nullptr);
}

TEST_CASE("checkpoint: what does not fit is listed for all parts, and nothing changes") {
  const TempDir dir;
  const std::string path = dir / "c.safetensors";
  SgdTraining training(kSgd);
  int64_t step = 0;
  training.run(step, 2);
  nn::Linear other(4, 3);
  optim::Adam adam(other.parameters(), {});
  manual_seed(7);
  save_checkpoint(path, {{"model", other}, {"optimizer", adam}, {"scaler", training.scaler}});
  training.run(step, 4);
  manual_seed(8);
  const std::string before = bytes_of(collect_checkpoint(training.parts()));
  const std::string text = message_of<ValueError>([&] { load_checkpoint(path, training.parts()); });
  CAPTURE(text);
  for (const char* part :
       {"c.safetensors: ", "4 missing: fc1.weight", "2 unexpected: weight",
        "SGD: the state does not fit: group 0 has 4 parameters here and 2",
        "missing optimizer.group.0.momentum", "unexpected optimizer.group.0.beta1",
        "it holds no scheduler", "it holds no loader"}) {
    CHECK_MESSAGE(text.find(part) != std::string::npos, part);
  }
  CHECK(bytes_of(collect_checkpoint(training.parts())) == before);

  Checkpoint bad = collect_checkpoint(training.parts());  // the last part to be looked at
  StateDict without_seed;
  for (const auto& [name, t] : bad.tensors) {
    if (name != "rng.cpu") without_seed.add(name, t.clone());
  }
  bad.tensors = std::move(without_seed);
  training.run(step, 6);
  const std::string later = bytes_of(collect_checkpoint(training.parts()));
  CHECK_THROWS_WITH_AS(restore_checkpoint(bad, training.parts(), "bad"),
                       doctest::Contains("bad: random state: it does not fit: missing rng.cpu"),
                       ValueError);
  CHECK(bytes_of(collect_checkpoint(training.parts())) == later);
}

TEST_CASE("checkpoint: files that are none are refused, names that would clash too") {
  const TempDir dir;
  SgdTraining training(kSgd);
  nn::save(training.net, dir / "weights");
  CHECK_THROWS_WITH_AS(read_checkpoint(dir / "weights"), doctest::Contains("not a checkpoint"),
                       DataError);
  safetensors::write(dir / "newer", {}, {{"lathe.checkpoint", "2"}, {"lathe.parts", ""}});
  CHECK_THROWS_WITH_AS(read_checkpoint(dir / "newer"), doctest::Contains("version 2 is newer"),
                       DataError);
  safetensors::write(dir / "odd", {}, {{"lathe.checkpoint", "one"}, {"lathe.parts", ""}});
  CHECK_THROWS_WITH_AS(read_checkpoint(dir / "odd"), doctest::Contains("\"one\""), DataError);
  for (const char* name : {"", "rng", "a.b", "a,b"}) {
    CHECK_THROWS_AS(collect_checkpoint({{name, training.net}}), ValueError);
  }
  CHECK_THROWS_AS(collect_checkpoint({{"a", training.net}, {"a", training.optimizer}}), ValueError);
  CHECK_THROWS_AS(collect_checkpoint({{"a", training.net}}, {{"lathe.parts", "b"}}), ValueError);
  CHECK_THROWS_WITH_AS(collect_checkpoint({{"model", training.net}, {"fc1", training.optimizer}}),
                       doctest::Contains("\"fc1.weight\" has the prefix of another part"),
                       ValueError);
}

TEST_CASE("checkpoint: 1,000 flipped bits are found, or change nothing that is loaded") {
  const TempDir dir;
  const std::string path = dir / "c.safetensors", damaged = dir / "damaged.safetensors";
  SgdTraining training(kSgd);
  int64_t step = 0;
  training.run(step, 3, 3, path);
  const std::string good = read_file(path), state = bytes_of(read_checkpoint(path));
  std::mt19937 random(1);
  int found = 0;
  for (int i = 0; i < 1000; ++i) {
    std::string bad = good;
    // every fourth in the header, which is the smaller part
    const size_t range = i % 4 == 0 ? 200 : bad.size();
    const size_t at = random() % range;
    bad[at] = static_cast<char>(bad[at] ^ (1 << random() % 8));
    write_file(damaged, bad);
    try {
      CHECK(bytes_of(read_checkpoint(damaged)) == state);
    } catch (const DataError&) {
      ++found;
    }
    Net net;
    try {
      nn::load(net, damaged);
      const StateDict loaded = net.state_dict(), own = training.net.state_dict();
      for (const auto& [name, t] : own) {
        CHECK(loaded.at(name).to_vector<float>() == t.to_vector<float>());
      }
    } catch (const Error&) {
    }
  }
  CHECK(found == 1000);
}

TEST_CASE("checkpoint: a disk that fails at any call of a save leaves the old file and no other") {
  const TempDir dir;
  const std::string path = dir / "c.safetensors";
  SgdTraining training(kSgd);
  int64_t step = 0;
  training.run(step, 2, 2, path);
  const std::string old = read_file(path);
  training.run(step, 3);
  FileFaults& faults = file_faults();
  const auto save = [&] { save_checkpoint(path, training.parts()); };
  for (FaultPoint* point : {&faults.open, &faults.write, &faults.sync, &faults.rename}) {
    point->count();
    save();
    const int64_t calls = point->calls();
    const std::string fresh = read_file(path);
    CHECK(calls >= 1);
    for (int64_t n = 1; n <= calls; ++n) {
      write_file(path, old);
      {
        const ArmedFault fault(*point, n);
        CHECK_THROWS_AS(save(), FileError);
      }
      // Only the sync of the directory comes after the rename.
      const bool is_last = point == &faults.sync && n == 2;
      CHECK(read_file(path) == (is_last ? fresh : old));
      CHECK(std::distance(std::filesystem::directory_iterator(dir.path()),
                          std::filesystem::directory_iterator()) == 1);
    }
    save();  // the retry
    CHECK(read_file(path) == fresh);
  }
  for (FaultPoint* point : {&faults.interrupted, &faults.partial}) {
    const std::string fresh = read_file(path);
    point->count();
    save();
    const int64_t calls = point->calls();
    for (int64_t n = 1; n <= calls; ++n) {
      write_file(path, old);
      const ArmedFault fault(*point, n);
      save();
      CHECK(read_file(path) == fresh);
    }
    point->disarm();
  }
}

TEST_CASE("random state: every device's generator comes back, also one that is not here") {
  manual_seed(11);
  randn({5});
  StateDict state = random_state().clone();
  const Tensor next = randn({5});
  state.add("cuda.3", state.at("cpu").clone());
  manual_seed(12);
  set_random_state(state);
  CHECK(randn({5}).to_vector<float>() == next.to_vector<float>());
  CHECK(default_generator(Device("cuda:3")).state() ==
        Generator::State{11, static_cast<uint64_t>(state.at("cpu").to_vector<int64_t>()[1])});
  CHECK(random_state().contains("cuda.3"));
  CHECK(default_generator(Device("cuda:4")).seed() == 11);
  CHECK_FALSE(random_state().contains("cuda.4"));  // it has drawn nothing
  manual_seed(13);
  CHECK_FALSE(random_state().contains("cuda.3"));  // as in a program that never used it
  StateDict bad;
  bad.add_number("cpu", 1.0);
  bad.add_number("cuda.x", int64_t{1});
  CHECK_THROWS_WITH_AS(set_random_state(bad),
                       doctest::Contains("cpu is f64[]@cpu instead of a seed and an offset, "
                                         "i64[2]; unexpected cuda.x; missing unused"),
                       ValueError);
}

}  // namespace
}  // namespace lathe
