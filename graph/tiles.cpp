// Tiles: which dimensions of the operands are the rows, and the views of them. Contract: tiles.h.
#include "lathe/graph/tiles.h"

#include <algorithm>
#include <numeric>

#include "lathe/core/ceil_div.h"
#include "lathe/core/dense.h"
#include "lathe/ops/views.h"

namespace lathe::jit {

namespace {

/// Elements of a tile. Four values of it in f32, as many as a chain of ops uses at once, take half
/// of a second-level cache of 512 KiB; the calls of a tile's ops take a tenth of its arithmetic.
constexpr int64_t kTile = kLeastTiled / 2;

/// The dimensions of `like` from the largest stride to the smallest.
Dims order_of_memory(const Tensor& like) {
  std::vector<int64_t> order(static_cast<size_t>(like.ndim()));
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](int64_t a, int64_t b) {
    return like.strides()[static_cast<int>(a)] > like.strides()[static_cast<int>(b)];
  });
  return order;
}

/// `t` with `ndim` dimensions, of which the first ones have size 1.
Tensor padded(const Tensor& t, int ndim) {
  Shape shape;
  for (int d = t.ndim(); d < ndim; ++d) shape.push_back(1);
  for (const int64_t size : t.shape()) shape.push_back(size);
  return view(t, shape);
}

/// True if the first `leading` dimensions can become one without a copy.
bool merges(const Tensor& t, int leading) {
  int64_t expected = -1;
  for (int d = leading; d-- > 0;) {
    if (t.dim(d) == 1) continue;
    if (expected >= 0 && t.strides()[d] != expected) return false;
    expected = t.strides()[d] * t.dim(d);
  }
  return true;
}

/// What the first `leading` dimensions of an operand are: all of size 1, or all full.
enum class Rows : uint8_t { kAbsent, kFull, kMixed };

Rows rows_of(const Tensor& t, const Shape& shape, int leading) {
  bool absent = true, full = true;
  for (int d = 0; d < leading; ++d) {
    absent &= t.dim(d) == 1;
    full &= t.dim(d) == shape[d];
  }
  return absent ? Rows::kAbsent : full && merges(t, leading) ? Rows::kFull : Rows::kMixed;
}

}  // namespace

Tiles::Operand Tiles::prepare(const Tensor& t, const Shape& ordered, int leading) const {
  if (!t.defined()) return {};
  if (t.numel() == 1) return {t.ndim() == 0 ? t : view(t, {1})};
  const Tensor moved = permute(padded(t, ordered.size()), order_);
  Shape shape;
  const bool full = rows_of(moved, ordered, leading) == Rows::kFull;
  if (full) shape.push_back(rows_);
  for (int d = leading; d < moved.ndim(); ++d) shape.push_back(moved.dim(d));
  // A view: merges() has seen that the rows are one dimension, and the others stay.
  return {view(moved, shape), full, moved.shape()};
}

std::optional<Tiles> Tiles::of(const Shape& shape, const Tensors& operands) {
  const int64_t all = numel_of(shape);
  if (all < kLeastTiled) return std::nullopt;
  Tensor first;  // of the full ones
  for (const Tensor& t : operands) {
    if (!t.defined()) continue;
    if (t.device().is_cuda()) return std::nullopt;
    if (t.numel() != all) continue;
    if (t.shape() != shape || !is_dense(t) || (first.defined() && !same_order(first, t)))
      return std::nullopt;
    if (!first.defined()) first = t;
  }

  Tiles tiles;
  if (first.defined()) {
    tiles.order_ = order_of_memory(first);
  } else {
    for (int d = 0; d < shape.size(); ++d) tiles.order_.push_back(d);
  }
  for (const int64_t d : tiles.order_) tiles.ordered_.push_back(shape[static_cast<int>(d)]);

  const auto fits = [&](int leading) {
    return std::ranges::all_of(operands, [&](const Tensor& t) {
      return !t.defined() || t.numel() == 1 ||
             rows_of(permute(padded(t, shape.size()), tiles.order_), tiles.ordered_, leading) !=
                 Rows::kMixed;
    });
  };
  int leading = shape.size();
  while (leading > 0 && !fits(leading)) --leading;
  if (leading == 0) return std::nullopt;
  for (int d = 0; d < leading; ++d) tiles.rows_ *= tiles.ordered_[d];
  for (int d = leading; d < shape.size(); ++d) tiles.inside_.push_back(tiles.ordered_[d]);
  tiles.step_ = std::max<int64_t>(1, kTile / (all / tiles.rows_));
  if (tiles.count() < 2) return std::nullopt;
  for (const Tensor& t : operands) {
    tiles.operands_.push_back(tiles.prepare(t, tiles.ordered_, leading));
  }
  return tiles;
}

int64_t Tiles::count() const { return ceil_div(rows_, step_); }

int64_t Tiles::rows_in(int64_t tile) const { return std::min(step_, rows_ - tile * step_); }

Shape Tiles::shape(int64_t tile) const {
  Shape shape{rows_in(tile)};
  for (const int64_t size : inside_) shape.push_back(size);
  return shape;
}

Tensor Tiles::part(const Tensor& made, int64_t tile) const {
  return narrow(made, 0, tile * step_, rows_in(tile));
}

Tensor Tiles::cut(size_t operand, int64_t tile) const {
  const Operand& o = operands_[operand];
  return o.has_rows ? part(o.t, tile) : o.t;
}

Tensor Tiles::make(DType dtype) const {
  Shape shape{rows_};
  for (const int64_t size : inside_) shape.push_back(size);
  return empty(shape, {.dtype = dtype});
}

Dims Tiles::order_back() const {
  Dims back = order_;
  for (int d = 0; d < order_.size(); ++d) back[static_cast<int>(order_[d])] = d;
  return back;
}

Tensor Tiles::restore(const Tensor& made) const {
  return permute(view(made, ordered_), order_back());
}

Tensor Tiles::make_operand(size_t operand) const {
  const Tensor& like = operands_[operand].t;
  return empty(like.shape(), {.dtype = like.dtype()});
}

Tensor Tiles::restore_operand(const Tensor& made, size_t operand, const Shape& shape) const {
  const Shape& ordered = operands_[operand].ordered;
  if (ordered.empty()) return reshape(made, shape);  // of one element
  return reshape(permute(view(made, ordered), order_back()), shape);
}

}  // namespace lathe::jit
