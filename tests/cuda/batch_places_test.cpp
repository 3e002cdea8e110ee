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
                                     int passes, std::set<const void*>* at = nullptr,
                                     bool only_drawn = false) {
  const OwnedStream own;
  const StreamScope on(own);
  std::vector<Tensor> seen;
  for (int pass = 0; pass < passes; ++pass) {
    loader.set_epoch(pass);
    int64_t batches = 0;
    const auto look = [&](const Tensor& x, const Tensor& y) {
      for (const Tensor* t : {&x, &y}) seen.push_back(add(t->to(kF32), 1.0));
      return pass != 1 || ++batches < 2;  // else the next one is in its place already
    };
    if (only_drawn) {
      for (auto& drawn : data::prefetch_drawn(loader, kGpu, options)) {
        const auto [x, y] = data::make_batch(options, drawn);
        if (!look(x, y)) break;
      }
      continue;
    }
    for (auto& [x, y] : data::prefetch(loader, kGpu, options)) {
      if (at != nullptr) at->insert({x.raw_data(), y.raw_data()});
      if (!look(x, y)) break;
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

TEST_CASE("batch places: all fields of a sample lie there" * test::cuda_case()) {
  const Tensor rows = arange(10).to(kF32).view({5, 2});
  const data::TensorDataset set({rows, mul(rows, 2.0), mul(rows, 3.0)});
  data::DataLoader loader(set, {.batch_size = 1});
  std::set<const void*> at;
  int64_t sample = 0;
  for (auto& batch :
       data::prefetch(loader, kGpu, {.places = std::make_shared<data::BatchPlaces>()})) {
    REQUIRE(batch.more.size() == 1);
    at.insert(batch.more[0].raw_data());
    CHECK(batch.more[0].cpu().to_vector<float>()[1] == static_cast<float>(3 * (2 * sample + 1)));
    ++sample;
  }
  CHECK(sample == 5);
  CHECK(at.size() == 2);
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
      options.places = places ? std::make_shared<data::BatchPlaces>() : nullptr;
      CHECK(expected == read(loader, options, 3, nullptr, true));
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
                                .resident = std::make_shared<data::ResidentImages>(images, kCPU)};
  loader.set_epoch(1);
  std::vector<Tensor> drawn;
  for (auto& batch : data::prefetch_drawn(loader, kCPU, options)) {
    const auto [made, labels] = data::make_batch(options, batch);
    drawn.insert(drawn.end(), {made, labels});
  }
  loader.set_epoch(1);
  size_t at = 0;
  for (auto& [x, y] : data::prefetch(loader, kCPU, options)) {
    for (const Tensor* t : {&x, &y})
      CHECK(drawn[at++].to_vector<int64_t>() == t->to_vector<int64_t>());
  }
  CHECK(at == drawn.size());
  options.transform = data::resize(4, 4);
  CHECK_THROWS_AS(data::prefetch_drawn(loader, kCPU, options), ValueError);
  CHECK_THROWS_AS(data::prefetch_drawn(loader, kCPU, {}), ValueError);
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
