// Batches of prefetch() in places: the same values in memory that stays, which is never written
// while it is read. Over the emulated GPU in orders drawn by lot, with a look for races (cuda_turns).
#include "lathe/data/device/batch_places.h"

#include <memory>
#include <set>
#include <tuple>
#include <vector>

#include "../cuda_case.h"
#include "lathe/data/device/device_batches.h"
#include "lathe/lathe.h"

using namespace lathe;

namespace {

const Device kGpu(DeviceType::kCUDA);

/// 26 samples: batches of 8, 8, 8 and 2.
data::DataLoader numbers(bool pinned) {
  const auto set = std::make_shared<data::FunctionDataset>(data::from_function(
      26, [](int64_t i) { return data::Example(full({4}, static_cast<double>(i)), i); }));
  return data::DataLoader(set,
                          {.batch_size = 8, .num_workers = pinned ? 2 : 0, .pin_memory = pinned});
}

data::StoredImages bytes() {
  data::ImageSet set{3, 8, 8, {}, {}};
  data::Random random(5, 0, 0, 0);
  for (int64_t i = 0; i < 26 * set.image_bytes(); ++i)
    set.pixels.push_back(static_cast<uint8_t>(random.below(256)));
  for (int64_t i = 0; i < 26; ++i) set.labels.push_back(static_cast<uint8_t>(i % 10));
  return data::StoredImages(set, std::vector<std::string>(10, "class"), {.5, .5, .5}, {1, 1, 1},
                            {});
}

/// What passes over the batches hold. The copies are queued while a batch may be used, on a stream
/// of the user's own.
std::vector<std::vector<float>> read(data::DataLoader& loader, const data::PrefetchOptions& options,
                                     int passes, std::set<const void*>* at = nullptr) {
  const OwnedStream own;
  const StreamScope on(own);
  std::vector<Tensor> seen;
  for (int pass = 0; pass < passes; ++pass) {
    loader.set_epoch(pass);
    int64_t batches = 0;
    for (auto& [x, y] : data::prefetch(loader, kGpu, options)) {
      if (at != nullptr) at->insert({x.raw_data(), y.raw_data()});
      if (options.drawn_only) std::tie(x, y) = data::make_batch(options, x, y);
      for (const Tensor* t : {&x, &y}) {
        seen.push_back(add(t->to(kF32), 1.0));
      }
      if (pass == 1 && ++batches == 2) break;  // the next one is in its place already
    }
  }
  std::vector<std::vector<float>> values;
  for (const Tensor& t : seen) values.push_back(t.cpu().contiguous().to_vector<float>());
  return values;
}

}  // namespace

TEST_CASE("batch places: batches lie in two places for each shape, with the values that they have" *
          test::cuda_case()) {
  for (const bool pinned : {true, false}) {
    CAPTURE(pinned);
    data::DataLoader loader = numbers(pinned);
    std::set<const void*> at;
    CHECK(read(loader, {}, 3) ==
          read(loader, {.places = std::make_shared<data::BatchPlaces>()}, 3, &at));
    // Both places of whole batches and one of the last ones; x and y.
    CHECK(at.size() == 6);
  }
}

TEST_CASE("batch places: so do those that are transformed on the GPU, or are images from there" *
          test::cuda_case()) {
  const data::StoredImages images = bytes();
  const auto resident = std::make_shared<data::ResidentImages>(images, kGpu);
  for (const bool stay : {true, false}) {
    CAPTURE(stay);
    data::DataLoader loader(images, {.batch_size = 8, .shuffle = true, .pin_memory = true});
    data::PrefetchOptions options{.transform = compose(data::pad_crop(8, 2), data::hflip(),
                                                       data::normalize({.4, .5, .6}, {.2, .3, .2})),
                                  .dtype = kF16,
                                  .format = kChannelsLast,
                                  .resident = stay ? resident : nullptr};
    const auto expected = read(loader, options, 3);
    options.places = std::make_shared<data::BatchPlaces>();
    std::set<const void*> at;
    CHECK(expected == read(loader, options, 3, &at));
    CHECK(at.size() == 6);
    if (!stay) continue;
    for (const bool places : {true, false}) {
      options.drawn_only = true;
      options.places = places ? std::make_shared<data::BatchPlaces>() : nullptr;
      CHECK(expected == read(loader, options, 3));
    }
  }
}

TEST_CASE(
    "batch places: batches that are only drawn are those of the CPU, and need such a transform" *
    test::cuda_case()) {
  const data::StoredImages images = bytes();
  const data::Transform transform = data::pad_crop(8, 2);
  data::DataLoader loader(images, {.batch_size = 8, .shuffle = true});
  data::PrefetchOptions options{.transform = transform,
                                .resident = std::make_shared<data::ResidentImages>(images, kCPU),
                                .drawn_only = true};
  loader.set_epoch(1);
  std::vector<Tensor> drawn;
  for (auto& [x, y] : data::prefetch(loader, kCPU, options)) {
    const auto [made, labels] = data::make_batch(options, x, y);
    drawn.insert(drawn.end(), {made, labels});
  }
  options.drawn_only = false;
  loader.set_epoch(1);
  size_t at = 0;
  for (auto& [x, y] : data::prefetch(loader, kCPU, options)) {
    for (const Tensor* t : {&x, &y})
      CHECK(drawn[at++].to_vector<int64_t>() == t->to_vector<int64_t>());
  }
  CHECK(at == drawn.size());
  options.drawn_only = true;
  options.transform = data::resize(4, 4);
  CHECK_THROWS_AS(data::prefetch(loader, kCPU, options), ValueError);
  CHECK_THROWS_AS(data::prefetch(loader, kCPU, {.drawn_only = true}), ValueError);
}

TEST_CASE("batch places: a pass begins in the first place, wherever the last one ended" *
          test::cuda_case()) {
  data::DataLoader loader = numbers(true);
  const auto places = std::make_shared<data::BatchPlaces>();
  const void* first = nullptr;
  for (int batches = 1; batches <= 4; ++batches) {
    int64_t seen = 0;
    for (auto& [x, y] : data::prefetch(loader, kGpu, {.places = places})) {
      if (first == nullptr) first = x.raw_data();
      if (seen == 0) CHECK(x.raw_data() == first);
      if (++seen == batches) break;
    }
  }
}
