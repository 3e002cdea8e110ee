// What prefetch copies from pageable memory, which a driver copies twice and may wait for: nothing
// of an epoch whose images are on the GPU.
#include <doctest/doctest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "../cuda_case.h"
#include "lathe/data/device/device_batches.h"
#include "lathe/lathe.h"
#include "lathe/tests/emulation/cuda_runtime_emulation.h"

using namespace lathe;

TEST_CASE("prefetch: batches of resident images copy nothing from pageable memory" *
          test::cuda_case()) {
  const Device gpu(DeviceType::kCUDA);
  data::ImageSet set{3, 8, 8, std::vector<uint8_t>(40 * 3 * 8 * 8, 7), {}};
  for (int i = 0; i < 40; ++i) set.labels.push_back(static_cast<uint8_t>(i % 10));
  const data::StoredImages images(set, std::vector<std::string>(10, "class"), {.5, .5, .5},
                                  {1, 1, 1}, {});
  data::DataLoader loader(images, {.batch_size = 8, .shuffle = true, .seed = 3});
  const auto resident = std::make_shared<data::ResidentImages>(images, gpu);
  const auto read = [&] {
    std::vector<data::Batch> batches;
    for (auto& batch : data::prefetch(loader, gpu, {.resident = resident}))
      batches.push_back(batch);
    return batches;
  };
  read();  // the first one makes the record of faults
  const uint64_t before = emulation::runtime_probe().pageable_copies;
  const std::vector<data::Batch> batches = read();
  CHECK(emulation::runtime_probe().pageable_copies == before);
  REQUIRE(batches.size() == 5);
  for (const data::Batch& batch : batches) {
    const auto labels = batch.y.cpu().to_vector<int64_t>();
    for (size_t i = 0; i < labels.size(); ++i) CHECK(labels[i] == batch.indices[i] % 10);
  }
}
