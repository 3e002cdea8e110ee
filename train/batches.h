// Batches: the source of batches of a training. batches_of(loader) makes one from any loader.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "lathe/core/config.h"
#include "lathe/core/device.h"
#include "lathe/core/tensor.h"
#include "lathe/data/batch.h"
#include "lathe/data/data_loader.h"
#include "lathe/data/device/device_batches.h"

namespace lathe::train {

/// One pass over batches, on the device of the training.
class LATHE_API Pass {
 public:
  Pass() = default;
  virtual ~Pass() = default;
  Pass(const Pass&) = delete;
  Pass& operator=(const Pass&) = delete;

  /// Gets the next batch.   → false after the last batch
  /// throws: what reading a sample throws.
  virtual bool next(Tensors& batch) = 0;
};

/// A source of batches that is read once per epoch. The first dimension of a batch's first tensor
/// is the number of samples.
class LATHE_API Batches {
 public:
  Batches() = default;
  virtual ~Batches() = default;
  Batches(const Batches&) = delete;
  Batches& operator=(const Batches&) = delete;

  /// The number of batches in an epoch; -1 if unknown.
  virtual int64_t size() const = 0;
  /// Begins epoch `epoch` at batch `first`. Only one pass may exist at a time.
  virtual std::unique_ptr<Pass> begin(int64_t epoch, int64_t first) = 0;

  /// Asks the source to put all batches on a GPU into the same memory, for CUDA graphs that read
  /// batches there. A batch is then valid until the next one is requested. Queue all work on the
  /// batch before that.
  virtual void keep_places() {}
  virtual bool keeps_places() const { return false; }
  /// Turns the tensors that Pass::next() gave into the batch for the loss function, in place.
  /// make() is part of the step: it may be captured into a CUDA graph, so it must not wait for the
  /// device.
  virtual void make(Tensors& /*batch*/) const {}
  /// The seconds that all passes over the batches have waited for them.
  virtual double wait_seconds() const { return 0; }
};

namespace detail {

struct Any {
  template <class T>
  operator T() const;
};

/// The number of members of an aggregate.
template <class T, class... Members>
consteval size_t members_of() {
  if constexpr (requires { T{std::declval<Members>()..., Any{}}; }) {
    return members_of<T, Members..., Any>();
  } else {
    return sizeof...(Members);
  }
}

template <class T>
concept TupleLike = requires {
  std::tuple_size<T>::value;
};

template <class Tuple>
Tensors elements(const Tuple& tuple) {
  return std::apply([](const auto&... element) { return Tensors{element...}; }, tuple);
}

}  // namespace detail

/// The tensors of a batch, in order. A batch is a tensor; a vector, array, pair or tuple of
/// tensors; or a struct of at most six tensors.
template <class Batch>
Tensors tensors_of(const Batch& batch) {
  if constexpr (std::convertible_to<Batch, Tensor>) {
    return {batch};
  } else if constexpr (std::convertible_to<Batch, Tensors>) {
    return batch;
  } else if constexpr (std::same_as<Batch, data::Batch>) {
    Tensors all{batch.x};
    if (batch.y.defined()) all.push_back(batch.y);
    all.insert(all.end(), batch.more.begin(), batch.more.end());
    return all;
  } else if constexpr (detail::TupleLike<Batch>) {
    return detail::elements(batch);
  } else {
    static_assert(std::is_aggregate_v<Batch>,
                  "train: a batch must be a tensor, a vector, an array, a pair or tuple of "
                  "tensors, or a struct of tensors without constructors");
    constexpr size_t kMembers = detail::members_of<Batch>();
    static_assert(kMembers >= 1 && kMembers <= 6,
                  "train: a batch that is a struct has one to six tensors");
    if constexpr (kMembers == 1) {
      const auto& [a] = batch;
      return {a};
    } else if constexpr (kMembers == 2) {
      const auto& [a, b] = batch;
      return {a, b};
    } else if constexpr (kMembers == 3) {
      const auto& [a, b, c] = batch;
      return {a, b, c};
    } else if constexpr (kMembers == 4) {
      const auto& [a, b, c, d] = batch;
      return {a, b, c, d};
    } else if constexpr (kMembers == 5) {
      const auto& [a, b, c, d, e] = batch;
      return {a, b, c, d, e};
    } else {
      const auto& [a, b, c, d, e, f] = batch;
      return {a, b, c, d, e, f};
    }
  }
}

namespace detail {

/// throws: ShapeError unless there are `wanted` tensors.
LATHE_API void check_count(const Tensors& tensors, size_t wanted);

}  // namespace detail

/// Makes a Batch from its tensors; the inverse of tensors_of().
/// throws: ShapeError if the type Batch has another number of tensors.
template <class Batch>
Batch batch_of(const Tensors& tensors) {
  if constexpr (std::same_as<Batch, Tensors>) {
    return tensors;
  } else if constexpr (std::same_as<Batch, Tensor>) {
    detail::check_count(tensors, 1);
    return tensors[0];
  } else {
    const auto make = [&]<size_t... I>(std::index_sequence<I...>) {
      detail::check_count(tensors, sizeof...(I));
      return Batch{tensors[I]...};
    };
    if constexpr (detail::TupleLike<Batch>) {
      return make(std::make_index_sequence<std::tuple_size_v<Batch>>());
    } else {
      return make(std::make_index_sequence<detail::members_of<Batch>()>());
    }
  }
}

namespace detail {

/// Copies the tensors to the device, if possible without a wait.
LATHE_API Tensors on_device(const Tensors& tensors, Device device);

/// A pass over the elements of a range, on a device. `Range` is a reference, or a view that is kept
/// here.
template <class Range>
class RangePass : public Pass {
 public:
  RangePass(Range range, Device device, int64_t skipped = 0)
      : range_(static_cast<Range&&>(range)),
        at_(range_.begin()),
        end_(range_.end()),
        device_(device) {
    for (; skipped > 0 && at_ != end_; --skipped) ++at_;
  }

  bool next(Tensors& batch) override {
    batch.clear();  // frees its memory for the next one
    if (begun_) ++at_;
    begun_ = true;
    if (at_ == end_) return false;
    const auto& taken = *at_;  // also where the iterator returns a value
    batch = on_device(tensors_of(taken), device_);
    return true;
  }

 private:
  Range range_;
  decltype(std::declval<Range&>().begin()) at_;
  decltype(std::declval<Range&>().end()) end_;
  Device device_;
  bool begun_ = false;
};

template <class Loader>
class RangeBatches : public Batches {
 public:
  RangeBatches(Loader& loader, Device device) : loader_(loader), device_(device) {}

  int64_t size() const override {
    if constexpr (requires { loader_.size(); }) {
      return static_cast<int64_t>(loader_.size());
    } else {
      return -1;
    }
  }

  std::unique_ptr<Pass> begin(int64_t epoch, int64_t first) override {
    if constexpr (requires { loader_.set_epoch(epoch, first); }) {
      loader_.set_epoch(epoch, first);
      first = 0;
    } else if constexpr (requires { loader_.set_epoch(epoch); }) {
      loader_.set_epoch(epoch);
    }
    return std::make_unique<RangePass<Loader&>>(loader_, device_, first);
  }

  double wait_seconds() const override {
    if constexpr (requires { loader_.stats().wait_seconds; }) {
      return loader_.stats().wait_seconds;
    } else {
      return 0;
    }
  }

 private:
  Loader& loader_;
  Device device_;
};

}  // namespace detail

/// The batches of a loader, on a device. The loader is a range whose elements are batches, as
/// tensors_of() takes them. The loader must outlive the result. batches_of() uses these members of
/// a loader if they exist:
///   - size() returns the number of batches in an epoch.
///   - set_epoch(epoch, first) begins an epoch at batch `first`. With set_epoch(epoch) alone, the
///     batches before `first` are read and skipped. With neither, every pass over the loader must
///     give the same batches.
/// Batches of a DataLoader are copied to a GPU ahead of their use, and transformed there according
/// to the options (data/device/device_batches.h). If the images are resident on the GPU and
/// Batches::keep_places() was called, Pass::next() only chooses images, and Batches::make() makes
/// the batch from the chosen images.
template <class Loader>
std::unique_ptr<Batches> batches_of(Loader& loader, Device device) {
  return std::make_unique<detail::RangeBatches<Loader>>(loader, device);
}
LATHE_API std::unique_ptr<Batches> batches_of(data::DataLoader& loader, Device device,
                                              const data::PrefetchOptions& options = {});

}  // namespace lathe::train
