// DataLoader: how a batch is read, over LoaderCore (loader_core.cpp).
#include "lathe/data/data_loader.h"

#include <utility>

#include "lathe/core/device.h"
#include "lathe/core/error.h"

namespace lathe::data {

DataLoader::DataLoader(const Dataset& dataset, DataLoaderOptions options)
    : DataLoader(std::shared_ptr<const Dataset>(std::shared_ptr<void>(), &dataset),
                 std::move(options)) {}

static std::shared_ptr<const Dataset> not_null(std::shared_ptr<const Dataset> dataset) {
  LATHE_CHECK(ValueError, dataset != nullptr, "DataLoader: the data set is null");
  return dataset;
}

DataLoader::DataLoader(std::shared_ptr<const Dataset> dataset, DataLoaderOptions options)
    : dataset_(not_null(std::move(dataset))), core_(dataset_->size(), std::move(options)) {}

Pass<Batch> DataLoader::start() {
  const bool pinned = options().pin_memory && cuda_is_available();
  return core_.begin<Batch>([dataset = dataset_, spec = dataset_->spec(), pinned](
                                std::span<const int64_t> indices, uint64_t seed, int64_t epoch,
                                FunctionRef<bool()> stop) -> std::shared_ptr<Batch> {
    auto batch = std::make_shared<Batch>();
    const BatchBuffer buffer(spec, static_cast<int64_t>(indices.size()), pinned);
    return read_batch(*dataset, buffer, indices, seed, epoch, stop, *batch) ? batch : nullptr;
  });
}

Pass<Batch> DataLoader::start_indices() {
  return core_.begin<Batch>(
      [](std::span<const int64_t> indices, uint64_t, int64_t, FunctionRef<bool()>) {
        auto batch = std::make_shared<Batch>();
        batch->indices.assign(indices.begin(), indices.end());
        return batch;
      },
      0);
}

}  // namespace lathe::data
