// Lines: how an op along one dimension sees a tensor's shape. How an assignment sees it.
#pragma once

#include "lathe/core/shape.h"

namespace lathe {

/// A shape as [outer, n, inner] about one of its dimensions: outer * inner lines of n elements.
struct Lines {
  int64_t outer = 1, n = 1, inner = 1;
};

/// The lines along `dim`, which is not negative; a 0-d tensor is one line of one element.
inline Lines lines_of(const Shape& shape, int dim) {
  Lines lines;
  for (int d = 0; d < shape.size(); ++d) {
    (d < dim ? lines.outer : d == dim ? lines.n : lines.inner) *= shape[d];
  }
  return lines;
}

/// `shape` without dimensions of size 1 in front, as long as there are more than `ndim`: x[0] = y
/// takes a y of [1,3] for [3].
inline Shape without_leading_ones(Shape shape, int ndim) {
  while (shape.size() > ndim && shape[0] == 1) shape.erase(0);
  return shape;
}

}  // namespace lathe
