// RandomPoints: draws the rows, and keeps memory for whole samples between reads.
#include "lathe/data/images/random_points.h"

#include <cstring>
#include <numeric>

#include "lathe/core/error.h"

namespace lathe::data {
namespace {

/// The first `count` numbers of a random order of 0 to n-1.
const std::vector<int64_t>& choose(int64_t count, int64_t n, Random random) {
  thread_local std::vector<int64_t> order;
  order.resize(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  for (int64_t k = 0; k < count; ++k) {
    const auto left = static_cast<uint64_t>(n - k);
    const auto at = static_cast<size_t>(k) + static_cast<size_t>(random.below(left));
    std::swap(order[static_cast<size_t>(k)], order[at]);
  }
  return order;
}

}  // namespace

class RandomPoints::Loan {
 public:
  explicit Loan(const RandomPoints& owner) : owner_(owner) {
    const std::lock_guard lock(owner.mutex_);
    if (owner.free_.empty()) return;
    buffer_ = std::move(owner.free_.back());
    owner.free_.pop_back();
  }
  ~Loan() {
    const std::lock_guard lock(owner_.mutex_);
    if (buffer_) owner_.free_.push_back(std::move(buffer_));
  }
  Loan(const Loan&) = delete;
  Loan& operator=(const Loan&) = delete;

  Slot slot() {
    if (!buffer_) buffer_ = std::make_unique<BatchBuffer>(owner_.whole_, 1);
    return {*buffer_, 0};
  }

 private:
  const RandomPoints& owner_;
  std::unique_ptr<BatchBuffer> buffer_;
};

RandomPoints::RandomPoints(const Dataset& dataset, const RandomPointsOptions& options)
    : dataset_(&dataset),
      whole_(dataset.spec()),
      spec_(whole_),
      is_thinned_(whole_.fields.size(), false),
      points_(options.points) {
  LATHE_CHECK(ValueError, !options.fields.empty(), "RandomPoints: no fields");
  for (const int field : options.fields) {
    LATHE_CHECK(IndexError, field >= 0 && static_cast<size_t>(field) < whole_.fields.size(),
                "RandomPoints: field ", field, " of samples with ", whole_.fields.size(),
                " fields");
    const Field& whole = whole_.fields[static_cast<size_t>(field)];
    LATHE_CHECK(ShapeError, !whole.shape.empty(), "RandomPoints: field ", field, " (", whole.name,
                ") is one number, not points");
    const int64_t points = whole.shape[0];
    if (field == options.fields[0]) all_points_ = points;
    LATHE_CHECK(ShapeError, points == all_points_, "RandomPoints: field ", field, " (", whole.name,
                ") has ", points, " points, field ", options.fields[0], " has ", all_points_);
    Shape shape = whole.shape;
    shape.erase(0);
    shape.insert(0, points_);
    spec_.fields[static_cast<size_t>(field)].shape = shape;
    is_thinned_[static_cast<size_t>(field)] = true;
  }
  LATHE_CHECK(ValueError, points_ >= 1 && points_ <= all_points_,
              "RandomPoints: points must be from 1 to ", all_points_,
              ", the points of a sample, got ", points_);
}

void RandomPoints::read(int64_t i, Key key, Slot out) const {
  Loan loan(*this);
  const Slot whole = loan.slot();
  dataset_->read(i, key, whole);
  const auto& chosen = choose(points_, all_points_, key.random(kPointsStream));
  for (int f = 0; f < out.fields(); ++f) {
    const auto from = whole.bytes(f), to = out.bytes(f);
    if (!is_thinned_[static_cast<size_t>(f)]) {
      if (!to.empty()) std::memcpy(to.data(), from.data(), to.size());
      continue;
    }
    const size_t row = to.size() / static_cast<size_t>(points_);
    for (size_t k = 0; row > 0 && k < static_cast<size_t>(points_); ++k)
      std::memcpy(to.data() + k * row, from.data() + static_cast<size_t>(chosen[k]) * row, row);
  }
}

}  // namespace lathe::data
