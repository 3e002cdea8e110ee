// Batches of a DataLoader, copied ahead to a GPU.
#include "lathe/train/batches.h"

#include <utility>

#include "lathe/core/copy.h"
#include "lathe/core/error.h"
#include "lathe/data/device/device_batches.h"

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
              " tensors, its type ", wanted);
}

namespace {

class LoaderBatches : public Batches {
 public:
  LoaderBatches(data::DataLoader& loader, Device device) : loader_(loader), device_(device) {}

  int64_t size() const override { return loader_.size(); }
  double wait_seconds() const override { return loader_.stats().wait_seconds; }
  void keep_places() override { options_.places = std::make_shared<data::BatchPlaces>(); }
  bool keeps_places() const override { return options_.places != nullptr; }

  std::unique_ptr<Pass> begin(int64_t epoch, int64_t first) override {
    loader_.set_epoch(epoch, first);
    return std::make_unique<LoaderPass>(data::prefetch(loader_, device_, options_), device_);
  }

 private:
  class LoaderPass : public Pass {
   public:
    LoaderPass(data::DeviceBatches batches, Device device)
        : batches_(std::move(batches)), at_(batches_.begin()), device_(device) {}

    bool next(Tensors& batch) override {
      batch.clear();  // frees its memory for the next one
      if (begun_) ++at_;
      begun_ = true;
      if (at_ == batches_.end()) return false;
      batch = detail::on_device(tensors_of(std::as_const(*at_)), device_);
      return true;
    }

   private:
    data::DeviceBatches batches_;
    data::DeviceBatches::Iterator at_;
    Device device_;
    bool begun_ = false;
  };

  data::DataLoader& loader_;
  Device device_;
  data::PrefetchOptions options_;
};

}  // namespace

std::unique_ptr<Batches> batches_of(data::DataLoader& loader, Device device) {
  return std::make_unique<LoaderBatches>(loader, device);
}

}  // namespace lathe::train
