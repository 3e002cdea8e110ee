// Data sets made of others: Subset, ConcatDataset, random_split(), stratified_split().
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "lathe/core/config.h"
#include "lathe/data/dataset.h"

namespace lathe::data {

/// The samples `indices` of another data set, in this order. Sample k draws the random numbers of
/// sample indices[k]. Keeps a reference: `dataset` must outlive it.
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

/// One data set after another. A sample draws the random numbers of its index in the whole. Keeps
/// references.
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

/// Disjoint random parts of the given sizes, the same for the same seed: random_split(set, {45'000,
/// 5'000}, 7). Together they need not be all samples.
/// throws: ValueError if a size is negative or the sum is above the data set's size.
LATHE_API std::vector<Subset> random_split(const Dataset& dataset,
                                           const std::vector<int64_t>& sizes, uint64_t seed);
LATHE_API std::vector<Subset> random_split(const Dataset&& dataset,
                                           const std::vector<int64_t>& sizes,
                                           uint64_t seed) = delete;

/// Sample numbers of two disjoint parts that together are all samples, each in ascending order.
struct StratifiedSplit {
  std::vector<int64_t> rest, part;
};

/// Chooses a random part of about `fraction` of the samples, the same for the same seed, in which
/// each class has its share: labels[i] is the class of sample i. A share is rounded down or up, so
/// that the part comes as near to round(fraction · samples) as that allows. Each class keeps at
/// least one sample in the rest, so one with a single sample has none in the part.
/// throws: ValueError unless 0 <= fraction < 1.
LATHE_API StratifiedSplit stratified_split(const std::vector<int64_t>& labels, double fraction,
                                           uint64_t seed);

}  // namespace lathe::data
