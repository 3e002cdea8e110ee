// Batches copied ahead to a GPU.
#include "lathe/data/device/device_batches.h"

#include <algorithm>
#include <set>

#include "../cuda_case.h"
#include "lathe/lathe.h"

using namespace lathe;

namespace {

const Device kGpu(DeviceType::kCUDA);

data::ImageSet noise_images(int64_t count) {
  data::ImageSet set{3, 8, 8, {}, {}};
  data::Random random(3, 0, 0, 0);
  for (int64_t i = 0; i < count * set.image_bytes(); ++i)
    set.pixels.push_back(static_cast<uint8_t>(random.below(256)));
  for (int64_t i = 0; i < count; ++i) set.labels.push_back(static_cast<uint8_t>(i % 10));
  return set;
}

data::StoredImages stored(const data::ImageSet& set, const data::Transform& transform = {}) {
  return data::StoredImages(set, std::vector<std::string>(10, "class"), {.5, .5, .5}, {1, 1, 1},
                            transform);
}

const data::Transform kAugment = compose(data::pad_crop(8, 2), data::hflip(),
                                         data::normalize({0.4, 0.5, 0.6}, {0.2, 0.3, 0.25}));

/// Every number of an epoch, read after the epoch is over: what a batch holds must outlive the
/// reuse of the memory it came from.
struct Epoch {
  std::vector<float> x;
  std::vector<int64_t> y;
  bool operator==(const Epoch&) const = default;
};
template <class Batches>
Epoch read_epoch(Batches&& batches) {
  std::vector<data::Batch> kept;
  for (auto& batch : batches) kept.push_back(batch);
  Epoch epoch;
  for (const data::Batch& batch : kept) {
    const auto x = batch.x.cpu().to(kF32).contiguous().to_vector<float>();
    const auto y = batch.y.cpu().to_vector<int64_t>();
    epoch.x.insert(epoch.x.end(), x.begin(), x.end());
    epoch.y.insert(epoch.y.end(), y.begin(), y.end());
  }
  return epoch;
}

data::DataLoaderOptions options(int64_t workers, bool pinned) {
  return {
      .batch_size = 7, .shuffle = true, .num_workers = workers, .pin_memory = pinned, .seed = 11};
}

}  // namespace

TEST_CASE("prefetch: a GPU gets the loader's batches, pinned or not, with any workers" *
          test::cuda_case()) {
  const data::StoredImages images = stored(noise_images(50), kAugment);
  data::DataLoader host(images, options(0, false));
  const Epoch first = read_epoch(host), second = read_epoch(host);
  for (const int64_t workers : {0, 1, 3})
    for (const bool pinned : {false, true}) {
      CAPTURE(workers);
      CAPTURE(pinned);
      data::DataLoader loader(images, options(workers, pinned));
      CHECK(read_epoch(data::prefetch(loader, kGpu)) == first);
      CHECK(read_epoch(data::prefetch(loader, kGpu)) == second);
    }
}

TEST_CASE("prefetch: pinned batches are pinned, and are read by the GPU after they are let go" *
          test::cuda_case()) {
  const data::StoredImages images = stored(noise_images(20));
  data::DataLoader loader(images, options(1, true));
  for (auto& batch : loader) CHECK(batch.x.is_pinned());

  // Thousands of batches through the few blocks of a ring, each written again at once.
  const auto numbers = data::from_function(
      40'000, [](int64_t i) { return data::Example(full({16}, static_cast<double>(i)), i); });
  data::DataLoader ring(numbers, {.batch_size = 16, .num_workers = 2, .pin_memory = true});
  int64_t wrong = 0, at = 0;
  for (auto& [x, y] : data::prefetch(ring, kGpu)) {
    const Tensor expected = arange(at, at + y.numel()).to(kF32).reshape({-1, 1});
    wrong += ne(x.cpu(), expected).to(kI64).sum().item<int64_t>();
    at += y.numel();
  }
  CHECK(at == 40'000);
  CHECK(wrong == 0);
}

TEST_CASE("prefetch: a transform on the device gives what the workers would" * test::cuda_case()) {
  const data::ImageSet set = noise_images(50);
  const data::StoredImages augmented = stored(set, kAugment), bytes = stored(set);
  data::DataLoader host(augmented, options(2, false));
  data::DataLoader loader(bytes, options(2, true));
  for (int epoch = 0; epoch < 2; ++epoch) {
    CAPTURE(epoch);
    const Epoch expected = read_epoch(host);
    loader.set_epoch(epoch);
    CHECK(read_epoch(data::prefetch(loader, kGpu, {.transform = kAugment})) == expected);
    loader.set_epoch(epoch);
    CHECK(read_epoch(data::prefetch(loader, kCPU, {.transform = kAugment})) == expected);
    for (const Device device : {kGpu, Device(kCPU)}) {
      const auto resident = std::make_shared<data::ResidentImages>(bytes, device);
      loader.set_epoch(epoch);
      CHECK(read_epoch(data::prefetch(loader, device,
                                      {.transform = kAugment, .resident = resident})) == expected);
    }
  }
  loader.set_epoch(0);
  auto batches =
      data::prefetch(loader, kGpu, {.transform = kAugment, .dtype = kF16, .format = kChannelsLast});
  auto it = batches.begin();
  CHECK(it->x.dtype() == kF16);
  CHECK(it->x.is_contiguous(kChannelsLast));
  const auto elsewhere = std::make_shared<data::ResidentImages>(bytes, kCPU);
  CHECK_THROWS_AS(data::prefetch(loader, kGpu, {.resident = elsewhere}), DeviceError);
}

TEST_CASE("prefetch: the loader's state is that of the batch handed out, not of the one ahead" *
          test::cuda_case()) {
  const data::StoredImages images = stored(noise_images(50));
  data::DataLoader loader(images, options(2, true));
  int64_t used = 0;
  for (auto& batch : data::prefetch(loader, kGpu)) {
    CHECK(batch.size() > 0);
    CHECK(loader.state_dict().number<int64_t>("batch") == ++used);
  }
  CHECK(loader.state_dict().number<int64_t>("epoch") == 1);
  CHECK(loader.state_dict().number<int64_t>("batch") == 0);
}

/// Numbers 0, 1, 2 …, one of which cannot be read.
struct Torn final : data::Dataset {
  explicit Torn(int64_t bad_index) : bad(bad_index) {}
  int64_t size() const override { return 64; }
  data::SampleSpec spec() const override { return {{{"x", {2}, kF32}}}; }
  void read(int64_t i, data::Key, data::Slot out) const override {
    if (i == bad) throw DataError("torn");
    std::fill_n(out.data<float>(0).begin(), 2, static_cast<float>(i));
  }
  int64_t bad;
};

TEST_CASE("prefetch: an error at any index comes at its batch's turn, pinned or not" *
          test::cuda_case()) {
  constexpr int64_t kBatch = 5;
  for (const int64_t workers : {0, 1, 4})
    for (const bool pinned : {false, true})
      for (int64_t bad = 0; bad < 64; ++bad) {
        CAPTURE(workers);
        CAPTURE(pinned);
        CAPTURE(bad);
        Torn set(bad);
        data::DataLoader loader(
            set, {.batch_size = kBatch, .num_workers = workers, .pin_memory = pinned});
        std::vector<Tensor> whole;
        const auto read_all = [&] {
          for (auto& batch : data::prefetch(loader, kGpu)) whole.push_back(batch.x);
        };
        CHECK_THROWS_WITH_AS(
            read_all(), doctest::Contains(concat("sample ", bad, ": torn").c_str()), DataError);
        CHECK(static_cast<int64_t>(whole.size()) == bad / kBatch);  // those before it are intact
        if (!whole.empty())
          CHECK(whole.back().cpu().to_vector<float>()[2 * kBatch - 1] == bad / kBatch * kBatch - 1);
        if (bad % 16 != 0) continue;
        set.bad = -1;  // the loader can be used again
        whole.clear();
        read_all();
        CHECK(whole.size() == 13);
      }
}

TEST_CASE("prefetch: a batch's memory is not written again before the work on it is done" *
          test::cuda_case()) {
  const auto numbers = data::from_function(
      64, [](int64_t i) { return data::Example(full({16}, static_cast<double>(i)), i); });
  data::DataLoader loader(numbers, {.batch_size = 4, .num_workers = 1, .pin_memory = true});
  std::set<const void*> places;
  std::vector<Tensor> sums;
  for (auto& [x, y] : data::prefetch(loader, kGpu)) {
    places.insert(x.raw_data());
    sums.push_back(x.sum());
  }
  // Over the emulated GPU nothing has run yet, so that every batch must lie elsewhere.
  if (!kHasCudaLibraries) CHECK(places.size() == 16);
  for (size_t k = 0; k < sums.size(); ++k) {
    const auto first = static_cast<float>(4 * k);
    CHECK(sums[k].item<float>() == 16 * (4 * first + 6));
  }
}

TEST_CASE("prefetch: resident images are there, for any stream, once they are made" *
          test::cuda_case()) {
  const uint64_t before = cuda::counters().synchronizations;
  const data::ResidentImages resident(stored(noise_images(10)), kGpu);
  CHECK(cuda::counters().synchronizations > before);
}

TEST_CASE("prefetch: the host waits for no batch, and warm epochs ask the driver for nothing" *
          test::cuda_case()) {
  const data::StoredImages images = stored(noise_images(60));
  data::DataLoader loader(images, options(2, true));
  cuda::Counters warm;
  Tensor sum = zeros({}, {.device = kGpu});
  for (int epoch = 0; epoch < 6; ++epoch) {
    if (epoch == 3) warm = cuda::counters();
    for (auto& [x, y] : data::prefetch(loader, kGpu, {.transform = kAugment})) sum.add_(x.mean());
  }
  const cuda::Counters after = cuda::counters();
  CHECK(after.synchronizations == warm.synchronizations);
  CHECK(after.driver_allocations == warm.driver_allocations);
}
