// See generator.h. Lines are proposed blindly, and kept if the reference allows them.
#include "generator.h"

#include <algorithm>

#include "geometry.h"
#include "reference.h"

namespace lathe::programs {

namespace {

/// splitmix64: a sequence that depends on the seed alone.
class Dice {
 public:
  explicit Dice(uint64_t seed) : state_(seed) {}
  /// One of low … high.
  int64_t pick(int64_t low, int64_t high) {
    state_ += 0x9E3779B97F4A7C15;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    z ^= z >> 31;
    return low + static_cast<int64_t>(z % static_cast<uint64_t>(high - low + 1));
  }
  bool chance(int64_t percent) { return pick(1, 100) <= percent; }
  std::vector<double> data(int64_t size, int64_t low, int64_t high) {
    std::vector<double> values;
    for (int64_t i = 0; i < size; ++i) values.push_back(static_cast<double>(pick(low, high)));
    return values;
  }

 private:
  uint64_t state_;
};

constexpr int64_t kMostElements = 12;

class Generator {
 public:
  Generator(uint64_t seed, const Options& options) : dice_(seed), options_(options) {
    program_.seed = seed;
    safe_ = options.torch || dice_.chance(75);
  }

  std::optional<Program> program() {
    add(value(Op::kLeaf));
    add(value(Op::kConstant));
    const int64_t lines = dice_.pick(5, 18);
    for (int64_t tries = 0; tries < 30 * lines && size() < lines; ++tries) propose();
    for (int tries = 0; tries < 50; ++tries) {
      if (add(gradient(dice_.chance(50) ? Op::kGrad : Op::kBackward))) {
        return reference_.exact() ? std::optional(program_) : std::nullopt;
      }
    }
    return std::nullopt;
  }

 private:
  int64_t size() const { return static_cast<int64_t>(program_.lines.size()); }
  int count_variables() const { return static_cast<int>(reference_.variables().size()); }
  const Variable& variable(int n) const { return reference_.variables()[static_cast<size_t>(n)]; }
  /// Any variable, the newer ones more often.
  int any() {
    const int n = count_variables();
    return static_cast<int>(dice_.pick(dice_.chance(50) ? std::max(0, n - 5) : 0, n - 1));
  }

  void propose() {
    if (dice_.chance(12)) return write_then_use_twice();
    const int64_t kind = dice_.pick(1, 100);
    Statement s = kind <= 5    ? value(dice_.chance(60) ? Op::kLeaf : Op::kConstant)
                  : kind <= 34 ? view()
                  : kind <= 58 ? result()
                  : kind <= 90 ? write()
                  : kind <= 97 ? gradient(dice_.chance(65) ? Op::kGrad : Op::kBackward)
                               : Statement{.op = Op::kReadGrad, .in = {any()}};
    if (s.op > Op::kConstant) s.no_grad = dice_.chance(10);
    add(std::move(s));
  }

  /// A write through another tensor with the same memory, then a view in two places of a result:
  /// its history must be worked out anew before the first.
  void write_then_use_twice() {
    const int view = any(), other = any();
    if (view == other || variable(view).history != variable(other).history) return;
    if (!add({.op = Op::kTimesInto, .in = {other}, .i = dice_.pick(-2, 3)})) return;
    int with = any();
    const auto fit = [&](int n) { return fits(Op::kAdd, variable(n).shape, variable(view).shape); };
    for (int tries = 0; tries < 10 && (with == view || !fit(with)); ++tries) with = any();
    if (!fit(with)) return;
    Statement use{.op = dice_.chance(50) ? Op::kAdd : Op::kMul, .in = {with, view}};
    if (dice_.chance(30)) std::swap(use.in[0], use.in[1]);
    const int first = count_variables();
    if (add(use) && add(use)) add({.op = Op::kAdd, .in = {first, first + 1}});
  }

  /// Adds the line if it can stand here.
  bool add(Statement s) {
    if (!reference_.allows(s) || !is_wanted(s)) return false;
    const bool gives =
        s.op < Op::kAddInto || s.op == Op::kReadGrad || (s.op == Op::kGrad && s.i != 0);
    s.out = gives ? count_variables() : -1;
    reference_.run(s);
    if (options_.torch && s.op == Op::kDetach) reference_.freeze(s.in[0]);
    program_.lines.push_back(std::move(s));
    return true;
  }

  bool is_wanted(const Statement& s) {
    if (safe_ && reference_.would_write_saved(s)) return false;
    if (!options_.torch) return true;
    // PyTorch refuses operands that overlap in part, and takes a view made or written under
    // no_grad for another one.
    if (s.op == Op::kReadGrad || (s.no_grad && (is_view(s.op) || is_in_place(s.op)))) return false;
    return !is_in_place(s.op) || s.in.size() < 2 ||
           variable(s.in[0]).history->places != variable(s.in[1]).history->places;
  }

  Statement value(Op op) {
    Shape shape;
    const int64_t dims = dice_.pick(0, 3);
    for (int64_t d = 0; d < dims; ++d) shape.push_back(dice_.pick(1, dims < 3 ? 4 : 2));
    return {.op = op, .dims = shape, .data = dice_.data(count(shape), -3, 3)};
  }

  Statement view() {
    const int x = any();
    const Shape& shape = variable(x).shape;
    Statement s{.op = static_cast<Op>(
                    dice_.pick(static_cast<int>(Op::kNarrow), static_cast<int>(Op::kDetach))),
                .in = {x}};
    if (s.op == Op::kDetach && dice_.chance(50)) s.op = Op::kNarrow;
    const int dim = static_cast<int>(shape.empty() ? 0 : dice_.pick(0, shape.size() - 1));
    const int64_t size = shape.empty() ? 0 : shape[dim];
    s.i = dim;
    switch (s.op) {
      case Op::kDetach: s.i = dice_.pick(0, 1); return s;
      case Op::kUnsqueeze: return shape.size() < 3 ? s : value(Op::kConstant);
      case Op::kView:
      case Op::kReshape: s.dims = other_shape(shape); return s;
      case Op::kAsStrided: return strided(s, x);
      case Op::kExpand: return expanded(s, shape);
      default: break;
    }
    if (shape.empty()) return value(Op::kLeaf);
    s.j = dice_.pick(0, size - 1);
    if (s.op == Op::kNarrow) s.k = dice_.pick(1, size - s.j);
    if (s.op == Op::kSlice) s.k = dice_.pick(s.j + 1, size), s.l = dice_.pick(1, 2);
    if (s.op == Op::kTranspose) s.j = dice_.pick(0, shape.size() - 1);
    if (s.op == Op::kPermute) s.dims = any_order(shape.size());
    return s;
  }

  Statement strided(Statement s, int x) {
    const int64_t dims = dice_.pick(1, 2);
    for (int64_t d = 0; d < dims; ++d) {
      s.dims.push_back(dice_.pick(1, 3));
      s.strides.push_back(dice_.pick(dice_.chance(20) ? 0 : 1, 3));
    }
    const size_t places = variable(x).history->places->values.size();
    s.i = dice_.pick(0, static_cast<int64_t>(places) - 1);
    return s;
  }

  Statement expanded(Statement s, const Shape& shape) {
    s.dims = shape;
    for (int d = 0; d < shape.size(); ++d) {
      if (shape[d] == 1 && dice_.chance(60)) s.dims[d] = dice_.pick(2, 3);
    }
    if (shape.size() < 3 && dice_.chance(40)) s.dims.insert(0, 2);
    return count(s.dims) <= kMostElements ? s : value(Op::kConstant);
  }

  /// The same number of elements in other dimensions.
  Shape other_shape(const Shape& shape) {
    int64_t left = count(shape);
    Shape out;
    for (int64_t dims = dice_.pick(1, 3); dims > 1; --dims) {
      const int64_t size = dice_.pick(1, 4);
      out.push_back(left % size == 0 ? size : 1);
      left /= out.back();
    }
    out.push_back(left);
    return out;
  }

  Dims any_order(int size) {
    std::vector<int64_t> order;
    for (int d = 0; d < size; ++d) order.insert(order.begin() + dice_.pick(0, d), d);
    return order;
  }

  std::vector<double> mask(const Shape& shape) { return dice_.data(count(shape), 0, 1); }

  Statement result() {
    Statement s{.op = static_cast<Op>(
                    dice_.pick(static_cast<int>(Op::kAdd), static_cast<int>(Op::kIndexSelect)))};
    if (dice_.chance(25)) s.op = dice_.chance(50) ? Op::kAdd : Op::kMul;
    const int x = any();
    const Shape& shape = variable(x).shape;
    s.in = {x};
    switch (s.op) {
      case Op::kAdd:
      case Op::kSub:
      case Op::kMul:
      case Op::kMaximum:
      case Op::kWhere:
      case Op::kMatmul:
      case Op::kCat:
      case Op::kStack: return joined(std::move(s), x);
      case Op::kClamp: s.i = dice_.pick(-2, 1), s.j = dice_.pick(s.i, 3); return s;
      case Op::kTimes:
      case Op::kPlus: s.i = dice_.pick(-2, 3); return s;
      default: break;
    }
    if (shape.empty() && (s.op == Op::kSum || s.op == Op::kIndexSelect)) s.op = Op::kNeg;
    if (s.op == Op::kIndexSelect) {
      s.i = dice_.pick(0, shape.size() - 1);
      s.data = dice_.data(dice_.pick(1, 3), 0, shape[static_cast<int>(s.i)] - 1);
    } else if (s.op == Op::kSum) {
      s.i = dice_.pick(0, 1);
      s.dims = any_order(shape.size());
      while (s.dims.size() > dice_.pick(1, shape.size())) s.dims.erase(0);
    }
    return s;
  }

  /// An op of x and one or two others that fit; of x alone if none is found.
  Statement joined(Statement s, int x) {
    const Shape& shape = variable(x).shape;
    const int parts = (s.op == Op::kCat || s.op == Op::kStack) && dice_.chance(40) ? 3 : 2;
    for (int tries = 0; tries < 60 && static_cast<int>(s.in.size()) < parts; ++tries) {
      const int y = any();
      if (fits(s.op, shape, variable(y).shape)) s.in.push_back(y);
    }
    if (dice_.chance(30)) std::swap(s.in.front(), s.in.back());
    if (s.op == Op::kMatmul && s.in.size() == 2) {
      const Shape &a = variable(s.in[0]).shape, &b = variable(s.in[1]).shape;
      if (a[1] != b[0]) std::swap(s.in[0], s.in[1]);
    }
    if (static_cast<int>(s.in.size()) < parts || (s.op == Op::kCat && shape.empty())) {
      return {.op = Op::kClone, .in = {x}};
    }
    if (s.op == Op::kCat) s.i = shape.empty() ? 0 : dice_.pick(0, shape.size() - 1);
    if (s.op == Op::kStack) s.i = dice_.pick(0, shape.size());
    if (s.op == Op::kWhere) {
      s.dims = *broadcast(shape, variable(s.in[0] == x ? s.in[1] : s.in[0]).shape);
      s.data = mask(s.dims);
    }
    return s;
  }

  static bool fits(Op op, const Shape& a, const Shape& b) {
    if (op == Op::kMatmul) {
      return a.size() == 2 && b.size() == 2 && a[1] == b[0] && a[0] * b[1] <= kMostElements;
    }
    if (op == Op::kCat || op == Op::kStack) return a == b && count(a) <= kMostElements / 3;
    const auto both = broadcast(a, b);
    return both && count(*both) <= kMostElements;
  }

  Statement write() {
    Statement s{.op = static_cast<Op>(dice_.pick(static_cast<int>(Op::kAddInto),
                                                 static_cast<int>(Op::kMaskedFillInto)))};
    const int x = any();
    const Shape& shape = variable(x).shape;
    s.in = {x};
    s.i = dice_.pick(-2, 3);
    if (s.op == Op::kClampInto) s.i = dice_.pick(-2, 1), s.j = dice_.pick(s.i, 3);
    if (s.op == Op::kMaskedFillInto) s.dims = shape, s.data = mask(shape);
    if (s.op > Op::kCopyInto) return s;
    for (int tries = 0; tries < 40 && s.in.size() < 2; ++tries) {
      const int y = any();
      if (broadcast(shape, variable(y).shape) == shape) s.in.push_back(y);
    }
    if (s.in.size() < 2) s.op = Op::kTimesInto;
    return s;
  }

  Statement gradient(Op op) {
    Statement s{.op = op, .in = {any()}};
    s.i = dice_.pick(0, 1);
    s.data = dice_.data(count(variable(s.in[0]).shape), -2, 3);
    for (int64_t n = dice_.pick(1, 3); n > 0 && op == Op::kGrad; --n) s.in.push_back(any());
    return s;
  }

  Dice dice_;
  Options options_;
  bool safe_;  // writes over no saved value: no pass may refuse
  Program program_;
  Reference reference_;
};

}  // namespace

std::optional<Program> generate(uint64_t seed, const Options& options) {
  return Generator(seed, options).program();
}

}  // namespace lathe::programs
