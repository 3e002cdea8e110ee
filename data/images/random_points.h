// RandomPoints: selects random points of each sample of a data set of point clouds, other points in
// every epoch.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "lathe/core/config.h"
#include "lathe/data/dataset.h"

namespace lathe::data {

struct RandomPointsOptions {
  int64_t points = 1024;
  std::vector<int> fields = {0};  // fields [N, …] of a sample; all get the same selection
};

/// The samples of another data set, with `points` random rows of each field in `fields`. No row is
/// taken twice. Every selection of rows, in every order, is equally likely; the sample's key
/// determines the selection. Other fields are unchanged. A RandomPoints refers to `dataset`, which
/// must outlive it.
class LATHE_API RandomPoints final : public Dataset {
 public:
  /// throws: ValueError if points < 1, or if a sample has fewer than `points` rows; IndexError for
  /// a field that does not exist; ShapeError if a field is a single number or the fields differ in
  /// dimension 0.
  RandomPoints(const Dataset& dataset, const RandomPointsOptions& options);
  RandomPoints(const Dataset&& dataset, const RandomPointsOptions& options) = delete;

  int64_t size() const override { return dataset_->size(); }
  SampleSpec spec() const override { return spec_; }
  void read(int64_t i, Key key, Slot out) const override;
  void prepare(int64_t i) const noexcept override { dataset_->prepare(i); }

 private:
  /// Memory for one whole sample, borrowed by a thread while it reads.
  class Loan;

  const Dataset* dataset_;
  SampleSpec whole_, spec_;
  std::vector<bool> is_thinned_;  // of each field
  int64_t all_points_ = 0, points_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<BatchBuffer>> free_;
};

}  // namespace lathe::data
