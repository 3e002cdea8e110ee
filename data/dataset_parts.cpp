// Subset, ConcatDataset, random_split() and stratified_split().
#include "lathe/data/dataset_parts.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <utility>

#include "lathe/core/error.h"
#include "lathe/data/sampler.h"

namespace lathe::data {
namespace {

void check_same_samples(const SampleSpec& first, const SampleSpec& other, size_t part) {
  LATHE_CHECK(ShapeError, first.fields.size() == other.fields.size(),
              "ConcatDataset: samples of part ", part, " have ", other.fields.size(),
              " fields, those of part 0 have ", first.fields.size());
  for (size_t f = 0; f < first.fields.size(); ++f) {
    const Field &a = first.fields[f], &b = other.fields[f];
    LATHE_CHECK(ShapeError, a.shape == b.shape, "ConcatDataset: field ", f, " of part ", part,
                " has shape ", b.shape, ", the same field of part 0 has ", a.shape);
    LATHE_CHECK(DTypeError, a.dtype == b.dtype, "ConcatDataset: field ", f, " of part ", part,
                " is ", b.dtype, ", the same field of part 0 is ", a.dtype);
  }
}

}  // namespace

Subset::Subset(const Dataset& dataset, std::vector<int64_t> indices)
    : dataset_(&dataset), indices_(std::move(indices)) {
  const int64_t size = dataset.size();
  for (const int64_t i : indices_)
    LATHE_CHECK(IndexError, i >= 0 && i < size, "Subset: index ", i, " of a data set of ", size,
                " samples");
}

void Subset::read(int64_t i, Key key, Slot out) const {
  const int64_t index = indices_[static_cast<size_t>(i)];
  dataset_->read(index, {key.seed, key.epoch, index}, out);
}

ConcatDataset::ConcatDataset(std::vector<const Dataset*> parts) : parts_(std::move(parts)) {
  LATHE_CHECK(ValueError, !parts_.empty(), "ConcatDataset: no data sets");
  const SampleSpec first = parts_[0]->spec();
  int64_t end = 0;
  for (size_t k = 0; k < parts_.size(); ++k) {
    check_same_samples(first, parts_[k]->spec(), k);
    ends_.push_back(end += parts_[k]->size());
  }
}

ConcatDataset::Place ConcatDataset::place(int64_t i) const {
  const auto part =
      static_cast<size_t>(std::upper_bound(ends_.begin(), ends_.end(), i) - ends_.begin());
  return {*parts_[part], part == 0 ? i : i - ends_[part - 1]};
}

void ConcatDataset::read(int64_t i, Key key, Slot out) const {
  const Place at = place(i);
  at.part.read(at.index, key, out);
}

void ConcatDataset::prepare(int64_t i) const noexcept {
  const Place at = place(i);
  at.part.prepare(at.index);
}

std::vector<Subset> random_split(const Dataset& dataset, const std::vector<int64_t>& sizes,
                                 uint64_t seed) {
  int64_t left = dataset.size();
  for (const int64_t size : sizes) {
    LATHE_CHECK(ValueError, size >= 0 && size <= left, "random_split: a part has ", size,
                " samples, but only ", left, " of ", dataset.size(), " samples are left");
    left -= size;
  }
  const std::vector<int64_t> order = RandomSampler(dataset.size()).order(seed, 0);
  std::vector<Subset> parts;
  auto from = order.begin();
  for (const int64_t size : sizes) {
    parts.emplace_back(dataset, std::vector<int64_t>(from, from + size));
    from += size;
  }
  return parts;
}

namespace {

/// How many samples of a class the part gets.
struct Share {
  int64_t has, gets;
  double left_over;  // what rounding down has taken away
};

std::map<int64_t, Share> shares_of(const std::vector<int64_t>& labels, double fraction) {
  std::map<int64_t, Share> shares;
  for (const int64_t label : labels) ++shares[label].has;
  auto missing = std::llround(fraction * static_cast<double>(labels.size()));
  std::vector<Share*> by_left_over;
  for (auto& [label, share] : shares) {
    const double exact = fraction * static_cast<double>(share.has);
    share.gets = std::min(static_cast<int64_t>(exact), share.has - 1);
    share.left_over = exact - static_cast<double>(share.gets);
    missing -= share.gets;
    by_left_over.push_back(&share);
  }
  std::ranges::stable_sort(by_left_over, std::greater(), &Share::left_over);
  for (Share* share : by_left_over) {
    if (missing <= 0 || share->gets == share->has - 1) continue;
    ++share->gets;
    --missing;
  }
  return shares;
}

}  // namespace

StratifiedSplit stratified_split(const std::vector<int64_t>& labels, double fraction,
                                 uint64_t seed) {
  LATHE_CHECK(ValueError, fraction >= 0 && fraction < 1,
              "stratified_split: the fraction must be in [0,1), got ", fraction);
  std::map<int64_t, Share> shares = shares_of(labels, fraction);
  StratifiedSplit out;
  for (const int64_t i : RandomSampler(static_cast<int64_t>(labels.size())).order(seed, 0)) {
    Share& share = shares.at(labels[static_cast<size_t>(i)]);
    (share.gets > 0 ? out.part : out.rest).push_back(i);
    --share.gets;
  }
  std::ranges::sort(out.part);
  std::ranges::sort(out.rest);
  return out;
}

}  // namespace lathe::data
