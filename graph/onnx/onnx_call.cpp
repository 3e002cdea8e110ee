// Call: a node of an ONNX file while it is imported: its inputs, attributes, results, and the
// arithmetic of sizes. Contract: onnx_import.h.
#include <algorithm>

#include "lathe/core/error.h"
#include "lathe/core/format.h"
#include "lathe/core/printable.h"
#include "lathe/graph/onnx/onnx_import.h"
#include "lathe/graph/op_table.h"
#include "lathe/ops/creation.h"

namespace lathe::jit::onnx {

void Call::refuse(const std::string& why) const {
  importer_.wrong(concat("node \"", printable(node_.name), "\" (", printable(node_.op), ", opset ",
                         opset_, "): ", why));
}

bool Call::for_training() const { return importer_.for_training_; }

Binding& Call::binding(size_t i) {
  if (!has(i)) refuse(concat("input ", i, " is missing"));
  const auto found = importer_.bindings_.find(node_.inputs[i]);
  if (found == importer_.bindings_.end()) {
    refuse(concat(
        "\"", printable(node_.inputs[i]),
        "\" is the result of no earlier node, or an optional result that the import leaves out"));
  }
  return found->second;
}

int Call::in(size_t i) { return importer_.value_of(binding(i)); }
int Call::maybe(size_t i) { return has(i) ? in(i) : -1; }

Type Call::type(size_t i) {
  const Binding& b = binding(i);
  if (b.value < 0 && b.known) return b.known->type();
  return type_of(in(i));
}
const Type& Call::type_of(int value) const {
  return importer_.graph_.values[static_cast<size_t>(value)].type;
}

int64_t Call::fixed(const Type& type, size_t d) const {
  const Size& size = type.shape[d];
  constexpr int64_t kMost = int64_t{1} << 40;  // sums of it with arguments fit
  if (size.of_batch != 0) refuse(concat("dimension ", d, " of ", to_text(type), " is the batch"));
  if (size.fixed > kMost) refuse(concat("dimension ", d, " of ", to_text(type), " is too large"));
  return size.fixed;
}

const Known* Call::known(size_t i) {
  Binding& b = binding(i);
  if (b.known) return &*b.known;
  constexpr size_t kMostBytes = 4096;  // not for weights
  if (b.tensor.empty() || b.tensor.size() > kMostBytes) return nullptr;
  if (b.value >= 0 && is_floating(type_of(b.value).dtype)) return nullptr;
  const Tensor t = importer_.tensor_in(b);
  const bool is_short = t.ndim() <= 1 && t.numel() <= static_cast<int64_t>(kMostKnown);
  if (is_floating(t.dtype()) || !is_short) return nullptr;
  Known known{.values = {}, .is_scalar = t.ndim() == 0, .dtype = t.dtype()};
  for (const int64_t value : t.to(kI64).to_vector<int64_t>()) known.values.push_back({0, value});
  b.known = std::move(known);
  return &*b.known;
}

const Known& Call::must_know(size_t i, const char* what) {
  const Known* const k = known(i);
  if (k == nullptr) refuse(concat(what, " must not depend on the values of other tensors"));
  return *k;
}

std::vector<int64_t> Call::integers(size_t i, const char* what) {
  std::vector<int64_t> out;
  for (const Size& size : must_know(i, what).values) {
    if (size.of_batch != 0) refuse(concat(what, " must not depend on the batch"));
    out.push_back(size.fixed);
  }
  return out;
}

std::optional<Tensor> Call::constant(size_t i) {
  const Binding& b = binding(i);
  if (b.value >= 0) {
    const Tensor& t = importer_.graph_.values[static_cast<size_t>(b.value)].tensor;
    return t.defined() ? std::optional(t) : std::nullopt;
  }
  return b.tensor.empty() ? std::nullopt : std::optional(importer_.tensor_in(b));
}

const NodeAttribute* Call::find(std::string_view name) {
  for (NodeAttribute& a : node_.attributes) {
    if (a.name != name) continue;
    a.is_used = true;
    return &a;
  }
  return nullptr;
}

Tensor Call::read(const NodeAttribute& attribute) const {
  return importer_.tensor_in({.tensor = attribute.bytes});
}

int64_t Call::integer(std::string_view name, int64_t otherwise) {
  const NodeAttribute* const a = find(name);
  if (a == nullptr) return otherwise;
  if (a->kind != NodeAttribute::Kind::kInt) refuse(concat(name, " must be an integer"));
  return a->integer;
}
double Call::real(std::string_view name, double otherwise) {
  const NodeAttribute* const a = find(name);
  if (a == nullptr) return otherwise;
  if (a->kind != NodeAttribute::Kind::kFloat) refuse(concat(name, " must be a number"));
  return static_cast<double>(a->real);
}
std::optional<std::vector<int64_t>> Call::list(std::string_view name) {
  const NodeAttribute* const a = find(name);
  if (a == nullptr) return std::nullopt;
  if (a->kind != NodeAttribute::Kind::kInts) refuse(concat(name, " must be integers"));
  return a->integers;
}
std::string Call::word(std::string_view name, std::string_view otherwise) {
  const NodeAttribute* const a = find(name);
  if (a == nullptr) return std::string(otherwise);
  if (a->kind != NodeAttribute::Kind::kString) refuse(concat(name, " must be a word"));
  return std::string(a->bytes.substr(0, 40));  // longer ones mean nothing
}
void Call::only(std::string_view name, int64_t value) {
  const int64_t got = integer(name, value);
  if (got != value) refuse(concat(name, " = ", got, " has no counterpart here"));
}

size_t Call::axis(int64_t axis, size_t ndim) const {
  const auto n = static_cast<int64_t>(ndim);
  if (axis < -n || axis >= n) refuse(concat("axis ", axis, " of a tensor with ", n, " dimensions"));
  return static_cast<size_t>(axis < 0 ? axis + n : axis);
}

std::vector<size_t> Call::axes(int64_t since, size_t i, size_t ndim) {
  std::optional<std::vector<int64_t>> given;
  if (opset_ < since) {
    given = list("axes");
  } else if (has(i)) {
    given = integers(i, "axes");
  }
  std::vector<size_t> axes;
  if (!given || given->empty()) {
    for (size_t d = 0; d < ndim; ++d) axes.push_back(d);
  } else {
    for (const int64_t a : *given) axes.push_back(axis(a, ndim));
  }
  std::sort(axes.begin(), axes.end());
  if (std::adjacent_find(axes.begin(), axes.end()) != axes.end()) refuse("an axis is named twice");
  return axes;
}

/// Of a node's name, which each of its calls repeats: more would be more than 256 times the file.
constexpr size_t kPlace = 40;

int Call::add(const char* op, std::vector<int> inputs, const Type& type, Named attributes) {
  if (!is_possible(type)) refuse(concat("a result cannot be ", to_text(type)));
  std::vector<std::string> names;
  Node node{.inputs = std::move(inputs), .place = printable(node_.name.substr(0, kPlace))};
  for (const auto& [name, value] : attributes) {
    names.emplace_back(name);
    node.attributes.push_back(value);
  }
  node.op = find_op(op, names);
  if (node.op == nullptr) refuse(concat("there is no op ", op, " with these arguments"));
  Graph& graph = importer_.graph_;
  Value value{.name = importer_.fresh(std::to_string(graph.nodes.size())), .type = type};
  node.output = graph.add(std::move(value));
  graph.nodes.push_back(std::move(node));
  return graph.nodes.back().output;
}

int Call::constant(const Tensor& t) {
  return importer_.graph_.add({importer_.fresh("c"), Origin::kConstant, jit::type_of(t), t});
}
int Call::number(double value, DType dtype) { return constant(full({}, value, {.dtype = dtype})); }

int Call::reshaped(int value, const std::vector<Size>& shape) {
  const Type from = type_of(value);
  if (from.shape == shape) return value;
  if (numel(from.shape) != numel(shape)) {
    refuse(concat(to_text(from), " does not become ", to_text(Attribute(shape))));
  }
  return add("reshape", {value}, {from.dtype, shape}, {{"shape", shape}});
}

bool Call::is_named() const {
  return results_ < node_.outputs.size() && !node_.outputs[results_].empty();
}

void Call::result(int value) {
  if (is_named()) {
    importer_.define(node_.outputs[results_], {.value = value, .name = node_.outputs[results_]});
  }
  ++results_;
}
/// As a cast gives it: the lowest bits, or whether it is not 0.
static int64_t wrapped(int64_t value, DType dtype) {
  switch (dtype) {
    case DType::kBool: return value != 0;
    case DType::kU8: return static_cast<uint8_t>(value);
    case DType::kI8: return static_cast<int8_t>(value);
    case DType::kI16: return static_cast<int16_t>(value);
    case DType::kI32: return static_cast<int32_t>(value);
    default: return value;
  }
}

void Call::result(Known known) {
  if (known.values.size() > kMostKnown) {
    refuse(concat(known.values.size(), " integers are too many for a shape"));
  }
  const bool holds_batch = known.dtype == kI64 || known.dtype == kI32;
  for (Size& size : known.values) {
    if (size.of_batch != 0 && !holds_batch) {
      refuse(concat("a multiple of the batch may not fit into ", known.dtype));
    }
    size.fixed = wrapped(size.fixed, known.dtype);
  }
  if (is_named()) {
    importer_.define(node_.outputs[results_],
                     {.known = std::move(known), .name = node_.outputs[results_]});
  }
  ++results_;
}
void Call::result_tensor(std::string_view message) {
  if (node_.outputs.empty()) return;
  importer_.define(node_.outputs[0], {.tensor = message, .name = node_.outputs[0]});
}
void Call::pass(size_t i) {
  if (const Known* const k = known(i)) return result(Known(*k));
  result(in(i));
}

void Call::finish() const {
  for (const NodeAttribute& a : node_.attributes) {
    if (!a.is_used) {
      refuse(concat("attribute \"", printable(a.name), "\" has no counterpart here"));
    }
  }
}

Size Call::times(const Size& a, const Size& b) const {
  Size out;
  const bool fits = (a.of_batch == 0 || b.of_batch == 0) &&
                    !__builtin_mul_overflow(a.fixed, b.fixed, &out.fixed) &&
                    !__builtin_mul_overflow(a.of_batch != 0 ? a.of_batch : b.of_batch,
                                            a.of_batch != 0 ? b.fixed : a.fixed, &out.of_batch);
  if (!fits) {
    refuse(concat(to_text(Attribute(a)), " times ", to_text(Attribute(b)),
                  " is too large, or no multiple of the batch"));
  }
  return out;
}

Size Call::divided(const Size& a, const Size& b) const {
  const auto exact = [&](int64_t by) {
    return by > 0 && a.of_batch % by == 0 && a.fixed % by == 0;
  };
  if (b.of_batch == 0 && exact(b.fixed)) return {a.of_batch / b.fixed, a.fixed / b.fixed};
  if (b.of_batch > 0 && a.fixed == 0 && exact(b.of_batch)) return {0, a.of_batch / b.of_batch};
  refuse(concat(to_text(Attribute(a)), " divided by ", to_text(Attribute(b)),
                " is no multiple of the batch"));
}

Size Call::plus(const Size& a, const Size& b, int64_t sign) const {
  Size out, scaled = times(b, {0, sign});
  const bool fits = !__builtin_add_overflow(a.fixed, scaled.fixed, &out.fixed) &&
                    !__builtin_add_overflow(a.of_batch, scaled.of_batch, &out.of_batch);
  if (!fits || (out.fixed != 0 && out.of_batch != 0) || out.of_batch < 0) {
    refuse(concat(to_text(Attribute(a)), sign > 0 ? " plus " : " minus ", to_text(Attribute(b)),
                  " is too large, or no multiple of the batch"));
  }
  return out;
}

Size Call::numel(std::span<const Size> shape) const {
  Size count{0, 1};
  for (const Size& size : shape) count = times(count, size);
  return count;
}

std::vector<Size> Call::broadcast(const std::vector<Size>& a, const std::vector<Size>& b) const {
  const std::vector<Size>&longer = a.size() < b.size() ? b : a,
        &other = a.size() < b.size() ? a : b;
  std::vector<Size> out = longer;
  for (size_t i = 0; i < other.size(); ++i) {
    Size& size = out[out.size() - 1 - i];
    const Size& with = other[other.size() - 1 - i];
    constexpr Size kOne{0, 1};
    if (size == kOne) size = with;
    if (with != size && with != kOne) {
      refuse(concat("shapes ", to_text(Attribute(a)), " and ", to_text(Attribute(b)),
                    " do not broadcast"));
    }
  }
  return out;
}

}  // namespace lathe::jit::onnx
