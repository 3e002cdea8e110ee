// prefetch(): the copy and the transform of the next batch on a stream of their own.
#include "lathe/data/device/device_batches.h"

#include <concepts>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "lathe/autograd/grad_mode.h"
#include "lathe/core/copy.h"
#include "lathe/core/error.h"
#include "lathe/core/hooks/memory_tag.h"
#include "lathe/core/stream.h"
#include "lathe/data/transforms/augment.h"
#include "lathe/data/transforms/augment_rows.h"
#include "lathe/ops/index.h"

namespace lathe::data {
namespace {

/// The stream for copies to a device. All passes share it, so that the memory blocks of one pass
/// serve the next. It is never destroyed, because at exit the driver may be gone already.
Stream copy_stream(Device device) {
  static std::mutex mutex;
  static auto& streams = *new std::map<int, OwnedStream>();
  const std::lock_guard lock(mutex);
  return streams.try_emplace(device.index, device).first->second;
}

/// Queued on the current stream, without waiting.
Tensor to_device_async(const Tensor& t, Device device) {
  if (t.device() == device) return t;
  const Tensor out = empty(t.shape(), {.dtype = t.dtype(), .device = device});
  copy_values_async(out, t);
  return out;
}

/// The tensors of a batch, where they stand.
std::vector<Tensor*> tensors_of(Batch& batch) {
  std::vector<Tensor*> all;
  for (Tensor* const each : {&batch.x, &batch.y})
    if (each->defined()) all.push_back(each);
  for (Tensor& each : batch.more) all.push_back(&each);
  return all;
}

std::vector<Tensor*> tensors_of(DrawnBatch& batch) { return {&batch.windows, &batch.rows}; }

/// On a GPU pinned: from pageable memory the driver would copy it twice, and may wait.
Tensor for_copy(const Tensor& t, Device device) { return device.is_cuda() ? t.pin_memory() : t; }

Tensor rows_of(const Batch& batch) {
  return from_blob(const_cast<int64_t*>(batch.indices.data()), {batch.size()}, kI64).clone();
}

/// The batches of one pass on a device. One batch is taken ahead.
template <class B>
class AheadSource final : public BatchSource<B> {
 public:
  AheadSource(Pass<Batch> pass, uint64_t seed, Device device, const PrefetchOptions& options)
      : seed_(seed), device_(device), options_(options), pass_(std::move(pass)) {
    if (!device_.is_cuda()) return;
    copies_ = copy_stream(device_);
    if (options_.places) {
      end_use(current_stream(device_));  // of a pass that was broken off
      options_.places->begin_pass();
    }
    if (options_.resident) {
      record_stream(options_.resident->images(), *copies_);
      record_stream(options_.resident->labels(), *copies_);
    }
  }

  std::shared_ptr<B> next() override {
    if (copies_) end_use(current_stream(device_));
    Loaded now = ahead_ ? *std::exchange(ahead_, std::nullopt) : load();
    if (now.error) std::rethrow_exception(now.error);
    pass_.hand_out(now.batch != nullptr);
    if (now.batch == nullptr || !copies_) return now.batch;
    const Stream user = current_stream(device_);
    now.arrived->block(user);
    if (now.place != nullptr) options_.places->hand_out(*now.place);
    for (const Tensor* each : tensors_of(*now.batch)) record_stream(*each, user);
    if (options_.resident || pass_.ready()) {
      try {
        ahead_ = load();
      } catch (...) {  // thrown later, when it is that batch's turn
        ahead_ = Loaded{.error = std::current_exception()};
      }
    }
    return now.batch;
  }

 private:
  struct Loaded {
    std::shared_ptr<B> batch;
    std::shared_ptr<Event> arrived;  // on a GPU: when its copies and transform are done
    BatchPlaces::Place* place = nullptr;
    std::exception_ptr error;
  };

  /// Makes the batch of what the loader gave, on the current stream. Its tensors may still be the
  /// host's: they are moved to the device then.
  std::shared_ptr<B> make(std::shared_ptr<Batch> batch) const {
    if constexpr (std::same_as<B, DrawnBatch>) {
      const Tensor& images = options_.resident->images();
      const ImageSpec stored{images.dim(1), images.dim(2), images.dim(3), kU8};
      const Tensor windows = draw_windows(options_.transform, stored, batch->indices,
                                          {.seed = seed_, .epoch = pass_.epoch()});
      return std::make_shared<DrawnBatch>(for_copy(windows, device_),
                                          for_copy(rows_of(*batch), device_));
    } else {
      if (options_.resident) {
        const Tensor rows = to_device_async(for_copy(rows_of(*batch), device_), device_);
        batch->x = index_select(options_.resident->images(), 0, rows);
        batch->y = index_select(options_.resident->labels(), 0, rows);
      }
      if (options_.transform.empty()) return batch;
      batch->x = augment(to_device_async(batch->x, device_), options_.transform, batch->indices,
                         {.seed = seed_,
                          .epoch = pass_.epoch(),
                          .dtype = options_.dtype,
                          .format = options_.format});
      return batch;
    }
  }

  void end_use(Stream user) {
    if (options_.places) options_.places->end_use(user);
  }

  Loaded load() {
    std::shared_ptr<Batch> host = pass_.take();
    if (host == nullptr) return {};
    const NoGrad off;
    const profile::MemoryTagScope data(profile::MemoryTag::kData);
    if (!copies_) return {.batch = make(std::move(host))};
    const StreamScope on(*copies_);
    std::shared_ptr<B> batch = make(std::move(host));
    BatchPlaces::Place* const place = move_to_device(*batch);
    auto arrived = std::make_shared<Event>(device_);
    arrived->record(*copies_);
    return {.batch = std::move(batch), .arrived = std::move(arrived), .place = place};
  }

  /// To a place, if there are places.
  BatchPlaces::Place* move_to_device(B& batch) {
    const std::vector<Tensor*> all = tensors_of(batch);
    if (!options_.places) {
      for (Tensor* each : all) *each = to_device_async(*each, device_);
      return nullptr;
    }
    Tensors like;
    for (const Tensor* each : all) like.push_back(*each);
    BatchPlaces::Place& place = options_.places->take(like, *copies_);
    for (size_t i = 0; i < all.size(); ++i) {
      copy_values_async(place.tensors[i], *all[i]);
      *all[i] = place.tensors[i];
    }
    return &place;
  }

  const uint64_t seed_;
  const Device device_;
  const PrefetchOptions options_;
  Pass<Batch> pass_;
  std::optional<Stream> copies_;  // on a GPU
  std::optional<Loaded> ahead_;
};

}  // namespace

std::pair<Tensor, Tensor> make_batch(const PrefetchOptions& options, const DrawnBatch& drawn) {
  const NoGrad off;
  const profile::MemoryTagScope data(profile::MemoryTag::kData);
  const ResidentImages& from = *options.resident;
  return {augment_rows(from.images(), drawn.rows, drawn.windows, options.transform,
                       {.dtype = options.dtype, .format = options.format}),
          index_select(from.labels(), 0, drawn.rows)};
}

template <class B>
Prefetched<B>::Prefetched(DataLoader& loader, Device device, PrefetchOptions options)
    : loader_(&loader), device_(device), options_(std::move(options)) {
  if (options_.resident) {
    const Device there = options_.resident->images().device();
    LATHE_CHECK(DeviceError, there == device, "prefetch: the resident images are on ", there,
                ", but the batches are to be on ", device);
  }
  if constexpr (std::same_as<B, DrawnBatch>) {
    LATHE_CHECK(ValueError, options_.resident && has_only_pixel_stages(options_.transform),
                "prefetch_drawn: needs options.resident, and a transform whose stages only move, "
                "erase and rescale pixels: no resize, no changes of colour");
  }
}

template <class B>
typename Prefetched<B>::Iterator Prefetched<B>::begin() {
  Pass<Batch> pass = options_.resident ? loader_->start_indices() : loader_->start();
  return Iterator(std::make_shared<AheadSource<B>>(std::move(pass), loader_->options().seed,
                                                   device_, options_));
}

template class Prefetched<Batch>;
template class Prefetched<DrawnBatch>;

DeviceBatches prefetch(DataLoader& loader, Device device, PrefetchOptions options) {
  return DeviceBatches(loader, device, std::move(options));
}

DrawnBatches prefetch_drawn(DataLoader& loader, Device device, PrefetchOptions options) {
  return DrawnBatches(loader, device, std::move(options));
}

}  // namespace lathe::data
