// scatter_strided and gather_strided: each is the other's gradient. Both work in a scratch tensor
// that stands for the storage. Contracts: strided_adjoint.h.
#include "lathe/ops/strided_adjoint.h"

#include "lathe/autograd/accumulate.h"
#include "lathe/autograd/record.h"
#include "lathe/core/copy.h"
#include "lathe/core/hooks/range.h"

namespace lathe {

namespace {

/// The first storage element that the geometry touches, and one past the last; {0, 0} if it touches
/// none.
std::pair<int64_t, int64_t> reach_of(const Geometry& g) {
  int64_t last = g.offset;
  for (int d = 0; d < g.shape.size(); ++d) {
    if (g.shape[d] == 0) return {0, 0};
    last += (g.shape[d] - 1) * g.strides[d];
  }
  return {g.offset, last + 1};
}

/// Zeros for the part of the storage that both geometries touch, and that part's first element.
struct Scratch {
  Tensor buffer;
  int64_t start;

  Scratch(const Tensor& like, const Geometry& a, const Geometry& b) {
    const auto [a0, a1] = reach_of(a);
    const auto [b0, b1] = reach_of(b);
    start = a1 == 0 ? b0 : b1 == 0 ? a0 : std::min(a0, b0);
    buffer = empty({std::max(a1, b1) - start}, {.dtype = like.dtype(), .device = like.device()});
    fill_values(buffer, 0);
  }
  Tensor look(const Geometry& g) const {
    return alias(buffer, g.shape, g.strides, std::max<int64_t>(g.offset - start, 0));
  }
};

}  // namespace

Geometry dense_geometry(const Shape& shape) { return {shape, contiguous_strides(shape), 0}; }
Geometry geometry_of(const Tensor& t) { return {t.shape(), t.strides(), t.offset()}; }

Tensor scatter_strided(const Tensor& values, const Geometry& view, const Geometry& base) {
  const profile::OpRange range("scatter_strided", {values});
  const Scratch scratch(values, view, base);
  const Tensor target = scratch.look(view);
  if (!has_overlap(target)) {
    copy_values(target, values);
  } else {
    // The leading dimension is split until no piece overlaps itself, so that repeated elements add
    // up in order.
    const auto add_piece = [](auto&& self, const Tensor& to, const Tensor& from) -> void {
      if (!has_overlap(to)) {
        autograd::accumulate_(to, from);
        return;
      }
      const auto drop_first = [](const Tensor& t, int64_t i) {
        Shape shape = t.shape();
        Strides strides = t.strides();
        const int64_t offset = t.offset() + i * strides[0];
        shape.erase(0);
        strides.erase(0);
        return alias(t, shape, strides, offset);
      };
      for (int64_t i = 0; i < to.shape()[0]; ++i) {
        self(self, drop_first(to, i), drop_first(from, i));
      }
    };
    add_piece(add_piece, target, values);
  }
  Tensor y = scratch.look(base);
  if (has_overlap(y) || y.numel() != scratch.buffer.numel()) {  // else dense in some order
    const Tensor dense = empty_like(y);
    copy_values(dense, y);
    y = dense;
  }
  autograd::record("scatter_strided", y, {values},
                   [view, base](const Tensor& g, const autograd::Needs&) {
                     return Tensors{gather_strided(g, base, view)};
                   });
  return y;
}

Tensor gather_strided(const Tensor& t, const Geometry& base, const Geometry& view) {
  const profile::OpRange range("gather_strided", {t});
  const Scratch scratch(t, base, view);
  copy_values(scratch.look(base), t);
  Tensor y = empty_strided(view.shape, contiguous_strides(view.shape), t.dtype(), t.device());
  copy_values(y, scratch.look(view));
  autograd::record("gather_strided", y, {t}, [view, base](const Tensor& g, const autograd::Needs&) {
    return Tensors{scatter_strided(g, view, base)};
  });
  return y;
}

}  // namespace lathe
