// Batches of a DataLoader, copied ahead to a GPU.
#include "lathe/train/batches.h"

#include <utility>

#include "lathe/core/copy.h"
#include "lathe/core/error.h"
#include "lathe/data/device/device_batches.h"
#include "lathe/data/transforms/augment_rows.h"

namespace lathe::train {

Tensors detail::on_device(const Tensors& tensors, Device device) {
  Tensors out;
  out.reserve(tensors.size());
  for (const Tensor& each : tensors)
    out.push_back(!each.defined() || each.device() == device ? each : each.to(device));
  return out;
}

void detail::check_count(const Tensors& tensors, size_t wanted) {
  LATHE_CHECK(ShapeError, tensors.size() == wanted, "train: a batch has ", tensors.size(),
              " tensors, but its type has ", wanted);
}

namespace {

class LoaderBatches : public Batches {
 public:
  LoaderBatches(data::DataLoader& loader, Device device, data::PrefetchOptions options)
      : loader_(loader), device_(device), options_(std::move(options)) {}

  int64_t size() const override { return loader_.size(); }
  double wait_seconds() const override { return loader_.stats().wait_seconds; }
  bool keeps_places() const override { return options_.places != nullptr; }
  void keep_places() override {
    options_.places = std::make_shared<data::BatchPlaces>();
    only_drawn_ = options_.resident && data::has_only_pixel_stages(options_.transform);
  }

  std::unique_ptr<Pass> begin(int64_t epoch, int64_t first) override {
    loader_.set_epoch(epoch, first);
    if (only_drawn_) return pass_over(data::prefetch_drawn(loader_, device_, options_));
    return pass_over(data::prefetch(loader_, device_, options_));
  }

  void make(Tensors& batch) const override {
    if (!only_drawn_) return;
    const auto [x, y] = data::make_batch(options_, batch_of<data::DrawnBatch>(batch));
    batch = {x, y};
  }

 private:
  template <class Range>
  std::unique_ptr<Pass> pass_over(Range batches) {
    return std::make_unique<detail::RangePass<Range>>(std::move(batches), device_);
  }

  data::DataLoader& loader_;
  Device device_;
  data::PrefetchOptions options_;
  bool only_drawn_ = false;  // a pass gives DrawnBatches
};

}  // namespace

std::unique_ptr<Batches> batches_of(data::DataLoader& loader, Device device,
                                    const data::PrefetchOptions& options) {
  return std::make_unique<LoaderBatches>(loader, device, options);
}

}  // namespace lathe::train
