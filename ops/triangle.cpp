// tril and triu. Dense matrices on the CPU are copied row by row; others are made of `where` and a
// mask for the matrix. Contracts: triangle.h.
#include "lathe/ops/triangle.h"

#include <algorithm>
#include <cstring>

#include "lathe/autograd/record.h"
#include "lathe/core/hooks/range.h"
#include "lathe/core/hooks/watch.h"
#include "lathe/core/strided_loop.h"
#include "lathe/core/thread_pool.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/views.h"
#include "lathe/ops/where.h"

namespace lathe {

namespace {

/// column - row for every position of x's matrices, [R,C].
Tensor diagonals(const Tensor& x) {
  const TensorOptions options{.device = x.device()};
  return sub(arange(x.dim(-1), options), unsqueeze(arange(x.dim(-2), options), 1));
}

/// The rows of a dense x on the CPU: row r keeps its columns up to r + diagonal, or from there on.
Tensor cut_rows(const Tensor& x, int64_t diagonal, bool lower) {
  const Tensor y = empty(x.shape(), {.dtype = x.dtype()});
  if (x.numel() == 0) return y;
  const int64_t rows = x.dim(-2), columns = x.dim(-1);
  const auto bytes = static_cast<int64_t>(size_of(x.dtype()));
  const int64_t first = std::clamp(diagonal, -rows, columns) + (lower ? 1 : 0);
  const auto* const from = static_cast<const char*>(x.raw_data());
  auto* const to = static_cast<char*>(y.raw_data());
  const int64_t grain = std::max<int64_t>(1, kParallelGrain / columns);
  parallel_for(x.numel() / columns, grain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t start = row * columns * bytes;
      const int64_t left = std::clamp<int64_t>(row % rows + first, 0, columns) * bytes;
      const auto middle = static_cast<size_t>(left),
                 rest = static_cast<size_t>(columns * bytes - left);
      if (lower) {
        std::memcpy(to + start, from + start, middle);
        std::memset(to + start + left, 0, rest);
      } else {
        std::memset(to + start, 0, middle);
        std::memcpy(to + start + left, from + start + left, rest);
      }
    }
  });
  return y;
}

Tensor triangle(const char* op, const Tensor& x, int64_t diagonal, bool lower) {
  LATHE_CHECK(ShapeError, x.ndim() >= 2, op, ": x must have 2 or more dimensions (x: ", x, ")");
  if (!x.device().is_cpu() || !x.is_contiguous() || profile::watched()) {
    const Tensor at = diagonals(x);
    return where(lower ? le(at, diagonal) : ge(at, diagonal), x, false);
  }
  const Tensor y = cut_rows(x, diagonal, lower);
  autograd::record(op, y, {x}, [diagonal, lower](const Tensor& dy, const autograd::Needs&) {
    return Tensors{lower ? tril(dy, diagonal) : triu(dy, diagonal)};
  });
  return y;
}

}  // namespace

Tensor tril(const Tensor& x, int64_t diagonal) {
  const profile::OpRange range("tril", {x});
  profile::note_arguments(diagonal);
  return triangle("tril", x, diagonal, true);
}

Tensor triu(const Tensor& x, int64_t diagonal) {
  const profile::OpRange range("triu", {x});
  profile::note_arguments(diagonal);
  return triangle("triu", x, diagonal, false);
}

}  // namespace lathe
