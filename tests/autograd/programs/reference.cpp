// See reference.h. What an op computes: reference_ops.cpp.
#include "reference.h"

#include <algorithm>
#include <set>

#include "geometry.h"

namespace lathe::programs {

namespace {

size_t at(int i) { return static_cast<size_t>(i); }

std::vector<int> first_places(size_t n) {
  std::vector<int> where(n);
  for (size_t i = 0; i < n; ++i) where[i] = static_cast<int>(i);
  return where;
}

bool shares_places(const std::vector<int>& where) {
  return std::set<int>(where.begin(), where.end()).size() != where.size();
}

/// Does every dimension step over all that the smaller steps reach?
bool is_nested(const Shape& shape, const Strides& strides) {
  std::vector<std::pair<int64_t, int64_t>> steps;
  for (int d = 0; d < shape.size(); ++d) {
    if (shape[d] > 1) steps.emplace_back(strides[d], shape[d]);
  }
  std::ranges::sort(steps);
  int64_t reach = 0;
  for (const auto& [step, size] : steps) {
    if (step <= reach) return false;
    reach += step * (size - 1);
  }
  return true;
}

std::vector<int> strided_places(const Statement& s) {
  std::vector<int> where;
  each_position(s.dims, [&](const Dims& position) {
    int64_t place = s.i;
    for (int d = 0; d < position.size(); ++d) place += position[d] * s.strides[d];
    where.push_back(static_cast<int>(place));
  });
  return where;
}

/// Can these places, in row-major order, be walked with one step for each dimension of `shape`?
bool is_strided(const std::vector<int>& where, const Shape& shape) {
  Strides strides = shape;
  for (int d = 0; d < shape.size(); ++d) {
    Dims one = Dims::filled(shape.size(), 0);
    one[d] = 1;
    strides[d] = shape[d] == 1 ? 0 : where[static_cast<size_t>(index_of(one, shape))] - where[0];
  }
  bool strided = true;
  size_t n = 0;
  each_position(shape, [&](const Dims& position) {
    int64_t place = where[0];
    for (int d = 0; d < shape.size(); ++d) place += position[d] * strides[d];
    strided = strided && place == where[n++];
  });
  return strided;
}

}  // namespace

Variable Reference::fresh(const Shape& shape, const Numbers& numbers, bool tracked, bool leaf) {
  auto history = std::make_shared<History>();
  history->places = std::make_shared<Places>();
  for (const Number n : numbers) {
    const double value = scalars_.value(n);
    history->places->values.push_back(value);
    history->numbers.push_back(tracked ? scalars_.same(n, value) : scalars_.constant(value));
  }
  history->tracked = tracked;
  history->leaf = leaf;
  return {.history = history, .shape = shape, .where = first_places(numbers.size())};
}

/// A view whose base was written looks at what the base is made of now.
void Reference::look(Variable& v) {
  const History& base = *v.history;
  if (!v.is_view || v.writes == base.writes) return;
  v.writes = base.writes;
  v.tracked = base.tracked;
  for (size_t i = 0; i < v.where.size(); ++i) {
    const Number n = base.numbers[at(v.where[i])];
    const double value = base.places->values[at(v.where[i])];
    v.numbers[i] = base.tracked ? scalars_.same(n < 0 ? scalars_.constant(value) : n, value)
                                : scalars_.constant(value);
  }
}

/// What its elements are made of. A value that was written without a record keeps its derivative.
Numbers Reference::numbers_now(Variable& v) {
  look(v);
  Numbers now;
  for (size_t i = 0; i < v.where.size(); ++i) {
    const Number n = v.is_view ? v.numbers[i] : v.history->numbers[at(v.where[i])];
    const double value = v.history->places->values[at(v.where[i])];
    const bool tracked = v.is_view ? v.tracked : v.history->tracked;
    now.push_back(!tracked                     ? scalars_.constant(value)
                  : scalars_.value(n) == value ? n
                                               : scalars_.same(n, value));
  }
  return now;
}

bool Reference::tracked(int n) {
  Variable& v = variable(n);
  look(v);
  return v.is_view ? v.tracked : v.history->tracked;
}

bool Reference::is_leaf(int n) const { return variable(n).history->leaf && !variable(n).is_view; }

bool Reference::can_write(int n, bool no_grad) const {
  const Variable& v = variable(n);
  return v.writable && !shares_places(v.where) && (no_grad || !v.history->leaf);
}

std::vector<double> Reference::values_of(const Variable& v) const {
  std::vector<double> values;
  for (const int place : v.where) values.push_back(v.history->places->values[at(place)]);
  return values;
}

void Reference::log_values(const std::vector<double>& values) {
  log_.entries.push_back(values);
  log_.line.push_back(line_);
}

bool Reference::allows(const Statement& s) {
  for (const int n : s.in) {
    if (n >= static_cast<int>(variables_.size())) return false;
  }
  if (is_in_place(s.op)) {
    const Variable& x = variable(s.in[0]);
    if (s.in.size() > 1 && broadcast(x.shape, variable(s.in[1]).shape) != x.shape) return false;
    return can_write(s.in[0], s.no_grad);
  }
  if (s.op == Op::kView || s.op == Op::kReshape) {
    const Variable& x = variable(s.in[0]);
    return x.dense && !(s.dims == x.shape) && is_strided(x.where, s.dims);
  }
  if (s.op == Op::kDetach) return can_write(s.in[0], true);
  if (s.op == Op::kAsStrided) {
    const Variable& x = variable(s.in[0]);
    if (!x.dense || !x.writable || shares_places(x.where)) return false;
    const int64_t places = static_cast<int64_t>(x.history->places->values.size());
    return std::ranges::all_of(strided_places(s), [&](int p) { return p < places; });
  }
  if (s.op == Op::kGrad || s.op == Op::kBackward) {
    return !(s.no_grad && s.i != 0) && std::ranges::all_of(s.in, [&](int n) { return tracked(n); });
  }
  if (s.op == Op::kReadGrad) return is_leaf(s.in[0]) && !s.no_grad;
  return true;
}

void Reference::run(const Statement& s) {
  if (s.op == Op::kLeaf || s.op == Op::kConstant) {
    Numbers numbers;
    for (const double value : s.data) numbers.push_back(scalars_.constant(value));
    const bool leaf = s.op == Op::kLeaf;
    if (leaf) leaves_.push_back(s.out);
    variables_.push_back(fresh(s.dims, numbers, leaf, leaf));
  } else if (is_view(s.op)) {
    run_view(s);
  } else if (is_new(s.op)) {
    run_new(s);
  } else if (is_in_place(s.op)) {
    run_in_place(s);
  } else {
    run_gradient(s);
  }
  ++line_;
}

void Reference::run_view(const Statement& s) {
  Variable& x = variable(s.in[0]);
  Variable y = x;
  if (s.op == Op::kDetach) {
    y.is_view = false;
    y.numbers.clear();
    y.history = std::make_shared<History>(History{x.history->places, {}, s.i != 0, s.i != 0});
    y.history->numbers.resize(x.history->places->values.size(), -1);
    for (const int place : x.where) {
      Number& n = y.history->numbers[at(place)];
      const double value = x.history->places->values[at(place)];
      if (n < 0) n = y.history->leaf ? scalars_.variable(value) : scalars_.constant(value);
    }
    if (y.history->leaf) leaves_.push_back(s.out);
    variables_.push_back(y);
    return;
  }
  const Numbers seen = numbers_now(x);
  const bool tracked = !s.no_grad && this->tracked(s.in[0]);
  y.is_view = true;
  y.tracked = tracked;
  y.writes = x.history->writes;
  y.numbers.clear();
  std::vector<int> from;  // element of x; -1: a place that x does not look at
  if (s.op == Op::kAsStrided) {
    y.shape = s.dims;
    y.where = strided_places(s);
    y.writable = is_nested(s.dims, s.strides);
    for (const int place : y.where) {
      const auto found = std::ranges::find(x.where, place);
      from.push_back(found == x.where.end() ? -1 : static_cast<int>(found - x.where.begin()));
    }
  } else {
    const Look look = look_of(s, x.shape);
    y.shape = look.shape;
    from = look.from;
    y.where.clear();
    for (const int i : from) y.where.push_back(x.where[at(i)]);
  }
  for (size_t i = 0; i < from.size(); ++i) {
    const double value = x.history->places->values[at(y.where[i])];
    y.numbers.push_back(!tracked || from[i] < 0 ? scalars_.constant(value)
                                                : scalars_.same(seen[at(from[i])], value));
    if (tracked && from[i] < 0) y.numbers.back() = scalars_.variable(value);
  }
  variables_.push_back(y);
}

void Reference::run_new(const Statement& s) {
  Shape shape;
  const Numbers numbers = computed(s, shape);
  bool any = false, dense = true;
  for (const int n : s.in) {
    any |= tracked(n);
    const Variable& v = variable(n);
    dense &= v.dense && is_strided(v.where, {count(v.shape)}) &&
             (v.where.size() < 2 || v.where[1] == v.where[0] + 1);
  }
  Variable y = fresh(shape, numbers, any && !s.no_grad);
  y.dense = dense;
  if (!s.no_grad) mark_saved(s);
  if (s.op == Op::kRelu) y.history->places->saved = y.history->tracked;
  variables_.push_back(y);
  log_values(values_of(y));
}

void Reference::mark_saved(const Statement& s) {
  const bool keeps_inputs = s.op == Op::kMul || s.op == Op::kMatmul || s.op == Op::kMaximum ||
                            s.op == Op::kSquare || s.op == Op::kAbs || s.op == Op::kClamp;
  const bool keeps_other = s.op == Op::kMulInto;
  if (!keeps_inputs && !keeps_other) return;
  if (std::ranges::none_of(s.in, [&](int n) { return tracked(n); })) return;
  for (size_t i = keeps_inputs ? 0 : 1; i < s.in.size(); ++i) {
    variable(s.in[i]).history->places->saved = true;
  }
}

bool Reference::would_write_saved(const Statement& s) {
  if (!is_in_place(s.op)) return false;
  const auto& places = variable(s.in[0]).history->places;
  const bool by_itself = s.op == Op::kMulInto && variable(s.in[1]).history->places == places;
  return places->saved || by_itself;
}

void Reference::run_in_place(const Statement& s) {
  if (would_write_saved(s)) saved_written_ = std::min(saved_written_, line_);
  const Numbers value = written(s);
  const bool before = tracked(s.in[0]);
  bool value_tracked = s.in.size() > 1 && tracked(s.in[1]);
  const bool forgets = s.op == Op::kFill || s.op == Op::kZero || s.op == Op::kCopyInto;
  value_tracked |= before && !forgets;
  if (!s.no_grad) mark_saved(s);
  Variable& x = variable(s.in[0]);
  // PyTorch's relu_ keeps x itself.
  if (s.op == Op::kReluInto && !s.no_grad && before) x.history->places->saved = true;
  std::vector<double>& values = x.history->places->values;
  for (size_t i = 0; i < value.size(); ++i) values[at(x.where[i])] = scalars_.value(value[i]);
  if (!s.no_grad && (value_tracked || before || x.history->tracked)) {
    record_write(x, value, value_tracked);
  }
  log_values(values_of(x));
}

void Reference::record_write(Variable& x, const Numbers& value, bool value_tracked) {
  History& base = *x.history;
  const std::vector<double>& values = base.places->values;
  ++base.writes;  // every view, x too, is a view of what the base is now
  if (!x.is_view) {
    base.tracked = value_tracked;
    for (size_t i = 0; i < value.size(); ++i) {
      const double v = scalars_.value(value[i]);
      base.numbers[at(x.where[i])] =
          value_tracked ? scalars_.same(value[i], v) : scalars_.constant(v);
    }
    return;
  }
  if (!base.tracked && !value_tracked) return;
  for (size_t place = 0; place < base.numbers.size(); ++place) {
    Number& n = base.numbers[place];
    const auto written = std::ranges::find(x.where, static_cast<int>(place));
    if (n < 0) continue;
    if (written != x.where.end()) {
      n = scalars_.same(value[static_cast<size_t>(written - x.where.begin())], values[place]);
    } else {
      n = scalars_.same(n, values[place]);
    }
  }
  base.tracked = true;
}

void Reference::run_gradient(const Statement& s) {
  if (s.op == Op::kReadGrad) {
    const History& leaf = *variable(s.in[0]).history;
    Numbers numbers = leaf.grad;
    while (numbers.size() < variable(s.in[0]).where.size()) numbers.push_back(scalars_.constant(0));
    variables_.push_back(fresh(variable(s.in[0]).shape, numbers, true));
    variables_.back().dense = false;  // gradients come in any order of memory
    log_values(values_of(variables_.back()));
    return;
  }
  const bool again = s.i != 0;
  const Numbers outputs = numbers_now(variable(s.in[0]));
  Numbers weights, targets;
  for (const double weight : s.data) weights.push_back(scalars_.constant(weight));
  std::vector<int> asked(s.in.begin() + 1, s.in.end());
  if (s.op == Op::kBackward) asked = leaves_;
  for (const int n : asked) {
    Variable& v = variable(n);
    look(v);
    for (size_t i = 0; i < v.where.size(); ++i) {
      targets.push_back(v.is_view ? v.numbers[i] : v.history->numbers[at(v.where[i])]);
    }
  }
  const Numbers gradients = scalars_.gradient(outputs, weights, targets, again);
  auto next = gradients.begin();
  for (const int n : asked) {
    const size_t size = variable(n).where.size();
    Numbers g(next, next + static_cast<std::ptrdiff_t>(size));
    next += static_cast<std::ptrdiff_t>(size);
    if (s.op == Op::kBackward) {
      Numbers& sum = variable(n).history->grad;
      for (size_t i = 0; i < size && !sum.empty(); ++i) {
        g[i] = again ? scalars_.add(sum[i], g[i])
                     : scalars_.constant(scalars_.value(sum[i]) + scalars_.value(g[i]));
      }
      sum = g;
    }
    Variable result = fresh(variable(n).shape, g, true);
    result.dense = false;
    log_values(values_of(result));
    if (s.op == Op::kGrad && again) variables_.push_back(result);
  }
}

void Reference::finish() {
  for (size_t n = 0; n < variables_.size(); ++n) {
    log_values(values_of(variables_[n]));
    log_values({tracked(static_cast<int>(n)) ? 1.0 : 0.0});
  }
}

}  // namespace lathe::programs
