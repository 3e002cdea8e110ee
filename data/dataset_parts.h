// Data sets made of other data sets: Subset, ConcatDataset, random_split(), stratified_split().
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "lathe/core/config.h"
#include "lathe/data/dataset.h"

namespace lathe::data {

/// The samples `indices` of another data set, in this order. Sample k draws the same random numbers
/// as sample indices[k] of `dataset`. A Subset refers to `dataset`, which must outlive it.
class LATHE_API Subset final : public Dataset {
 public:
  /// throws: IndexError naming an index that is out of range.
  Subset(const Dataset& dataset, std::vector<int64_t> indices);
  Subset(const Dataset&& dataset, std::vector<int64_t> indices) = delete;

  int64_t size() const override { return static_cast<int64_t>(indices_.size()); }
  SampleSpec spec() const override { return dataset_->spec(); }
  void read(int64_t i, Key key, Slot out) const override;
  void prepare(int64_t i) const noexcept override {
    dataset_->prepare(indices_[static_cast<size_t>(i)]);
  }

 private:
  const Dataset* dataset_;
  std::vector<int64_t> indices_;
};

/// Several data sets joined into one. The index in the joined set decides a sample's random
/// numbers. A ConcatDataset refers to its parts, which must outlive it.
class LATHE_API ConcatDataset final : public Dataset {
 public:
  /// throws: ValueError without parts; ShapeError, DTypeError if their samples differ.
  explicit ConcatDataset(std::vector<const Dataset*> parts);

  int64_t size() const override { return ends_.back(); }
  SampleSpec spec() const override { return parts_[0]->spec(); }
  void read(int64_t i, Key key, Slot out) const override;
  void prepare(int64_t i) const noexcept override;

 private:
  struct Place {
    const Dataset& part;
    int64_t index;
  };
  Place place(int64_t i) const;

  std::vector<const Dataset*> parts_;
  std::vector<int64_t> ends_;  // of each part, as indices of the whole
};

/// Splits a data set into disjoint random parts of the given sizes: random_split(set, {45'000,
/// 5'000}, 7). The same seed gives the same parts. The parts need not cover all samples.
/// throws: ValueError if a size is negative or the sum is above the data set's size.
LATHE_API std::vector<Subset> random_split(const Dataset& dataset,
                                           const std::vector<int64_t>& sizes, uint64_t seed);
LATHE_API std::vector<Subset> random_split(const Dataset&& dataset,
                                           const std::vector<int64_t>& sizes,
                                           uint64_t seed) = delete;

/// The indices of two disjoint parts that cover all samples, each in ascending order.
struct StratifiedSplit {
  std::vector<int64_t> rest, part;
};

/// Chooses a random part of about `fraction` of the samples, with about `fraction` of each class.
/// labels[i] is the class of sample i. The same seed gives the same part. The count of each class
/// is rounded down or up, so that the part's size is as near to round(fraction · samples) as
/// possible. Each class has at least one sample outside the part, so a class with a single sample
/// has none in the part.
/// throws: ValueError unless 0 <= fraction < 1.
LATHE_API StratifiedSplit stratified_split(const std::vector<int64_t>& labels, double fraction,
                                           uint64_t seed);

}  // namespace lathe::data
