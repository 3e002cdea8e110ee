// Reading an ONNX file: its tensors, inputs, nodes and outputs. onnx_call.cpp: one node.
#include "lathe/graph/onnx/onnx_import.h"

#include <algorithm>

#include "lathe/core/error.h"
#include "lathe/core/files/file.h"
#include "lathe/core/format.h"
#include "lathe/core/formats/foreign_file.h"
#include "lathe/core/printable.h"
#include "lathe/graph/onnx/onnx.h"
#include "lathe/graph/passes.h"
#include "lathe/graph/work.h"
#include "lathe/ops/creation.h"

namespace lathe::jit::onnx {

namespace {

/// All operators by their names.
const Operator* find_operator(std::string_view name) {
  static const auto table = [] {
    std::unordered_map<std::string_view, const Operator*> all;
    for (const auto operators :
         {pointwise_operators(), layer_operators(), shape_operators(), part_operators()}) {
      for (const Operator& o : operators) all.emplace(o.name, &o);
    }
    return all;
  }();
  const auto found = table.find(name);
  return found == table.end() ? nullptr : found->second;
}

}  // namespace

bool is_possible(const Type& type) {
  if (type.shape.size() > kMaxDims) return false;
  Shape largest;
  for (const Size& size : type.shape) {
    if (size.of_batch < 0 || size.fixed < 0) return false;
    largest.push_back(std::max(size.of_batch, size.fixed));
  }
  try {
    numel_of(largest);
  } catch (const ShapeError&) {
    return false;
  }
  return true;
}

void Importer::wrong(const std::string& what) const { LATHE_FAIL(DataError, name_, ": ", what); }

std::string Importer::fresh(std::string_view wanted) {
  std::string name(wanted.empty() ? "_" : wanted);
  for (char& c : name) {
    if (!is_name({&c, 1})) c = '_';
  }
  std::string unique = name;
  while (!taken_.emplace(unique, 0).second) unique = concat(name, "_", ++taken_[name]);
  return unique;
}

void Importer::define(std::string_view name, Binding binding) {
  if (!bindings_.emplace(name, std::move(binding)).second) {
    wrong(concat("\"", printable(name), "\" is defined twice"));
  }
}

Tensor Importer::tensor_in(const Binding& binding) const {
  return read_tensor(ProtobufReader(file_, name_).inside(binding.tensor), name_);
}

int Importer::value_of(Binding& binding) {
  if (binding.value >= 0) return binding.value;
  Value value{.name = fresh(binding.name), .origin = Origin::kConstant};
  if (!binding.tensor.empty()) {
    value.tensor = tensor_in(binding);
    if (is_floating(value.tensor.dtype())) value.origin = Origin::kParameter;
  } else if (binding.known) {
    std::vector<int64_t> numbers;
    for (const Size& size : binding.known->values) {
      if (size.of_batch != 0) {
        wrong(concat("\"", printable(binding.name),
                     "\" depends on the size of the batch, and is "
                     "used as a tensor"));
      }
      numbers.push_back(size.fixed);
    }
    Shape shape;
    if (!binding.known->is_scalar) shape.push_back(static_cast<int64_t>(numbers.size()));
    value.tensor = empty(shape, {.dtype = kI64});
    std::copy(numbers.begin(), numbers.end(), value.tensor.data<int64_t>());
    value.tensor = value.tensor.to(binding.known->dtype);
  } else {
    wrong(concat("\"", printable(binding.name), "\" is no tensor"));
  }
  value.type = jit::type_of(value.tensor);
  return binding.value = graph_.add(std::move(value));
}

void Importer::initialisers(ProtobufReader graph) {
  while (graph.next()) {
    if (graph.field() == 15) wrong("sparse tensors have no counterpart here");
    if (graph.field() != 5) continue;
    const std::string_view name = read_tensor_name(graph.message());
    define(name, {.tensor = graph.text(), .name = name});
  }
}

Size Importer::input_size(ProtobufReader in, size_t d, std::string_view of) {
  std::optional<int64_t> size;
  std::string_view symbol;
  while (in.next()) {
    if (in.field() == 1) size = in.integer();
    if (in.field() == 2) symbol = in.text();
  }
  if (size) {
    if (*size < 0) wrong(concat("input \"", printable(of), "\" has a negative size: ", *size));
    return {0, *size};
  }
  if (d > 0 || (has_batch_ && symbol != batch_name_)) {
    wrong(concat("input \"", printable(of), "\": size ", d, " (\"", printable(symbol),
                 "\") has no number; only the first one may vary, and for all inputs alike"));
  }
  has_batch_ = true;
  batch_name_ = symbol;
  return {1, 0};
}

Type Importer::input_type(ProtobufReader in, std::string_view of) {
  Type type;
  bool has_shape = false;
  std::optional<DType> dtype;
  while (in.next()) {
    if (in.field() != 1) continue;  // sequences and maps
    ProtobufReader tensor = in.message();
    while (tensor.next()) {
      if (tensor.field() == 1) dtype = dtype_of_number(tensor.integer());
      if (tensor.field() != 2) continue;
      has_shape = true;
      ProtobufReader shape = tensor.message();
      while (shape.next()) {
        if (shape.field() == 1) {
          type.shape.push_back(input_size(shape.message(), type.shape.size(), of));
        }
        if (type.shape.size() > kMaxDims) {
          wrong(concat("input \"", printable(of), "\" has more than ", kMaxDims, " dimensions"));
        }
      }
    }
  }
  if (!dtype || !has_shape) {
    wrong(concat("input \"", printable(of), "\" is no tensor with a dtype and a shape"));
  }
  type.dtype = *dtype;
  if (!is_possible(type)) {
    wrong(concat("input \"", printable(of), "\" cannot be ", to_text(type)));
  }
  return type;
}

void Importer::input(ProtobufReader in) {
  std::string_view name;
  std::optional<ProtobufReader> type;
  while (in.next()) {
    if (in.field() == 1) name = in.text();
    if (in.field() == 2) type = in.message();
  }
  // Until IR version 3, tensors of the file are inputs, too.
  if (const auto known = bindings_.find(name); known != bindings_.end()) {
    if (known->second.value < 0) return;
  }
  if (!type) wrong(concat("input \"", printable(name), "\" has no type"));
  const int value = graph_.add({fresh(name), Origin::kInput, input_type(*type, name), {}});
  graph_.inputs.push_back(value);
  define(name, {.value = value, .name = name});
}

void Importer::node(FileNode& node, int64_t opset) {
  Call call(*this, node, opset);
  if (!node.domain.empty() && node.domain != "ai.onnx") {
    call.refuse(concat("operators of \"", printable(node.domain), "\" have no counterpart here"));
  }
  const Operator* const found = find_operator(node.op);
  if (found == nullptr) call.refuse("this operator has no counterpart here");
  found->import(call);
  call.finish();
}

void Importer::output(ProtobufReader in) {
  std::string_view name;
  while (in.next()) {
    if (in.field() == 1) name = in.text();
  }
  const auto found = bindings_.find(name);
  if (found == bindings_.end()) {
    wrong(concat("output \"", printable(name), "\" is not computed"));
  }
  graph_.outputs.push_back(value_of(found->second));
}

Graph Importer::graph(ProtobufReader message, int64_t opset) {
  initialisers(message);
  for (ProtobufReader in = message; in.next();) {
    if (in.field() == 11) input(in.message());
  }
  for (ProtobufReader in = message; in.next();) {
    if (in.field() != 1) continue;
    FileNode read = read_node(in.message());
    node(read, opset);
  }
  for (ProtobufReader in = message; in.next();) {
    if (in.field() == 12) output(in.message());
  }
  if (graph_.outputs.empty()) wrong("the graph has no outputs");
  return std::move(graph_);
}

OnnxModel read(std::string_view bytes, std::string_view name, bool for_training) {
  constexpr int64_t kFirstOpset = 7;
  OnnxModel model;
  std::optional<ProtobufReader> graph;
  int64_t opset = 0;
  for (ProtobufReader in(bytes, name); in.next();) {
    if (in.field() == 7) graph = in.message();
    if (in.field() != 8 && in.field() != 14) continue;
    std::string_view text, value;
    int64_t version = 0;
    const bool is_opset = in.field() == 8;
    for (ProtobufReader entry = in.message(); entry.next();) {
      if (entry.field() == 1) text = entry.text();
      if (entry.field() == 2 && is_opset) version = entry.integer();
      if (entry.field() == 2 && !is_opset) value = entry.text();
    }
    if (is_opset && (text.empty() || text == "ai.onnx")) opset = version;
    if (!is_opset) model.metadata.emplace(text, value);
  }
  LATHE_CHECK(DataError, graph, name, ": there is no ONNX graph in this file");
  LATHE_CHECK(DataError, opset >= kFirstOpset, name, ": opset ", opset, " is before ", kFirstOpset);
  model.graph = Importer(bytes, name, for_training).graph(*graph, opset);
  remove_dead_code(model.graph);
  check_work(model.graph, name);
  return model;
}

std::string read_bytes(const std::string& path) {
  constexpr int64_t kMost = (int64_t{1} << 31) - 1;  // protobuf's own limit
  const InputFile file(path);                        // a pipe would be waited for
  std::string bytes = read_file(path, kMost);
  check_not_foreign(std::string_view(bytes).substr(0, kForeignBytes), path);
  return bytes;
}

}  // namespace lathe::jit::onnx

namespace lathe::jit {

OnnxModel load_onnx(std::string_view bytes, std::string_view name) {
  return onnx::read(bytes, name, /*for_training=*/false);
}

OnnxModel load_onnx(const std::string& path) { return load_onnx(onnx::read_bytes(path), path); }

}  // namespace lathe::jit
