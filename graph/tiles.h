// How tensors of one shape, and those that are broadcast to it, are cut into tiles that fit into a
// processor's cache. pointwise_run.h runs ops on them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lathe/core/tensor.h"

namespace lathe::jit {

/// The fewest elements that are ever cut: two tiles.
inline constexpr int64_t kLeastTiled = 32768;

/// The dimensions of `shape` in the order of memory, of which the first few become one: the rows. A
/// tile is a range of rows with all that is in them.
class Tiles {
 public:
  /// Nothing if the operands cannot be cut, or if it does not pay: fewer than two tiles, another
  /// device than the CPU, full operands whose elements lie in memory with gaps or in different
  /// orders, or one that is broadcast in some of the rows' dimensions only. The operands must
  /// broadcast to `shape`.
  static std::optional<Tiles> of(const Shape& shape, const Tensors& operands);

  int64_t count() const;
  /// The shape of a tile's values.
  Shape shape(int64_t tile) const;

  /// A tile's part of an operand: a view that shares its memory. Broadcast operands stay broadcast.
  Tensor cut(size_t operand, int64_t tile) const;

  /// A new tensor of all tiles' rows; part() is a tile's view of it, restore() the whole with the
  /// dimensions of `shape`.
  Tensor make(DType dtype) const;
  Tensor part(const Tensor& made, int64_t tile) const;
  Tensor restore(const Tensor& made) const;

  /// True if each tile has a part of its own of this operand.
  bool is_cut(size_t operand) const { return operands_[operand].has_rows; }
  /// A new tensor of all tiles' parts of an operand that is cut, and one whose elements stand as in
  /// cut() with the operand's own `shape`: for gradients.
  Tensor make_operand(size_t operand) const;
  Tensor restore_operand(const Tensor& made, size_t operand, const Shape& shape) const;

 private:
  struct Operand {
    Tensor t = {};          // its rows first, or without them; undefined if the operand is
    bool has_rows = false;  // false: every tile reads all of it
    Shape ordered = {};     // with all dimensions, in the order of memory
  };

  int64_t rows_in(int64_t tile) const;
  Dims order_back() const;
  Operand prepare(const Tensor& t, const Shape& ordered, int leading) const;

  Dims order_;                   // of memory: dimension order_[d] of the shape is the d-th
  Shape ordered_, inside_;       // the shape in that order; the dimensions inside a row
  int64_t rows_ = 1, step_ = 1;  // all rows, and those of a tile
  std::vector<Operand> operands_;
};

}  // namespace lathe::jit
