// ONNX operators that choose, join, pad or sum up elements along dimensions. Where the integers are
// known, results are known, too, and no node is made. onnx_shapes.cpp: those that change shapes.
// Contract: onnx_import.h.
#include <algorithm>
#include <limits>

#include "lathe/core/format.h"
#include "lathe/graph/onnx/onnx_import.h"

namespace lathe::jit::onnx {

namespace {

void concatenate(Call& c) {
  bool all_known = true;
  Known joined;
  for (size_t i = 0; i < c.inputs(); ++i) {
    const Known* const k = c.known(i);
    all_known &=
        k != nullptr && !k->is_scalar && joined.values.size() + k->values.size() <= kMostKnown;
    if (!all_known) break;
    joined.dtype = k->dtype;
    joined.values.insert(joined.values.end(), k->values.begin(), k->values.end());
  }
  Type y = c.type(0);
  const size_t axis = c.axis(c.integer("axis", 0), y.shape.size());
  if (all_known) return c.result(std::move(joined));
  std::vector<int> inputs = {c.in(0)};
  for (size_t i = 1; i < c.inputs(); ++i) {
    const Type x = c.type(i);
    bool fits = x.dtype == y.dtype && x.shape.size() == y.shape.size();
    for (size_t d = 0; fits && d < x.shape.size(); ++d)
      fits = d == axis || x.shape[d] == y.shape[d];
    if (!fits) c.refuse(concat(to_text(y), " and ", to_text(x), " cannot be concatenated"));
    y.shape[axis] = c.plus(y.shape[axis], x.shape[axis]);
    inputs.push_back(c.in(i));
  }
  c.result(c.add("cat", inputs, y, {{"dim", of(axis)}}));
}

struct Range {
  int64_t axis, begin, end, step;
};

/// What a Slice asks for, before clipping.
std::vector<Range> ranges(Call& c, size_t ndim) {
  const bool by_input = c.opset() >= 10;
  const auto numbers = [&](size_t i, const char* name) -> std::optional<std::vector<int64_t>> {
    if (!by_input) return c.list(name);
    if (!c.has(i)) return std::nullopt;
    return c.integers(i, name);
  };
  const auto begins = numbers(1, "starts"), ends = numbers(2, "ends"), axes = numbers(3, "axes");
  const auto steps = by_input ? numbers(4, "steps") : std::nullopt;
  std::vector<Range> out;
  for (size_t i = 0; begins && i < begins->size(); ++i) {
    if (!ends || ends->size() != begins->size() || (axes && axes->size() != begins->size()) ||
        (steps && steps->size() != begins->size())) {
      c.refuse("starts, ends, axes and steps must have as many numbers as each other");
    }
    const int64_t axis = axes ? (*axes)[i] : static_cast<int64_t>(i);
    out.push_back({static_cast<int64_t>(c.axis(axis, ndim)), (*begins)[i], (*ends)[i],
                   steps ? (*steps)[i] : 1});
  }
  return out;
}

void slice(Call& c) {
  if (c.known(0) != nullptr && !c.known(0)->is_scalar) {
    Known known = *c.known(0);
    for (const Range& r : ranges(c, 1)) {
      const int64_t n = std::ssize(known.values);
      if (r.step < 1) c.refuse(concat("step ", r.step, " has no counterpart here"));
      const auto at = [&](int64_t i) { return std::clamp<int64_t>(i < 0 ? i + n : i, 0, n); };
      std::vector<Size> kept;
      for (int64_t i = at(r.begin); i < at(r.end);) {
        kept.push_back(known.values[static_cast<size_t>(i)]);
        if (r.step >= n) break;
        i += r.step;
      }
      known.values = std::move(kept);
    }
    return c.result(std::move(known));
  }
  Type y = c.type(0);
  int value = c.in(0);
  for (const Range& r : ranges(c, y.shape.size())) {
    const auto axis = static_cast<size_t>(r.axis);
    if (r.step < 1) c.refuse(concat("step ", r.step, " has no counterpart here"));
    const bool whole = r.begin == 0 && r.step == 1 && r.end >= std::numeric_limits<int32_t>::max();
    if (whole) continue;
    const int64_t n = c.fixed(y, axis);
    const auto at = [&](int64_t i) { return std::clamp<int64_t>(i < 0 ? i + n : i, 0, n); };
    const int64_t begin = at(r.begin), end = std::max(begin, at(r.end));
    const int64_t step = std::min(r.step, n + 1);
    y.shape[axis] = of((end - begin + step - 1) / step);
    value = c.add("slice", {value}, y,
                  {{"dim", of(axis)}, {"start", of(begin)}, {"stop", of(end)}, {"step", of(step)}});
  }
  c.result(value);
}

void split(Call& c) {
  const Type x = c.type(0);
  const size_t axis = c.axis(c.integer("axis", 0), x.shape.size());
  const int64_t size = c.fixed(x, axis);
  std::optional<std::vector<int64_t>> lengths;
  if (c.opset() < 13) {
    lengths = c.list("split");
  } else if (c.has(1)) {
    lengths = c.integers(1, "split");
  }
  const int64_t parts = c.integer("num_outputs", static_cast<int64_t>(c.outputs()));
  if (parts != static_cast<int64_t>(c.outputs()) || parts == 0)
    c.refuse("it must have one output for each part");
  if (!lengths) {  // equal ones, the last may be shorter
    const int64_t each = (size + parts - 1) / parts;
    lengths.emplace();
    for (int64_t i = 0, left = size; i < parts; ++i, left -= each) {
      lengths->push_back(std::clamp<int64_t>(left, 0, each));
    }
  }
  int64_t begin = 0;
  if (std::ssize(*lengths) != parts) c.refuse("it must have one output for each part");
  for (const int64_t length : *lengths) {
    if (length < 0 || length > size - begin) c.refuse(concat("its parts do not add up to ", size));
    Type y = x;
    y.shape[axis] = of(length);
    int part = -1;
    if (c.is_named()) {  // a name costs bytes of the file, a part without one does not
      part = c.add("narrow", {c.in(0)}, y,
                   {{"dim", of(axis)}, {"start", of(begin)}, {"length", of(length)}});
    }
    c.result(part);
    begin += length;
  }
  if (begin != size) c.refuse(concat("its parts do not add up to ", size));
}

/// Indices counted from the front; negative ones count from the end, which ops here do not know.
int from_front(Call& c, size_t i, int64_t n) {
  const Type type = c.type(i);
  if (const auto t = c.constant(i)) {
    std::vector<int64_t> values = t->to(kI64).to_vector<int64_t>();
    if (std::all_of(values.begin(), values.end(), [](int64_t v) { return v >= 0; })) return c.in(i);
  }
  const int index = c.in(i);
  const int below = c.add("lt", {index, c.number(0, type.dtype)}, {kBool, type.shape});
  const int moved = c.add("add", {index, c.number(static_cast<double>(n), type.dtype)}, type);
  return c.add("where", {below, moved, index}, type);
}

void gather(Call& c) {
  const Known* const index = c.known(1);
  const Type x = c.type(0);
  const size_t axis = c.axis(c.integer("axis", 0), x.shape.size());
  if (index != nullptr && c.known(0) != nullptr && !c.known(0)->is_scalar) {
    const Known from = *c.known(0);
    Known out{{}, index->is_scalar, from.dtype};
    for (const Size& i : index->values) {
      const int64_t n = std::ssize(from.values), at = i.fixed < 0 ? i.fixed + n : i.fixed;
      if (i.of_batch != 0 || at < 0 || at >= n) c.refuse(concat("index ", i.fixed, " of ", n));
      out.values.push_back(from.values[static_cast<size_t>(at)]);
    }
    return c.result(std::move(out));
  }
  Type y{x.dtype, {x.shape.begin(), x.shape.begin() + static_cast<ptrdiff_t>(axis)}};
  const std::vector<Size> rest(x.shape.begin() + static_cast<ptrdiff_t>(axis) + 1, x.shape.end());
  const auto with_rest = [&](std::vector<Size> shape) {
    shape.insert(shape.end(), rest.begin(), rest.end());
    return shape;
  };
  if (index != nullptr && index->is_scalar && index->values[0].of_batch == 0) {
    return c.result(c.add("select", {c.in(0)}, {x.dtype, with_rest(y.shape)},
                          {{"dim", of(axis)}, {"index", index->values[0]}}));
  }
  const std::vector<Size> places = c.type(1).shape;
  const int indices = from_front(c, 1, c.fixed(x, axis));
  std::vector<Size> shape = y.shape;
  shape.insert(shape.end(), places.begin(), places.end());
  shape = with_rest(std::move(shape));
  if (axis == 0 && x.shape.size() == 2) {
    return c.result(c.add("embedding", {c.in(0), indices}, {x.dtype, shape},
                          {{"padding_index", std::string("none")}}));
  }
  const Size count = c.numel(places);
  const int line = c.reshaped(indices, {count});
  y.shape.push_back(count);
  y.shape = with_rest(y.shape);
  const int chosen = c.add("index_select", {c.in(0), line}, y, {{"dim", of(axis)}});
  c.result(c.reshaped(chosen, shape));
}

void gather_elements(Call& c) {
  const Type x = c.type(0), index = c.type(1);
  const size_t axis = c.axis(c.integer("axis", 0), x.shape.size());
  const int places = from_front(c, 1, c.fixed(x, axis));
  c.result(c.add("gather", {c.in(0), places}, {x.dtype, index.shape}, {{"dim", of(axis)}}));
}

void pad(Call& c) {
  const bool by_input = c.opset() >= 11;
  const Type x = c.type(0);
  const std::string mode = c.word("mode", "constant");
  const std::vector<int64_t> given =
      by_input ? c.integers(1, "pads") : c.list("pads").value_or(std::vector<int64_t>{});
  const std::vector<size_t> axes = c.axes(1, 3, x.shape.size());
  if (given.size() != 2 * axes.size()) c.refuse("pads must be two numbers for each axis");
  if (c.has(3)) {  // in the order of the axes as given
    const std::vector<int64_t> order = c.integers(3, "axes");
    if (order.size() != axes.size()) c.refuse("its axes must name a dimension");
    for (size_t i = 0; i < axes.size(); ++i) {
      if (c.axis(order[i], x.shape.size()) != axes[i]) c.refuse("its axes must be in order");
    }
  }
  Scalar value = c.opset() < 11 ? c.real("value", 0) : 0.0;
  if (by_input && c.has(2)) {
    const auto t = c.constant(2);
    if (!t || t->numel() != 1) c.refuse("the value must be a constant number of the file");
    if (t->dtype() != x.dtype) c.refuse("the value must have the tensor's dtype");
    value = t->item_scalar();
  } else if (!is_floating(x.dtype)) {
    if (value.to<double>() != 0) c.refuse("the value must have the tensor's dtype");
    value = int64_t{0};
  }
  Type y = x;
  std::vector<Size> amounts(2 * x.shape.size());  // from the last dimension on
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t before = given[i], after = given[axes.size() + i];
    const size_t at = 2 * (x.shape.size() - 1 - axes[i]);
    amounts[at] = of(before), amounts[at + 1] = of(after);
    if (before == 0 && after == 0) continue;
    c.fixed(x, axes[i]);
    y.shape[axes[i]] = c.plus(c.plus(x.shape[axes[i]], of(before)), of(after));
  }
  while (amounts.size() > 2 && amounts.back() == Size{} && amounts[amounts.size() - 2] == Size{}) {
    amounts.resize(amounts.size() - 2);
  }
  if (mode == "constant") {
    if (is_floating(x.dtype)) {
      const double number = value.to<double>();
      return c.result(c.add("pad", {c.in(0)}, y, {{"amounts", amounts}, {"value", number}}));
    }
    const Size number = of(value.to<int64_t>());
    return c.result(c.add("pad", {c.in(0)}, y, {{"amounts", amounts}, {"value", number}}));
  }
  const std::string ours = mode == "edge" ? "replicate" : mode == "wrap" ? "circular" : "reflect";
  if (ours == "reflect" && mode != ours) c.refuse("its mode has no counterpart here");
  c.result(c.add("pad", {c.in(0)}, y, {{"amounts", amounts}, {"mode", ours}}));
}

void cumulative_sum(Call& c) {
  const Type x = c.type(0);
  c.only("exclusive", 0), c.only("reverse", 0);
  const std::vector<int64_t> axis = c.integers(1, "the axis");
  if (axis.size() != 1) c.refuse("the axis must be one number");
  if (!is_floating(x.dtype) && x.dtype != kI64) c.refuse("sums of these integers are i64 here");
  c.result(c.add("cumsum", {c.in(0)}, x, {{"dim", of(c.axis(axis[0], x.shape.size()))}}));
}

void triangle(Call& c) {
  const bool upper = c.integer("upper", 1) != 0;
  const std::vector<int64_t> k = c.has(1) ? c.integers(1, "k") : std::vector<int64_t>{0};
  if (k.size() != 1) c.refuse("k must be one number");
  c.result(c.add(upper ? "triu" : "tril", {c.in(0)}, c.type(0), {{"diagonal", of(k[0])}}));
}

constexpr Operator kParts[] = {
    {"Concat", concatenate},
    {"CumSum", cumulative_sum},
    {"Gather", gather},
    {"GatherElements", gather_elements},
    {"Pad", pad},
    {"Slice", slice},
    {"Split", split},
    {"Trilu", triangle},
};

}  // namespace

std::span<const Operator> part_operators() { return kParts; }

}  // namespace lathe::jit::onnx
