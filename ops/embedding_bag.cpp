// embedding_bag: checks, and what it is made of. On the CPU it is bag_sums.h. On a GPU each
// looked-up row gets the number of its bag, and index_add or scatter_reduce reduces the rows of one
// number; maxima of bags of equally many rows are max() along a dimension. Graphs and debug scopes
// see these ops on the CPU too. Contract: embedding_bag.h.
#include "lathe/ops/embedding_bag.h"

#include <limits>
#include <utility>
#include <vector>

#include "lathe/core/hooks/range.h"
#include "lathe/core/hooks/watch.h"
#include "lathe/core/visit.h"
#include "lathe/ops/argmax.h"
#include "lathe/ops/bag_sums.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/floating_check.h"
#include "lathe/ops/index.h"
#include "lathe/ops/join.h"
#include "lathe/ops/scatter_reduce.h"
#include "lathe/ops/searchsorted.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"
#include "lathe/ops/where.h"

namespace lathe {

namespace {

constexpr const char* kEmbeddingBag = "embedding_bag";

void check_bag_integers(const char* name, const Tensor& t, const Tensor& weight) {
  LATHE_CHECK(DTypeError, t.dtype() == kI64 || t.dtype() == kI32, kEmbeddingBag, ": ", name,
              " must be i64 or i32 (", name, ": ", t, ")");
  LATHE_CHECK(DeviceError, t.device() == weight.device(), kEmbeddingBag, ": ", name,
              " is on another device (weight: ", weight, ", ", name, ": ", t, ")");
}

void check_bag_factors(const Tensor& weight, const Tensor& index, const EmbeddingBagOptions& opt) {
  const Tensor& factors = opt.per_sample_weights;
  if (!factors.defined()) return;
  LATHE_CHECK(ValueError, opt.mode == EmbeddingBagMode::kSum, kEmbeddingBag,
              ": per_sample_weights need the mode kSum (per_sample_weights: ", factors, ")");
  LATHE_CHECK(ShapeError, factors.shape() == index.shape(), kEmbeddingBag,
              ": per_sample_weights must have index's shape (index: ", index,
              ", per_sample_weights: ", factors, ")");
  LATHE_CHECK(DTypeError, factors.dtype() == weight.dtype(), kEmbeddingBag,
              ": per_sample_weights must have weight's dtype (weight: ", weight,
              ", per_sample_weights: ", factors, ")");
  LATHE_CHECK(DeviceError, factors.device() == weight.device(), kEmbeddingBag,
              ": per_sample_weights are on another device (weight: ", weight,
              ", per_sample_weights: ", factors, ")");
}

void check_bag_offsets(const Tensor& weight, const Tensor& index, const EmbeddingBagOptions& opt) {
  const Tensor& offsets = opt.offsets;
  LATHE_CHECK(ShapeError, index.ndim() == (offsets.defined() ? 1 : 2), kEmbeddingBag,
              ": index must be [B,K], or [K] with offsets (index: ", index, ")");
  if (!offsets.defined()) {
    LATHE_CHECK(ValueError, !opt.include_last_offset, kEmbeddingBag,
                ": include_last_offset needs offsets (index: ", index, ")");
    return;
  }
  check_bag_integers("offsets", offsets, weight);
  LATHE_CHECK(ShapeError, offsets.ndim() == 1 && (offsets.numel() > 0 || !opt.include_last_offset),
              kEmbeddingBag,
              ": offsets must be [B], or [B + 1] with include_last_offset (offsets: ", offsets,
              ")");
  if (!offsets.device().is_cpu()) return;
  const auto all = offsets.to_vector<int64_t>();
  LATHE_CHECK(ValueError, !all.empty() || index.numel() == 0, kEmbeddingBag,
              ": without offsets there is no bag (index: ", index, ", offsets: ", offsets, ")");
  for (size_t i = 0; i < all.size(); ++i) {
    const bool ascends = i == 0 ? all[0] == 0 : all[i] >= all[i - 1];
    LATHE_CHECK(ValueError, ascends && all[i] <= index.numel(), kEmbeddingBag,
                ": offsets must ascend from 0 to at most ", index.numel(), ", got ", all[i],
                " in place ", i, " (offsets: ", offsets, ")");
  }
}

/// The row that is left out of bags, or -1.
int64_t padding_row(const Tensor& weight, const EmbeddingBagOptions& opt) {
  if (!opt.padding_index) return -1;
  const int64_t padding = *opt.padding_index, size = weight.dim(0);
  LATHE_CHECK(IndexError, padding >= -size && padding < size, kEmbeddingBag, ": padding_index ",
              padding, " is outside [", -size, ", ", size, ") (weight: ", weight, ")");
  return padding < 0 ? padding + size : padding;
}

/// The index as i64 [K], in range.
Tensor looked_up_rows(const Tensor& weight, const Tensor& index) {
  const Tensor places = reshape(cast(index, kI64), {index.numel()});
  check_index(kEmbeddingBag, places, weight.dim(0));
  return places;
}

/// The bags on the CPU.
Bags bags_of(const Tensor& weight, const Tensor& index, const EmbeddingBagOptions& opt) {
  const Tensor rows = contiguous(looked_up_rows(weight, index));
  const int64_t padding = padding_row(weight, opt), numbers = rows.numel();
  std::vector<int64_t> begins;
  if (index.ndim() == 2) {
    for (int64_t b = 0; b <= index.dim(0); ++b) begins.push_back(b * index.dim(1));
  } else {
    begins = opt.offsets.to_vector<int64_t>();
    if (!opt.include_last_offset) begins.push_back(numbers);
  }
  if (padding < 0) return {tensor(begins), rows, {}, weight.dim(0), numbers};
  const Tensor kept = empty({numbers}, rows.options()), number = empty({numbers}, rows.options());
  const int64_t* const row = rows.data<int64_t>();
  int64_t count = 0;
  for (size_t b = 0; b + 1 < begins.size(); ++b) {
    const int64_t begin = std::exchange(begins[b], count);
    for (int64_t k = begin; k < begins[b + 1]; ++k) {
      if (row[k] == padding) continue;
      kept.data<int64_t>()[count] = row[k];
      number.data<int64_t>()[count++] = k;
    }
  }
  begins.back() = count;
  return {tensor(begins), kept, number, weight.dim(0), numbers};
}

/// The op on the CPU.
Tensor by_loops(const Tensor& weight, const Tensor& index, const EmbeddingBagOptions& opt) {
  const Bags bags = bags_of(weight, index, opt);
  if (opt.mode == EmbeddingBagMode::kMax) return bag_maxima(weight, bags);
  Tensor factors = opt.per_sample_weights;
  if (factors.defined()) {
    factors = reshape(cast(factors, compute_dtype(weight.dtype())), {factors.numel()});
  }
  const bool means = opt.mode == EmbeddingBagMode::kMean;
  return cast(bag_sums(weight, factors, bags, means), weight.dtype());
}

/// The rows that are looked up, in order, and the bag of each. Those of no bag have the number
/// `count`.
struct BagRows {
  Tensor values;  // [K,E]
  Tensor bags;    // i64 [K]
  int64_t count;
};

BagRows bag_rows(const Tensor& weight, const Tensor& index, const EmbeddingBagOptions& opt) {
  const Tensor places = looked_up_rows(weight, index);
  const auto numbers = [&](int64_t n) {
    return arange(n, {.dtype = kI64, .device = weight.device()});
  };
  BagRows rows;
  if (index.ndim() == 2) {
    rows.count = index.dim(0);
    rows.bags = reshape(expand(unsqueeze(numbers(rows.count), 1), index.shape()), places.shape());
  } else {
    rows.count = opt.offsets.numel() - (opt.include_last_offset ? 1 : 0);
    const Tensor begins = cast(opt.offsets, kI64);
    rows.bags = sub(searchsorted(begins, numbers(places.numel()), {.right = true}), 1);
    // A first offset above 0 on a GPU, which check_bag_offsets() does not wait for.
    if (!begins.device().is_cpu()) check_index(kEmbeddingBag, rows.bags, rows.count + 1);
  }
  Tensor padded;  // bool [K], or undefined
  const int64_t padding = padding_row(weight, opt);
  if (padding >= 0) {
    padded = eq(places, padding);
    rows.bags = masked_fill(rows.bags, padded, rows.count);
  }
  const DType wide = compute_dtype(weight.dtype());
  rows.values = cast(index_select(weight, 0, places), wide);
  if (opt.per_sample_weights.defined()) {
    const Tensor factors = reshape(cast(opt.per_sample_weights, wide), {places.numel(), 1});
    // A NaN of the padding row would reach the gradient of its factor, as NaN times 0.
    if (padded.defined()) rows.values = masked_fill(rows.values, unsqueeze(padded, 1), 0);
    rows.values = mul(rows.values, factors);
  }
  return rows;
}

/// Tensors of one row for each bag, and one more for what is in no bag.
Tensor zeros_of_bags(const BagRows& rows, int64_t columns) {
  return zeros({rows.count + 1, columns}, rows.values.options());
}

Tensor sums_of_bags(const BagRows& rows, bool means) {
  const Tensor sums = index_add(zeros_of_bags(rows, rows.values.dim(1)), 0, rows.bags, rows.values);
  if (!means) return sums;
  const Tensor one = ones({rows.bags.numel(), 1}, rows.values.options());
  return div(sums, clamp(index_add(zeros_of_bags(rows, 1), 0, rows.bags, one), {.low = 1}));
}

/// By the number of the first row that has the maximum, so that only this one gets the gradient.
Tensor largest_of_bags(const BagRows& rows) {
  const Tensor values = rows.values.detach(), at = expand(unsqueeze(rows.bags, 1), values.shape());
  const int64_t n = values.dim(0), columns = values.dim(1);
  const Tensor most = scatter_reduce(zeros_of_bags(rows, columns), 0, at, values,
                                     ScatterReduction::kAmax, {.include_self = false});
  const Tensor wins = logical_or(eq(values, gather(most, 0, at)), isnan(values));
  const TensorOptions integers{.dtype = kI64, .device = values.device()};
  const Tensor number = expand(unsqueeze(arange(n, integers), 1), values.shape());
  const Tensor first = scatter_reduce(full({rows.count + 1, columns}, n, integers), 0, at,
                                      where(wins, number, n), ScatterReduction::kAmin);
  const Tensor nothing = zeros({1, columns}, values.options());  // row n, of empty bags
  return gather(cat({rows.values, nothing}), 0, first);
}

/// The same for bags of equally many rows, at least one, none of which is padding.
Tensor largest_of_even_bags(const BagRows& rows) {
  const int64_t n = rows.values.dim(0), columns = rows.values.dim(1);
  return max(reshape(rows.values, {rows.count, n / rows.count, columns}), 1).values;
}

}  // namespace

Tensor embedding_bag(const Tensor& weight, const Tensor& index, const EmbeddingBagOptions& opt) {
  const profile::OpRange range(kEmbeddingBag, {weight, index});
  check_floating(kEmbeddingBag, weight);
  LATHE_CHECK(ShapeError, weight.ndim() == 2, kEmbeddingBag,
              ": weight must be [V,E] (weight: ", weight, ")");
  check_bag_integers("index", index, weight);
  check_bag_offsets(weight, index, opt);
  check_bag_factors(weight, index, opt);
  const bool countable = index.numel() <= std::numeric_limits<int32_t>::max();
  // The loop for the maximum has no row to name for an empty bag of an empty table.
  const bool nameable = opt.mode != EmbeddingBagMode::kMax || weight.dim(0) > 0;
  if (weight.device().is_cpu() && countable && nameable && !profile::watched()) {
    return by_loops(weight, index, opt);
  }
  const BagRows rows = bag_rows(weight, index, opt);
  Tensor y;
  if (opt.mode != EmbeddingBagMode::kMax) {
    y = sums_of_bags(rows, opt.mode == EmbeddingBagMode::kMean);
  } else {
    const bool even = index.ndim() == 2 && index.numel() > 0 && !opt.padding_index;
    y = even ? largest_of_even_bags(rows) : largest_of_bags(rows);
  }
  return cast(narrow(y, 0, 0, rows.count), weight.dtype());
}

}  // namespace lathe
