// ONNX operators that compute or change shapes. Where the integers are known, results are known,
// too, and no node is made. onnx_parts.cpp: those that choose elements. Contract: onnx_import.h.
#include <algorithm>
#include <limits>

#include "lathe/core/format.h"
#include "lathe/graph/onnx/onnx_import.h"
#include "lathe/ops/creation.h"

namespace lathe::jit::onnx {

namespace {

// --- constants and shapes ------------------------------------------------------------------------

void constant(Call& c) {
  if (const NodeAttribute* a = c.find("value")) {
    if (a->kind != NodeAttribute::Kind::kTensor) c.refuse("value must be a tensor");
    return c.result_tensor(a->bytes);
  }
  if (c.find("value_int") != nullptr) {
    return c.result(Known{{of(c.integer("value_int", 0))}, true});
  }
  if (c.find("value_float") != nullptr) {
    return c.result(c.number(c.real("value_float", 0), kF32));
  }
  if (const auto list = c.list("value_ints")) {
    Tensor t = empty({std::ssize(*list)}, {.dtype = kI64});
    std::copy(list->begin(), list->end(), t.data<int64_t>());
    if (list->size() > kMostKnown) return c.result(c.constant(t));
    Known known;
    for (const int64_t value : *list) known.values.push_back(of(value));
    return c.result(std::move(known));
  }
  if (const NodeAttribute* a = c.find("value_floats")) {
    Tensor t = empty({std::ssize(a->reals)}, {.dtype = kF32});
    std::copy(a->reals.begin(), a->reals.end(), t.data<float>());
    return c.result(c.constant(t));
  }
  c.refuse("it has no value that has a counterpart here");
}

void shape(Call& c) {
  const std::vector<Size> all = c.type(0).shape;
  const auto n = std::ssize(all);
  const auto at = [&](const char* name, int64_t otherwise) {
    const int64_t d = c.integer(name, otherwise);
    return std::clamp<int64_t>(d < 0 ? d + n : d, 0, n);
  };
  const int64_t begin = at("start", 0), end = std::max(begin, at("end", n));
  c.result(Known{{all.begin() + begin, all.begin() + end}});
}

void size(Call& c) { c.result(Known{{c.numel(c.type(0).shape)}, true}); }

/// A shape that an input names.
std::vector<Size> named_shape(Call& c, size_t i) {
  const std::vector<Size> shape = c.must_know(i, "the shape").values;
  if (shape.size() > kMaxDims) c.refuse("a shape has too many dimensions");
  for (const Size& s : shape) {
    if (s.fixed < 0) c.refuse(concat("a shape cannot be ", to_text(Attribute(shape))));
  }
  return shape;
}

void constant_of_shape(Call& c) {
  const std::vector<Size> shape = named_shape(c, 0);
  Tensor value = zeros({1}, {.dtype = kF32});
  if (const NodeAttribute* a = c.find("value")) {
    if (a->kind != NodeAttribute::Kind::kTensor) c.refuse("value must be a tensor");
    value = c.read(*a);
  }
  if (value.numel() != 1) c.refuse("its value must be one number");
  const bool is_short = shape.size() == 1 && shape[0].of_batch == 0 &&
                        shape[0].fixed <= static_cast<int64_t>(kMostKnown);
  if (is_integer(value.dtype()) && is_short) {
    const Size number = of(value.item_scalar().to<int64_t>());
    const auto count = static_cast<size_t>(shape[0].fixed);
    return c.result(Known{std::vector<Size>(count, number), false, value.dtype()});
  }
  const int one = c.constant(full({}, value.item_scalar(), {.dtype = value.dtype()}));
  c.result(c.add("expand", {one}, {value.dtype(), shape}, {{"shape", shape}}));
}

void identity(Call& c) { c.pass(0); }

// --- the same elements in another shape ----------------------------------------------------------

void reshape(Call& c) {
  const Type x = c.type(0);
  const bool zero_is_zero = c.integer("allowzero", 0) != 0;
  std::vector<Size> shape = c.must_know(1, "the shape").values;
  if (c.known(0) != nullptr && shape.size() <= 1) {  // of integers that are known
    Known known = *c.known(0);
    const bool fits = shape.empty()
                          ? known.values.size() == 1
                          : shape[0] == of(int64_t{-1}) || shape[0] == of(known.values.size());
    if (!fits) c.refuse("the shape does not fit");
    known.is_scalar = shape.empty();
    return c.result(std::move(known));
  }
  if (shape.size() > kMaxDims) c.refuse("a shape has too many dimensions");
  Size* rest = nullptr;
  Size others = of(int64_t{1});
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == Size{} && !zero_is_zero) {
      if (d >= x.shape.size())
        c.refuse(
            concat("the shape copies dimension ", d, ", which ", to_text(x), " does not have"));
      shape[d] = x.shape[d];
    }
    if (shape[d].fixed == -1) {
      if (rest != nullptr) c.refuse("two sizes of a shape are -1");
      rest = &shape[d];
    } else if (shape[d].fixed < 0) {
      c.refuse(concat("a size is ", shape[d].fixed));
    } else {
      others = c.times(others, shape[d]);
    }
  }
  if (rest != nullptr) *rest = c.divided(c.numel(x.shape), others);
  c.result(c.reshaped(c.in(0), shape));
}

void flatten(Call& c) {
  const Type x = c.type(0);
  const int64_t given = c.integer("axis", 1), n = std::ssize(x.shape);
  const size_t axis = given == n ? x.shape.size() : c.axis(given, x.shape.size());
  const std::span<const Size> all(x.shape);
  const std::vector<Size> shape = {c.numel(all.first(axis)), c.numel(all.subspan(axis))};
  if (axis == 1 && n > 2) {
    return c.result(c.add("flatten", {c.in(0)}, {x.dtype, shape},
                          {{"first", of(int64_t{1})}, {"last", of(int64_t{-1})}}));
  }
  c.result(c.reshaped(c.in(0), shape));
}

void transpose(Call& c) {
  const Type x = c.type(0);
  std::vector<int64_t> order;
  for (int64_t d = std::ssize(x.shape); d-- > 0;) order.push_back(d);
  if (const auto given = c.list("perm")) order = *given;
  std::vector<int64_t> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  Type y{x.dtype, {}};
  std::vector<Size> sizes;
  bool names_each = order.size() == x.shape.size();
  for (size_t d = 0; names_each && d < order.size(); ++d) {
    names_each = sorted[d] == static_cast<int64_t>(d);
  }
  if (!names_each) c.refuse(concat("perm must name each dimension of ", to_text(x), " once"));
  for (size_t d = 0; d < order.size(); ++d) {
    y.shape.push_back(x.shape[static_cast<size_t>(order[d])]);
    sizes.push_back(of(order[d]));
  }
  if (order.empty()) return c.pass(0);
  c.result(c.add("permute", {c.in(0)}, y, {{"order", sizes}}));
}

void unsqueeze(Call& c) {
  std::vector<int64_t> axes;
  if (c.opset() < 13) {
    axes = c.list("axes").value_or(axes);
  } else {
    axes = c.integers(1, "axes");
  }
  if (c.known(0) != nullptr && c.known(0)->is_scalar && axes.size() == 1) {
    Known known = *c.known(0);
    known.is_scalar = false;
    return c.result(std::move(known));
  }
  const Type x = c.type(0);
  std::vector<size_t> places;
  for (const int64_t a : axes) places.push_back(c.axis(a, x.shape.size() + axes.size()));
  std::sort(places.begin(), places.end());
  Type y = x;
  int value = c.in(0);
  for (const size_t at : places) {
    if (at > y.shape.size()) c.refuse("an axis is named twice");
    y.shape.insert(y.shape.begin() + static_cast<ptrdiff_t>(at), of(int64_t{1}));
    value = c.add("unsqueeze", {value}, y, {{"dim", of(at)}});
  }
  if (std::adjacent_find(places.begin(), places.end()) != places.end()) {
    c.refuse("an axis is named twice");
  }
  c.result(value);
}

void squeeze(Call& c) {
  const Type x = c.type(0);
  const bool named = c.opset() < 13 ? c.find("axes") != nullptr : c.has(1);
  const std::vector<size_t> axes = c.axes(13, 1, x.shape.size());
  std::vector<Size> kept;
  for (size_t d = 0; d < x.shape.size(); ++d) {
    const bool is_one = x.shape[d] == of(int64_t{1});
    const bool goes = named ? std::binary_search(axes.begin(), axes.end(), d) : is_one;
    if (goes && !is_one) c.refuse(concat("dimension ", d, " of ", to_text(x), " is not 1"));
    if (!goes) kept.push_back(x.shape[d]);
  }
  if (c.known(0) != nullptr) {
    Known known = *c.known(0);
    known.is_scalar |= kept.empty();
    return c.result(std::move(known));
  }
  c.result(c.reshaped(c.in(0), kept));
}

void expand(Call& c) {
  const Type x = c.type(0);
  const std::vector<Size> shape = c.broadcast(x.shape, named_shape(c, 1));
  if (shape == x.shape) return c.pass(0);
  c.result(c.add("expand", {c.in(0)}, {x.dtype, shape}, {{"shape", shape}}));
}

constexpr Operator kShapes[] = {
    {"Constant", constant},   {"ConstantOfShape", constant_of_shape},
    {"Expand", expand},       {"Flatten", flatten},
    {"Identity", identity},   {"Reshape", reshape},
    {"Shape", shape},         {"Size", size},
    {"Squeeze", squeeze},     {"Transpose", transpose},
    {"Unsqueeze", unsqueeze},
};

}  // namespace

std::span<const Operator> shape_operators() { return kShapes; }

}  // namespace lathe::jit::onnx
