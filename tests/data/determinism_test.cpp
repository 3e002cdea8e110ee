// What a batch depends on: data set, options, epoch and its number. Whole epochs, augmented in
// every way there is, as SHA-256 of each batch.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <vector>

#include "lathe/core/files/hash.h"
#include "lathe/data/data_loader.h"
#include "lathe/data/images/image_datasets.h"
#include "lathe/data/transforms/mix.h"

namespace lathe::data {
namespace {

using Hashes = std::vector<std::string>;  // of the batches of an epoch, in order

/// Every random stage, each with what it draws.
Transform every_stage() {
  return compose(pad_crop(16, 4), hflip(), vflip(0.3), random_resized_crop(14),
                 color_jitter({.brightness = .4, .contrast = .4, .saturation = .4, .hue = .1}),
                 grayscale(0.2), cutout(3), normalize({.5, .5, .5}, {.25, .25, .25}),
                 random_erasing({.p = 0.5, .value = {0.5}}));
}

void update(Sha256& hash, const Tensor& t) {
  hash.update(t.raw_data(), static_cast<size_t>(t.bytes()));
}

/// Each batch as it comes, and mixed in both ways.
Hashes hashes_of_epoch(DataLoader& loader) {
  const uint64_t seed = loader.options().seed;
  const int64_t epoch = loader.epoch();
  Hashes hashes;
  for (const auto& [x, y] : loader) {
    const Key key{seed, epoch, static_cast<int64_t>(hashes.size())};
    const Mixed blended = mixup(x, y, 0.4, key), pasted = cutmix(x, y, 1.0, key);
    Sha256 hash;
    for (const Tensor& t : {x, y, blended.x, blended.partner_y, pasted.x}) update(hash, t);
    hash.update(&blended.lambda, sizeof(double));
    hash.update(&pasted.lambda, sizeof(double));
    hashes.push_back(hash.hex());
  }
  return hashes;
}

TEST_CASE("loader: every batch is the same for 0, 1, 2 and 8 workers and any prefetch factor") {
  constexpr int64_t kEpochs = 3;
  const Synthetic images({.size = 70, .height = 16, .width = 16}, every_stage());
  const auto epochs = [&](DataLoaderOptions options) {
    options.batch_size = 16;
    options.shuffle = true;
    DataLoader loader(images, options);
    std::vector<Hashes> all;
    for (int64_t epoch = 0; epoch < kEpochs; ++epoch) all.push_back(hashes_of_epoch(loader));
    return all;
  };
  const std::vector<Hashes> expected = epochs({.seed = 7});
  for (const int64_t workers : {0, 1, 2, 8})
    for (const int64_t prefetch : {1, 4}) {
      CAPTURE(workers);
      CAPTURE(prefetch);
      CHECK(epochs({.num_workers = workers, .seed = 7, .prefetch_factor = prefetch}) == expected);
    }
  // No batch comes a second time: not in another epoch, and not with another seed.
  std::set<std::string> distinct;
  for (const auto& run : {expected, epochs({.seed = 8})})
    for (const Hashes& epoch : run) {
      CHECK(epoch.size() == 5);
      distinct.insert(epoch.begin(), epoch.end());
    }
  CHECK(distinct.size() == 2 * kEpochs * 5);
}

TEST_CASE("loader: one image is augmented in another way in every place, epoch and seed") {
  const auto image = std::make_shared<Synthetic>(
      SyntheticOptions{.size = 1, .height = 16, .width = 16}, every_stage());
  const auto same = from_function(200, [&](int64_t i, Key key) {
    const BatchBuffer one(image->spec(), 1);
    image->read(0, key, Slot(one, 0));
    return Example(one.tensors()[0].clone(), i);
  });
  std::set<std::string> seen;
  for (const uint64_t seed : {1, 2}) {
    DataLoader loader(same, {.num_workers = 2, .seed = seed});
    for (int epoch = 0; epoch < 2; ++epoch)
      for (const auto& [x, y] : loader) {
        Sha256 hash;
        update(hash, x);
        seen.insert(hash.hex());
      }
  }
  CHECK(seen.size() == 2 * 2 * 200);
}

/// The first blocks of the sample's stream for a transform's first stage.
struct Streams final : Dataset {
  static constexpr int kWords = 8;
  explicit Streams(int64_t samples) : n(samples) {}
  int64_t size() const override { return n; }
  SampleSpec spec() const override { return {{{"words", {kWords}, kI64}}}; }
  void read(int64_t, Key key, Slot out) const override {
    Random random = key.random(kTransformStream);
    for (int64_t& word : out.data<int64_t>(0)) word = random.bits();
  }
  int64_t n;
};

TEST_CASE("loader: no two samples of two epochs share a block of random numbers") {
  using Block = std::array<int64_t, 4>;  // one Philox counter's words
  const Streams set(10'000);
  DataLoader loader(set, {.batch_size = 500, .shuffle = true, .num_workers = 2, .seed = 3});
  std::vector<Block> blocks;
  for (int epoch = 0; epoch < 2; ++epoch)
    for (const auto& batch : loader) {
      const int64_t* words = batch.x.data<int64_t>();
      for (int64_t k = 0; k < batch.x.numel(); k += 4)
        blocks.push_back({words[k], words[k + 1], words[k + 2], words[k + 3]});
    }
  CHECK(blocks.size() == 2 * 10'000 * Streams::kWords / 4);
  std::sort(blocks.begin(), blocks.end());
  CHECK(std::adjacent_find(blocks.begin(), blocks.end()) == blocks.end());
}

}  // namespace
}  // namespace lathe::data
