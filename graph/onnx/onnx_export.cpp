// Writing a graph as an ONNX file: names, types, tensors, and one node after the other.
#include "lathe/graph/onnx/onnx_export.h"

#include <algorithm>
#include <unordered_map>

#include "lathe/core/error.h"
#include "lathe/core/files/file.h"
#include "lathe/core/format.h"
#include "lathe/graph/onnx/onnx.h"
#include "lathe/graph/onnx/onnx_proto.h"
#include "lathe/graph/op_table.h"
#include "lathe/ops/creation.h"

namespace lathe::jit::onnx {

namespace {

const Form* find_form(std::string_view op) {
  static const auto table = [] {
    std::unordered_map<std::string_view, const Form*> all;
    for (const auto forms : {simple_forms(), layer_forms(), quantized_forms()}) {
      for (const Form& f : forms) all.emplace(f.op, &f);
    }
    return all;
  }();
  const auto found = table.find(op);
  return found == table.end() ? nullptr : found->second;
}

}  // namespace

// --- Exporter ------------------------------------------------------------------------------------

Exporter::Exporter(const Graph& graph) : graph_(graph), names_(graph.values.size()) {
  for (const int input : graph.inputs) {
    const Value& value = graph.values[static_cast<size_t>(input)];
    names_[static_cast<size_t>(input)] = fresh(value.name);
    file_.input(names_[static_cast<size_t>(input)], value.type);
  }
}

std::string Exporter::fresh(const std::string& wanted) {
  std::string name = wanted;
  while (!taken_.emplace(name, 0).second) name = concat(wanted, "_", ++taken_[wanted]);
  return name;
}

std::string Exporter::name_of(int number) {
  std::string& name = names_[static_cast<size_t>(number)];
  if (!name.empty()) return name;
  const Value& value = graph_.values[static_cast<size_t>(number)];
  LATHE_CHECK(StateError, value.tensor.defined(), "save_onnx: @", value.name,
              " has no tensor; call bind()");
  name = fresh(value.name);
  file_.tensor(name, value.tensor);
  return name;
}

std::string Exporter::call(const char* op, const Names& inputs, const FileAttributes& attributes,
                           const std::string& place) {
  const std::string result = fresh(concat(place.empty() ? "" : place + "/", op));
  file_.node(op, result, inputs, result, attributes);
  return result;
}

std::string Exporter::constant(const std::string& key, const Tensor& t) {
  std::string& name = constants_[key];
  if (!name.empty()) return name;
  name = fresh("const/" + key);
  file_.tensor(name, t);
  return name;
}

std::string Exporter::batch() {
  for (size_t i = 0; i < graph_.inputs.size() && batch_.empty(); ++i) {
    const std::vector<Size>& shape =
        graph_.values[static_cast<size_t>(graph_.inputs[i])].type.shape;
    for (size_t d = 0; d < shape.size(); ++d) {
      if (shape[d].of_batch != 1) continue;
      const auto at = static_cast<int64_t>(d);
      batch_ =
          call("Shape", {name_of(graph_.inputs[i])}, {{"start", at}, {"end", at + 1}}, "batch");
      break;
    }
  }
  LATHE_CHECK(ValueError, !batch_.empty(), "save_onnx: no input has the batch as one of its sizes");
  return batch_;
}

std::string Exporter::bytes(std::string_view name,
                            const std::map<std::string, std::string, std::less<>>& metadata) {
  for (const auto& [key, value] : metadata) file_.metadata(key, value);
  Names outputs;
  for (size_t i = 0; i < graph_.outputs.size(); ++i) {
    outputs.push_back(fresh(graph_.outputs.size() == 1 ? "output" : concat("output", i)));
  }
  for (const Node& node : graph_.nodes) {
    Emission emission(*this, node);
    const Form* const form = find_form(node.op->name);
    if (form == nullptr) emission.refuse("it has no ONNX form");
    names_[static_cast<size_t>(node.output)] = form->emit(emission);
  }
  for (size_t i = 0; i < graph_.outputs.size(); ++i) {
    const int value = graph_.outputs[i];
    file_.node("Identity", outputs[i], {name_of(value)}, outputs[i], {});
    file_.output(outputs[i], graph_.values[static_cast<size_t>(value)].type);
  }
  return file_.bytes(name);
}

// --- Emission ------------------------------------------------------------------------------------

void Emission::refuse(const std::string& why) const {
  LATHE_FAIL(ValueError, "save_onnx: ", node_.op->name, node_.place.empty() ? "" : " of ",
             node_.place, ": ", why);
}

std::string_view Emission::op() const { return node_.op->name; }

size_t Emission::range_inputs() const { return static_cast<size_t>(node_.op->inputs); }

std::string Emission::in(size_t i) { return has(i) ? exporter_.name_of(node_.inputs[i]) : ""; }

const Type& Emission::type(size_t i) const {
  return exporter_.graph_.values[static_cast<size_t>(node_.inputs.at(i))].type;
}
const Type& Emission::type() const {
  return exporter_.graph_.values[static_cast<size_t>(node_.output)].type;
}

int64_t Emission::fixed(size_t i, size_t d) const {
  const Size& size = type(i).shape[d];
  if (size.of_batch != 0)
    refuse(concat("dimension ", d, " of ", to_text(type(i)), " is the batch"));
  return size.fixed;
}

bool Emission::has_attribute(std::string_view name) const {
  return find_attribute(node_, name) != nullptr;
}
const Attribute& Emission::attribute(std::string_view name) const {
  const Attribute* const found = find_attribute(node_, name);
  if (found == nullptr) refuse(concat("it has no attribute ", name));
  return *found;
}
double Emission::real(std::string_view name) const { return std::get<double>(attribute(name)); }
bool Emission::flag(std::string_view name) const { return std::get<bool>(attribute(name)); }
std::string Emission::word(std::string_view name) const {
  return std::get<std::string>(attribute(name));
}
int64_t Emission::integer(std::string_view name) const {
  const Size& size = std::get<Size>(attribute(name));
  if (size.of_batch != 0) refuse(concat(name, " depends on the batch"));
  return size.fixed;
}
std::vector<int64_t> Emission::list(std::string_view name) const {
  std::vector<int64_t> values;
  for (const Size& size : std::get<std::vector<Size>>(attribute(name))) {
    if (size.of_batch != 0) refuse(concat(name, " depends on the batch"));
    values.push_back(size.fixed);
  }
  return values;
}
double Emission::number(std::string_view name) const {
  const Attribute& a = attribute(name);
  if (const auto* truth = std::get_if<bool>(&a)) return *truth ? 1 : 0;
  if (const auto* whole = std::get_if<Size>(&a)) return static_cast<double>(whole->fixed);
  return std::get<double>(a);
}

std::string Emission::call(const char* op, const Names& inputs, const FileAttributes& attributes) {
  Names given = inputs;
  while (!given.empty() && given.back().empty()) given.pop_back();
  return exporter_.call(op, given, attributes, node_.place);
}

std::string Emission::cast(const std::string& name, DType from, DType to) {
  return from == to ? name : call("Cast", {name}, {{"to", number_of(to)}});
}

std::string Emission::number(double value, DType dtype) {
  return tensor(concat(dtype, "/", to_text(Attribute(value))), full({}, value, {.dtype = dtype}));
}
std::string Emission::filled(const std::vector<int64_t>& shape, double value, DType dtype) {
  const Shape sizes = shape;
  return tensor(concat(dtype, sizes, "/", to_text(Attribute(value))),
                full(sizes, value, {.dtype = dtype}));
}
std::string Emission::integers(const std::vector<int64_t>& values) {
  Tensor t = empty({std::ssize(values)}, {.dtype = kI64});
  std::copy(values.begin(), values.end(), t.data<int64_t>());
  std::string key = "i64";
  for (const int64_t value : values) key += concat(",", value);
  return tensor(key, t);
}

std::string Emission::sizes(const std::vector<Size>& values) {
  Names parts;
  std::vector<int64_t> fixed;
  const auto end_run = [&] {
    if (!fixed.empty()) parts.push_back(integers(fixed));
    fixed.clear();
  };
  for (const Size& size : values) {
    if (size.of_batch == 0) {
      fixed.push_back(size.fixed);
      continue;
    }
    end_run();
    const std::string n = exporter_.batch();
    parts.push_back(size.of_batch == 1 ? n : call("Mul", {n, integers({size.of_batch})}));
  }
  end_run();
  if (parts.empty()) return integers({});
  return parts.size() == 1 ? parts[0] : call("Concat", parts, {{"axis", int64_t{0}}});
}

std::string Emission::reshaped(const std::string& name, const std::vector<Size>& shape) {
  const auto is_batch = [](const Size& size) { return size.of_batch != 0; };
  if (std::find(shape.begin(), shape.end(), Size{}) != shape.end()) {
    // A 0 is no copied size; a -1 beside it would mean nothing.
    return call("Reshape", {name, sizes(shape)}, {{"allowzero", int64_t{1}}});
  }
  if (std::count_if(shape.begin(), shape.end(), is_batch) != 1) {
    return call("Reshape", {name, sizes(shape)});
  }
  std::vector<int64_t> target;
  for (const Size& size : shape) target.push_back(is_batch(size) ? -1 : size.fixed);
  return call("Reshape", {name, integers(target)});
}

}  // namespace lathe::jit::onnx

namespace lathe::jit {

void save_onnx(const Graph& graph, const std::string& path, const OnnxOptions& options) {
  write_file_atomic(path, onnx::Exporter(graph).bytes(options.name, options.metadata));
}

bool is_saved_onnx(const std::string& path) {
  const std::string expected = onnx::OnnxFile::beginning();
  const InputFile file(path);
  std::string start(expected.size(), '\0');
  if (file.size() < std::ssize(start)) return false;
  file.read(start.data(), std::ssize(start), 0);
  return start == expected;
}

}  // namespace lathe::jit
