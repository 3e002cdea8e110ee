// tril and triu, made of `where` and a mask for the matrix. Contracts: triangle.h.
#include "lathe/ops/triangle.h"

#include "lathe/core/hooks/range.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/views.h"
#include "lathe/ops/where.h"

namespace lathe {

/// column - row for every position of x's matrices, [R,C].
static Tensor diagonals(const char* op, const Tensor& x) {
  LATHE_CHECK(ShapeError, x.ndim() >= 2, op, ": x must have 2 or more dimensions (x: ", x, ")");
  const TensorOptions options{.device = x.device()};
  return sub(arange(x.dim(-1), options), unsqueeze(arange(x.dim(-2), options), 1));
}

Tensor tril(const Tensor& x, int64_t diagonal) {
  const profile::OpRange range("tril", {x});
  profile::note_arguments(diagonal);
  return where(le(diagonals("tril", x), diagonal), x, false);
}

Tensor triu(const Tensor& x, int64_t diagonal) {
  const profile::OpRange range("triu", {x});
  profile::note_arguments(diagonal);
  return where(ge(diagonals("triu", x), diagonal), x, false);
}

}  // namespace lathe
