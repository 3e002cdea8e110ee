// prefetch(): the copy and the transform of the next batch on a stream of their own.
#include "lathe/data/device/device_batches.h"

#include <algorithm>
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
#include "lathe/ops/views.h"

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

ImageSpec stored_spec(const ResidentImages& resident) {
  const Tensor& images = resident.images();
  return {images.dim(1), images.dim(2), images.dim(3), kU8};
}

/// The batches of one pass. One batch is taken ahead.
class DeviceStream final : public BatchStream<Batch> {
 public:
  DeviceStream(Pass pass, uint64_t seed, Device device, PrefetchOptions options)
      : pass_(std::move(pass)), seed_(seed), device_(device), options_(std::move(options)) {
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

  std::shared_ptr<Batch> next() override {
    if (copies_) end_use(current_stream(device_));
    Loaded now = ahead_ ? *std::exchange(ahead_, std::nullopt) : load();
    if (now.error) std::rethrow_exception(now.error);
    pass_.hand_out(now.batch);
    if (now.batch == nullptr || !copies_) return now.batch;
    const Stream user = current_stream(device_);
    now.arrived->block(user);
    if (now.place != nullptr) options_.places->hand_out(*now.place);
    for (const Tensor* t : {&now.batch->x, &now.batch->y})
      if (t->defined()) record_stream(*t, user);
    for (const Tensor& t : now.batch->more) record_stream(t, user);
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
    std::shared_ptr<Batch> batch;
    std::shared_ptr<Event> arrived;  // on a GPU: when its copies and transform are done
    BatchPlaces::Place* place = nullptr;
    std::exception_ptr error;
  };

  void end_use(Stream user) {
    if (options_.places) options_.places->end_use(user);
  }

  Loaded load() {
    auto host = std::static_pointer_cast<Batch>(pass_.take());
    if (host == nullptr) return {};
    const NoGrad off;
    const profile::MemoryTagScope data(profile::MemoryTag::kData);
    if (!copies_) {
      if (options_.drawn_only) {
        draw(*host);
      } else {
        move_and_transform(*host);
      }
      return {.batch = std::move(host)};
    }
    const StreamScope on(*copies_);
    BatchPlaces::Place* place = nullptr;
    if (options_.drawn_only) draw(*host);
    if (is_made_on_host()) {
      if (options_.places) place = &put(*host);
      *host = host->to_async(device_);  // the fields that are not in a place
    } else {
      move_and_transform(*host);
      if (options_.places) place = &put(*host);
    }
    auto arrived = std::make_shared<Event>(device_);
    arrived->record(*copies_);
    return {.batch = std::move(host), .arrived = std::move(arrived), .place = place};
  }

  bool is_made_on_host() const {
    return options_.drawn_only || (!options_.resident && options_.transform.empty());
  }

  AugmentOptions augment_options() const {
    return {
        .seed = seed_, .epoch = pass_.epoch(), .dtype = options_.dtype, .format = options_.format};
  }

  /// Makes x and y what was drawn for the batch. On a GPU they are pinned: from pageable memory the
  /// driver would copy them twice, and may wait.
  void draw(Batch& batch) const {
    const ImageSpec stored = stored_spec(*options_.resident);
    batch.x = draw_windows(options_.transform, stored, batch.indices, augment_options());
    batch.y = from_blob(batch.indices.data(), {batch.size()}, kI64).clone();
    if (!copies_) return;
    batch.x = batch.x.pin_memory();
    batch.y = batch.y.pin_memory();
  }

  /// Moves x and y to a place.
  BatchPlaces::Place& put(Batch& batch) {
    BatchPlaces::Place& place = options_.places->take(batch.x, batch.y, *copies_);
    for (const auto& [to, from] : {std::pair{&place.x, &batch.x}, std::pair{&place.y, &batch.y}}) {
      if (!from->defined()) continue;
      copy_values_async(*to, *from);
      *from = *to;
    }
    return place;
  }

  void move_and_transform(Batch& batch) {
    if (options_.resident) {
      const auto count = static_cast<int64_t>(batch.indices.size());
      Tensor index = from_blob(batch.indices.data(), {count}, kI64);
      if (device_.is_cuda()) {  // from pageable memory the driver would copy it twice, and may wait
        const Tensor pinned = index.pin_memory();
        index = empty({count}, {.dtype = kI64, .device = device_});
        copy_values_async(index, pinned);
      }
      batch.x = index_select(options_.resident->images(), 0, index);
      batch.y = index_select(options_.resident->labels(), 0, index);
    } else if (device_.is_cuda()) {
      batch = batch.to_async(device_);
    }
    if (options_.transform.empty()) return;
    batch.x = augment(batch.x, options_.transform, batch.indices, augment_options());
  }

  Pass pass_;
  uint64_t seed_;
  Device device_;
  PrefetchOptions options_;
  std::optional<Stream> copies_;  // on a GPU
  std::optional<Loaded> ahead_;
};

}  // namespace

ResidentImages::ResidentImages(const ImageDataset& images, Device device) {
  LATHE_CHECK(ValueError, images.has_one_size(),
              "ResidentImages: the images of this data set have many sizes");
  const profile::MemoryTagScope data(profile::MemoryTag::kData);
  constexpr int64_t kImagesAtATime = 1024;
  const ImageSpec& spec = images.stored_spec();
  const int64_t count = images.size();
  images_ =
      empty({count, spec.channels, spec.height, spec.width}, {.dtype = kU8, .device = device});
  const Tensor labels = empty({count}, {.dtype = kI64});
  std::vector<uint8_t> pixels, some;
  for (int64_t first = 0; first < count; first += kImagesAtATime) {
    const int64_t n = std::min(kImagesAtATime, count - first);
    some.clear();
    for (int64_t i = first; i < first + n; ++i) {
      labels.data<int64_t>()[i] = images.load(i, pixels).label;
      some.insert(some.end(), pixels.begin(), pixels.end());
    }
    copy_values(narrow(images_, 0, first, n),
                from_blob(some.data(), {n, spec.channels, spec.height, spec.width}, kU8));
  }
  labels_ = labels.to(device);
  if (device.is_cuda()) synchronize(current_stream(device));  // other streams will read them
}

std::pair<Tensor, Tensor> make_batch(const PrefetchOptions& options, const Tensor& windows,
                                     const Tensor& rows) {
  const NoGrad off;
  const profile::MemoryTagScope data(profile::MemoryTag::kData);
  const ResidentImages& from = *options.resident;
  return {augment_rows(from.images(), rows, windows, options.transform,
                       {.dtype = options.dtype, .format = options.format}),
          index_select(from.labels(), 0, rows)};
}

DeviceBatches::DeviceBatches(DataLoader& loader, Device device, PrefetchOptions options)
    : loader_(&loader), device_(device), options_(std::move(options)) {
  if (options_.resident)
    LATHE_CHECK(DeviceError, options_.resident->images().device() == device,
                "prefetch: the resident images are on ", options_.resident->images().device(),
                ", the batches are wanted on ", device);
  if (options_.drawn_only)
    LATHE_CHECK(
        ValueError, options_.resident && has_only_pixel_stages(options_.transform),
        "prefetch: batches that are only drawn need resident images, and a transform without "
        "stages that make new pixels, such as resize");
}

DeviceBatches::Iterator DeviceBatches::begin() {
  Pass pass = options_.resident ? loader_->start_indices() : loader_->start();
  return Iterator(
      std::make_shared<DeviceStream>(std::move(pass), loader_->options().seed, device_, options_));
}

DeviceBatches prefetch(DataLoader& loader, Device device, PrefetchOptions options) {
  return DeviceBatches(loader, device, std::move(options));
}

}  // namespace lathe::data
