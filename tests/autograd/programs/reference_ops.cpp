// What each op computes, number by number; see reference.h.
#include <algorithm>

#include "geometry.h"
#include "reference.h"

namespace lathe::programs {

namespace {

size_t at(int64_t i) { return static_cast<size_t>(i); }

Numbers broadcast_to(const Numbers& x, const Shape& from, const Shape& to) {
  Numbers out;
  for (const int i : broadcast_index(from, to)) out.push_back(x[at(i)]);
  return out;
}

Number relu(Scalars& g, Number a) {
  const double v = g.value(a);
  return g.bend(a, v > 0 ? v : 0, v > 0 ? 1 : 0);
}

Number clamped(Scalars& g, Number a, int64_t low, int64_t high) {
  const double v = g.value(a), l = static_cast<double>(low), h = static_cast<double>(high);
  return g.bend(a, std::clamp(v, l, h), v >= l && v <= h ? 1 : 0);
}

/// A tie gives half of the gradient to each.
Number maximum(Scalars& g, Number a, Number b) {
  const double p = g.value(a), q = g.value(b);
  const double share = p > q ? 1 : p == q ? 0.5 : 0;
  return g.add(g.bend(a, std::max(p, q), share), g.bend(b, 0, 1 - share));
}

Number scaled(Scalars& g, Number a, int64_t factor) {
  return g.mul(a, g.constant(static_cast<double>(factor)));
}

Number unary(Scalars& g, const Statement& s, Number a) {
  const double v = g.value(a);
  switch (s.op) {
    case Op::kNeg:
    case Op::kNegInto: return scaled(g, a, -1);
    case Op::kRelu:
    case Op::kReluInto: return relu(g, a);
    case Op::kAbs: return g.bend(a, std::abs(v), v > 0 ? 1 : v < 0 ? -1 : 0);
    case Op::kSquare: return g.mul(a, a);
    case Op::kClamp:
    case Op::kClampInto: return clamped(g, a, s.i, s.j);
    case Op::kTimes:
    case Op::kTimesInto: return scaled(g, a, s.i);
    case Op::kPlus:
    case Op::kPlusInto: return g.add(a, g.constant(static_cast<double>(s.i)));
    case Op::kFill: return g.constant(static_cast<double>(s.i));
    case Op::kZero: return g.constant(0);
    default: return a;  // kClone
  }
}

Number binary(Scalars& g, const Statement& s, Number a, Number b) {
  switch (s.op) {
    case Op::kAdd: return g.add(a, b);
    case Op::kAddInto: return g.add(a, scaled(g, b, s.i));
    case Op::kSub:
    case Op::kSubInto: return g.add(a, scaled(g, b, -1));
    case Op::kMul:
    case Op::kMulInto: return g.mul(a, b);
    case Op::kMaximum: return maximum(g, a, b);
    default: return b;  // kCopyInto
  }
}

Numbers matmul(Scalars& g, const Numbers& a, const Numbers& b, int64_t m, int64_t k, int64_t n) {
  Numbers out;
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      Number sum = g.mul(a[at(i * k)], b[at(j)]);
      for (int64_t c = 1; c < k; ++c) sum = g.add(sum, g.mul(a[at(i * k + c)], b[at(c * n + j)]));
      out.push_back(sum);
    }
  }
  return out;
}

Numbers sum(Scalars& g, const Statement& s, const Numbers& x, const Shape& from, Shape& shape) {
  Shape kept = from;
  for (const int64_t d : s.dims) kept[static_cast<int>(d)] = 1;
  Numbers out(at(count(kept)), -1);
  size_t n = 0;
  each_position(from, [&](Dims position) {
    for (const int64_t d : s.dims) position[static_cast<int>(d)] = 0;
    Number& total = out[at(index_of(position, kept))];
    total = total < 0 ? x[n] : g.add(total, x[n]);
    ++n;
  });
  shape = kept;
  if (s.i != 0) return out;
  std::vector<int64_t> rest;
  for (int d = 0; d < from.size(); ++d) {
    if (std::ranges::find(s.dims, d) == s.dims.end()) rest.push_back(from[d]);
  }
  shape = rest;
  return out;
}

/// Parts that are joined along dimension `dim`; every part counts as `length[p]` there.
Numbers join(const std::vector<Numbers>& parts, const std::vector<int64_t>& length, int dim,
             const Shape& shape) {
  Numbers out;
  each_position(shape, [&](Dims position) {
    size_t p = 0;
    while (position[dim] >= length[p]) position[dim] -= length[p++];
    Shape part = shape;
    part[dim] = length[p];
    out.push_back(parts[p][at(index_of(position, part))]);
  });
  return out;
}

}  // namespace

Numbers Reference::computed(const Statement& s, Shape& shape) {
  std::vector<Numbers> x;
  std::vector<Shape> from;
  for (const int n : s.in) {
    x.push_back(numbers_now(variable(n)));
    from.push_back(variable(n).shape);
  }
  shape = from[0];
  const int dim = static_cast<int>(s.i);
  Numbers out;
  switch (s.op) {
    case Op::kMatmul:
      shape = {from[0][0], from[1][1]};
      return matmul(scalars_, x[0], x[1], from[0][0], from[0][1], from[1][1]);
    case Op::kSum: return sum(scalars_, s, x[0], from[0], shape);
    case Op::kCat:
    case Op::kStack: {
      std::vector<int64_t> length;
      for (const Shape& part : from) length.push_back(s.op == Op::kCat ? part[dim] : 1);
      if (s.op == Op::kStack) shape.insert(dim, 0);
      shape[dim] = 0;
      for (const int64_t l : length) shape[dim] += l;
      return join(x, length, dim, shape);
    }
    case Op::kIndexSelect:
      shape[dim] = static_cast<int64_t>(s.data.size());
      each_position(shape, [&](Dims position) {
        position[dim] = static_cast<int64_t>(s.data[at(position[dim])]);
        out.push_back(x[0][at(index_of(position, from[0]))]);
      });
      return out;
    default: break;
  }
  if (s.in.size() == 1) {
    for (const Number a : x[0]) out.push_back(unary(scalars_, s, a));
    return out;
  }
  shape = *broadcast(from[0], from[1]);
  if (s.op == Op::kWhere) shape = *broadcast(shape, s.dims);
  const Numbers a = broadcast_to(x[0], from[0], shape), b = broadcast_to(x[1], from[1], shape);
  const std::vector<int> mask =
      s.op == Op::kWhere ? broadcast_index(s.dims, shape) : std::vector<int>{};
  for (size_t i = 0; i < a.size(); ++i) {
    if (s.op == Op::kWhere) {
      out.push_back(s.data[at(mask[i])] != 0 ? a[i] : b[i]);
    } else {
      out.push_back(binary(scalars_, s, a[i], b[i]));
    }
  }
  return out;
}

/// The numbers that an in-place op puts into in[0].
Numbers Reference::written(const Statement& s) {
  const Shape shape = variable(s.in[0]).shape;
  const Numbers x = numbers_now(variable(s.in[0]));
  Numbers out;
  if (s.in.size() > 1) {
    const Numbers y = broadcast_to(numbers_now(variable(s.in[1])), variable(s.in[1]).shape, shape);
    for (size_t i = 0; i < x.size(); ++i) out.push_back(binary(scalars_, s, x[i], y[i]));
    return out;
  }
  if (s.op == Op::kMaskedFillInto) {
    const std::vector<int> mask = broadcast_index(s.dims, shape);
    for (size_t i = 0; i < x.size(); ++i) {
      const bool fill = s.data[at(mask[i])] != 0;
      out.push_back(fill ? scalars_.constant(static_cast<double>(s.i)) : x[i]);
    }
    return out;
  }
  for (const Number a : x) out.push_back(unary(scalars_, s, a));
  return out;
}

}  // namespace lathe::programs
