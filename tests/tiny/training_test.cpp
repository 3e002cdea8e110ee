// tiny/ and Lathe train the same network from the same seed, on the same batches: every number agrees.
#include <doctest/doctest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "../../tiny/loader.h"
#include "../../tiny/net.h"
#include "../../tiny/sgd.h"
#include "compare.h"
#include "lathe/lathe.h"

namespace lathe::test {
namespace {

constexpr int64_t kSide = 12, kClasses = 4, kChannels = 3;

struct Net : nn::Module {
  nn::Conv2d conv1{*this, "conv1", 1, kChannels, {.kernel = 3, .pad = 1, .bias = false}};
  nn::BatchNorm2d bn1{*this, "bn1", kChannels};
  nn::Conv2d conv2{
      *this, "conv2", kChannels, 2 * kChannels, {.kernel = 3, .pad = 1, .bias = false}};
  nn::BatchNorm2d bn2{*this, "bn2", 2 * kChannels};
  nn::Linear fc{*this, "fc", 2 * kChannels * 9, kClasses};

  Tensor forward(const Tensor& x) override {
    const Tensor a = max_pool2d(lathe::relu(bn1(conv1(x))), {.kernel = 2});
    const Tensor b = max_pool2d(lathe::relu(bn2(conv2(a))), {.kernel = 2});
    return fc(b.reshape({b.dim(0), -1}));
  }
};

/// Noise with a bright row, which is the class.
tiny::Dataset images(int64_t size) {
  tiny::Dataset set{
      .height = kSide, .width = kSide, .classes = kClasses, .mean = 0.3, .deviation = 0.2};
  for (int64_t i = 0; i < size; ++i) {
    tiny::Random random(9, 0, static_cast<uint64_t>(i), 0);
    const int64_t label = random.below(kClasses);
    for (int64_t at = 0; at < kSide * kSide; ++at)
      set.pixels.push_back(
          static_cast<uint8_t>((at / kSide == 2 + 2 * label ? 90 : 0) + random.below(120)));
    set.labels.push_back(static_cast<uint8_t>(label));
  }
  return set;
}

TEST_CASE("tiny: two epochs from one seed have Lathe's batches, losses, gradients and statistics") {
  const tiny::Dataset set = images(44);  // the last batch has 4
  const auto their_set = data::from_function(set.size(), [&](int64_t i) {
    const tiny::Batch one = tiny::make_batch(set, {i});
    return data::Example(to_lathe(one.x)[0], one.labels[0]);
  });
  data::DataLoader their_loader(their_set,
                                {.batch_size = 8, .shuffle = true, .num_workers = 2, .seed = 5});
  const tiny::LoaderOptions loader{.batch_size = 8, .shuffle = true, .seed = 5};

  tiny::Generator random(7);
  tiny::Net net(kSide, kSide, kClasses, random, kChannels);
  manual_seed(7);
  Net their_net;
  their_net.to(kF64);
  const tiny::SgdOptions opt{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01};
  tiny::Sgd sgd(net.parameters(), opt);
  optim::SGD their_sgd(their_net.parameters(),
                       {.lr = opt.lr, .momentum = opt.momentum, .weight_decay = opt.weight_decay});
  const std::vector<tiny::Tensor> parameters = net.parameters();
  const auto theirs = their_net.named_parameters();
  REQUIRE(theirs.size() == parameters.size());
  for (size_t i = 0; i < theirs.size(); ++i) {
    CAPTURE(theirs[i].first);
    CHECK(difference(parameters[i], theirs[i].second) < 1e-6);  // Lathe's are f32
    const NoGrad off;
    theirs[i].second.copy_(to_lathe(parameters[i]));
  }

  double first_loss = 0, last_loss = 0;
  for (int64_t number = 0; number < 2; ++number) {
    tiny::Epoch epoch(set, loader, static_cast<uint64_t>(number));
    for (const data::Batch& their_batch : their_loader) {
      const auto batch = epoch.next();
      REQUIRE(batch.has_value());
      REQUIRE(batch->indices == their_batch.indices);
      CHECK(batch->labels == their_batch.y.to_vector<int64_t>());
      CHECK(difference(batch->x, their_batch.x) == 0);

      sgd.zero_grad();
      their_sgd.zero_grad();
      const tiny::Tensor loss = tiny::cross_entropy(net.forward(batch->x, true), batch->labels);
      const Tensor their_loss = cross_entropy(their_net(their_batch.x), their_batch.y);
      tiny::backward(loss);
      their_loss.backward();
      CHECK(difference(loss, their_loss) < kSame);
      for (size_t i = 0; i < theirs.size(); ++i) {
        CAPTURE(theirs[i].first);
        CHECK(difference(tiny::grad(parameters[i]), theirs[i].second.grad()) < kSame);
      }
      sgd.step();
      their_sgd.step();
      for (size_t i = 0; i < theirs.size(); ++i)
        CHECK(difference(parameters[i], theirs[i].second) < kSame);
      for (const auto& [ours, their_norm] :
           {std::pair{&net.bn1, &their_net.bn1}, {&net.bn2, &their_net.bn2}}) {
        CHECK(difference(ours->running_mean, their_norm->running_mean) < kSame);
        CHECK(difference(ours->running_var, their_norm->running_var) < kSame);
      }
      last_loss = loss.item();
      if (first_loss == 0) first_loss = last_loss;
    }
    CHECK(!epoch.next().has_value());
  }
  CHECK(last_loss < 0.5 * first_loss);  // so that the comparison is one of a network that learns

  const tiny::Batch all = tiny::make_batch(set, {0, 1, 2, 3, 4, 5});
  their_net.eval();
  CHECK(difference(net.forward(all.x, false), their_net(to_lathe(all.x))) < kSame);
}

TEST_CASE("tiny: the random order is Lathe's") {
  for (const int64_t n : {0, 1, 2, 1000})
    for (const int64_t epoch : {0, 3})
      CHECK(tiny::random_order(n, 42, static_cast<uint64_t>(epoch)) ==
            data::RandomSampler(n).order(42, epoch));
}

TEST_CASE("tiny: an epoch may be left early, and its thread's error reaches the caller") {
  const tiny::Dataset set = images(40);
  {
    tiny::Epoch epoch(set, {.batch_size = 1, .ahead = 1}, 0);
    CHECK(epoch.next()->indices == std::vector<int64_t>{0});
    CHECK(epoch.next()->indices == std::vector<int64_t>{1});
  }
  tiny::Epoch wrong(set, {.batch_size = 0}, 0);
  CHECK_THROWS_AS(wrong.next(), tiny::ValueError);
  CHECK(!wrong.next().has_value());
  CHECK_THROWS_AS(tiny::make_batch(set, {40}), tiny::ValueError);
}

TEST_CASE("tiny: the queue holds no more than its capacity, and gives out the rest after close()") {
  tiny::BoundedQueue<int> queue(2);
  CHECK(queue.push(1));
  CHECK(queue.push(2));
  std::atomic<bool> third_is_in{false};
  std::jthread thread([&] {
    queue.push(3);
    third_is_in = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(!third_is_in);
  CHECK(queue.pop() == 1);
  thread.join();
  queue.close();
  CHECK(!queue.push(4));
  CHECK(queue.pop() == 2);
  CHECK(queue.pop() == 3);
  CHECK(!queue.pop().has_value());
}

TEST_CASE("tiny: an IDX file that is not right is an error with its name") {
  const auto path = std::filesystem::temp_directory_path() / "lathe-tiny-idx";
  const auto write = [&](std::vector<uint8_t> bytes) {
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  };
  write({0, 0, 8, 1, 0, 0, 0, 3, 7, 8, 9});
  const tiny::IdxArray array = tiny::read_idx(path.string(), 1);
  CHECK(array.shape == tiny::Shape{3});
  CHECK(array.values == std::vector<uint8_t>{7, 8, 9});
  CHECK_THROWS_AS(tiny::read_idx(path.string(), 3), tiny::DataError);
  write({0, 0, 8, 1, 0, 0, 0, 4, 7, 8, 9});
  CHECK_THROWS_WITH_AS(tiny::read_idx(path.string(), 1),
                       (path.string() + ": has 3 values for the shape [4]").c_str(),
                       tiny::DataError);
  write({0, 0, 9, 1, 0, 0, 0, 0});
  CHECK_THROWS_AS(tiny::read_idx(path.string(), 1), tiny::DataError);
  std::filesystem::remove(path);
  CHECK_THROWS_AS(tiny::read_idx(path.string(), 1), tiny::DataError);
}

}  // namespace
}  // namespace lathe::test
