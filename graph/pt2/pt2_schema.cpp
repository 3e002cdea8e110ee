// The JSON of a program; Reader: names to numbers.
#include "lathe/graph/pt2/pt2_schema.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "lathe/core/error.h"
#include "lathe/core/format.h"
#include "lathe/core/formats/safetensors_header.h"
#include "lathe/graph/pt2/pt2_json.h"

namespace lathe::jit::pt2 {

namespace {

using safetensors::in_quotes;

constexpr int kMajor = 8;
constexpr int kMostNested = 8;  // sub-graphs in sub-graphs

/// "s77" of "Symbol('s77', positive=True, integer=True)"; an expression as it is.
Size size_of_tensor(const Json& value, const std::string& what) {
  const auto [kind, inner] = alternative(value, what);
  if (kind == "as_int") return integer(*inner, what);
  if (kind != "as_expr") wrong(what, concat("has a size of the kind ", in_quotes(kind)));
  const std::string& expression = text(member(*inner, "expr_str", what), what);
  constexpr std::string_view kStart = "Symbol('";
  if (!expression.starts_with(kStart)) return expression;
  const size_t end = expression.find('\'', kStart.size());
  return expression.substr(kStart.size(), end == std::string::npos ? end : end - kStart.size());
}

/// The sizes that a user's input had at the export, where they are symbols.
void read_sizes(const Json& meta, const TensorType& type, ProgramText& out,
                const std::string& what) {
  size_t d = 0;
  for (const Json& size : meta.at("sizes")) {
    const auto* const symbol = std::get_if<std::string>(&type.shape[d++]);
    const Json* const expression = find(size, "as_expr");
    const Json* const hint = expression == nullptr ? nullptr : find(*expression, "hint");
    const Json* const known = hint == nullptr ? nullptr : find(*hint, "as_int");
    if (symbol != nullptr && known != nullptr) out.sizes.emplace(*symbol, integer(*known, what));
  }
}

TensorType tensor_type(const Json& meta, const std::string& what) {
  TensorType out{.dtype = dtype(member(meta, "dtype", what), what)};
  out.requires_grad = boolean(member(meta, "requires_grad", what), what);
  for (const Json& size : array(meta, "sizes", what)) {
    out.shape.push_back(size_of_tensor(size, what));
  }
  if (integer(member(meta, "layout", what), what) != 7) wrong(what, "is a sparse tensor");
  return out;
}

/// What the metadata says of a node's place in the model and in Python.
void read_metadata(const Json& metadata, Node& node, const std::string& what) {
  if (const Json* const stack = find(metadata, "nn_module_stack"); stack != nullptr) {
    // "L__self__,,models.ResNet;L__self__conv1,conv1,torch.nn.modules.conv.Conv2d"
    std::string_view last = text(*stack, what);
    last = last.substr(last.rfind(';') + 1);
    const size_t type = last.rfind(','), path = last.find(',');
    // PyTorch's mark of a node that no module made.
    const bool has_none = last.starts_with("_empty_nn_module_stack");
    if (type != std::string_view::npos && path < type && !has_none) {
      node.module = last.substr(path + 1, type - path - 1);
      node.module = node.module.substr(0, node.module.find('@'));  // "conv@1": its second call
      node.module_type = last.substr(type + 1);
      node.stack = text(*stack, what);
    }
  }
  if (const Json* const trace = find(metadata, "stack_trace"); trace != nullptr) {
    // File "…/resnet.py", line 285, in forward\n    return self._forward_impl(x)\n  File …
    std::string_view last = text(*trace, what);
    const size_t begin = last.rfind("File \"");
    if (begin == std::string_view::npos) return;
    last = last.substr(begin + 6);
    last = last.substr(0, last.find('\n'));
    const size_t quote = last.find('"'), slash = last.substr(0, quote).rfind('/');
    if (slash != std::string_view::npos) last = last.substr(slash + 1);
    node.line = last;
    std::erase(node.line, '"');
  }
}

/// Gives the names of one graph their numbers.
class Reader {
 public:
  Reader(Graph& graph, std::string file, int depth)
      : graph_(graph), file_(std::move(file)), depth_(depth) {
    if (depth > kMostNested) wrong(file_, "has sub-graphs in sub-graphs without end");
  }

  Value define(const std::string& name, const std::string& what) {
    const Value value{static_cast<int>(graph_.names.size())};
    if (!numbers_.emplace(name, value.number).second) {
      wrong(what, concat("makes ", in_quotes(name), ", which is there already"));
    }
    graph_.names.push_back(name);
    return value;
  }

  Value use(const Json& holder, const std::string& what) const {
    const std::string& name = text(member(holder, "name", what), what);
    return use_name(name, what);
  }

  Value use_name(const std::string& name, const std::string& what) const {
    const auto found = numbers_.find(name);
    if (found == numbers_.end()) {
      wrong(what, concat("uses ", in_quotes(name), ", which is not made before it"));
    }
    return {found->second};
  }

  Integer symbolic(const Json& holder, const std::string& what) const {
    const auto [kind, inner] = alternative(holder, what);
    if (kind == "as_name") return {0, use_name(text(*inner, what), what)};
    if (kind == "as_int") return {integer(*inner, what), {}};
    if (kind == "as_bool") return {boolean(*inner, what), {}};
    wrong(what, concat("is of the kind ", in_quotes(kind), ", which is not known here"));
  }

  Argument argument(const Json& holder, const std::string& what) const;
  void outputs(const Json& list, Node& node, const std::string& what);
  void nodes(const Json& list);
  void sub_graph(const Json& graph);

  const std::string& file() const { return file_; }

 private:
  template <class T, class Read>
  static std::vector<T> list_of(const Json& list, const std::string& what, Read&& read) {
    if (!list.is_array()) wrong(what, "is no list");
    std::vector<T> out;
    for (const Json& item : list) out.push_back(read(item));
    return out;
  }

  Graph& graph_;
  std::string file_;
  int depth_;
  std::unordered_map<std::string, int> numbers_;
};

Argument Reader::argument(const Json& holder, const std::string& what) const {
  const auto [kind, inner] = alternative(holder, what);
  const Json& value = *inner;
  const auto tensor = [&](const Json& item) { return use(item, what); };
  const auto maybe = [&](const Json& item) {
    const auto [which, name] = alternative(item, what);
    return which == "as_none" ? Value{} : use(*name, what);
  };
  const auto number = [&](const Json& item) { return Integer{integer(item, what), {}}; };
  const auto truth = [&](const Json& item) { return Integer{boolean(item, what), {}}; };
  const auto symbol = [&](const Json& item) { return symbolic(item, what); };
  if (kind == "as_none") return {};
  if (kind == "as_tensor") return use(value, what);
  if (kind == "as_tensors") return list_of<Value>(value, what, tensor);
  if (kind == "as_optional_tensors") return list_of<Value>(value, what, maybe);
  if (kind == "as_optional_tensor") {
    const Value given = maybe(value);
    return given.number < 0 ? Argument{} : Argument{given};
  }
  if (kind == "as_int") return number(value);
  if (kind == "as_ints") return list_of<Integer>(value, what, number);
  if (kind == "as_bools") return list_of<Integer>(value, what, truth);
  if (kind == "as_sym_int" || kind == "as_sym_bool") return symbolic(value, what);
  if (kind == "as_sym_ints" || kind == "as_sym_bools") return list_of<Integer>(value, what, symbol);
  if (kind == "as_sym_float") {
    const auto [which, number_of] = alternative(value, what);
    if (which == "as_float") return real(*number_of, what);
    return symbolic(value, what);
  }
  if (kind == "as_float") return real(value, what);
  if (kind == "as_floats") {
    return list_of<double>(value, what, [&](const Json& item) { return real(item, what); });
  }
  if (kind == "as_bool") return boolean(value, what);
  if (kind == "as_string" || kind == "as_operator") return text(value, what);
  if (kind == "as_scalar_type") return dtype(value, what);
  if (kind == "as_memory_format") return format(value, what);
  if (kind == "as_device" || kind == "as_layout") return AnyDevice{};
  if (kind == "as_graph") {
    auto graph = std::make_shared<Graph>();
    Reader inside(*graph, file_, depth_ + 1);
    inside.sub_graph(member(value, "graph", what));
    return SubGraph{std::move(graph)};
  }
  wrong(what, concat("is of the kind ", in_quotes(kind), ", which has no counterpart here"));
}

void Reader::outputs(const Json& list, Node& node, const std::string& what) {
  const auto add = [&](const Json& holder) {
    node.outputs.push_back(define(text(member(holder, "name", what), what), what));
  };
  for (const Json& holder : list) {
    const auto [kind, inner] = alternative(holder, what);
    if (kind == "as_tensor") {
      add(*inner);
    } else if (kind == "as_tensors") {
      if (!inner->is_array()) wrong(what, "has a result that is no list");
      for (const Json& item : *inner) add(item);
    } else if (kind == "as_optional_tensor" && inner->contains("as_tensor")) {
      add((*inner)["as_tensor"]);
    } else if (kind == "as_none" || kind == "as_optional_tensor") {
      node.outputs.push_back({});
    } else if (kind == "as_sym_int" || kind == "as_sym_float" || kind == "as_sym_bool") {
      node.outputs.push_back(define(text(member(*inner, "as_name", what), what), what));
    } else {
      wrong(what, concat("has a result of the kind ", in_quotes(kind)));
    }
  }
}

void Reader::nodes(const Json& list) {
  for (const Json& item : list) {
    Node& node = graph_.nodes.emplace_back();
    const std::string in_file = concat(file_, ": node ", graph_.nodes.size() - 1);
    node.target = text(member(item, "target", in_file), in_file);
    if (const Json* const name = find(item, "name"); name != nullptr) {
      node.name = text(*name, in_file);
    }
    const std::string what = concat(in_file, " (", in_quotes(node.target), ")");
    for (const Json& input : array(item, "inputs", what)) {
      const std::string& name = text(member(input, "name", what), what);
      const std::string which = concat(what, ": argument ", in_quotes(name));
      node.inputs.push_back({name, argument(member(input, "arg", what), which)});
    }
    outputs(array(item, "outputs", what), node, what);
    if (const Json* const metadata = find(item, "metadata"); metadata != nullptr) {
      read_metadata(*metadata, node, what);
    }
  }
}

void Reader::sub_graph(const Json& graph) {
  const std::string what = file_ + ": a sub-graph";
  for (const Json& input : array(graph, "inputs", what)) {
    const auto [kind, inner] = alternative(input, what);
    const char* const key = kind == "as_tensor" ? "name" : "as_name";
    graph_.inputs.push_back(define(text(member(*inner, key, what), what), what));
  }
  nodes(array(graph, "nodes", what));
  for (const Json& output : array(graph, "outputs", what)) {
    const auto [kind, inner] = alternative(output, what);
    if (kind == "as_sym_int") {
      graph_.outputs.push_back(symbolic(*inner, what).value);
      if (graph_.outputs.back().number >= 0) continue;
    } else if (kind == "as_tensor") {
      graph_.outputs.push_back(use(*inner, what));
      continue;
    }
    wrong(what, "gives something else than a tensor or a symbolic size");
  }
}

/// One of signature.input_specs.
Input read_input(const Json& spec, const Json& types, Reader& reader, ProgramText& program) {
  const std::string what = reader.file() + ": an input";
  const auto [kind, inner] = alternative(spec, what);
  Input out;
  const char* name_key = nullptr;
  if (kind == "parameter") {
    out.kind = InputKind::kParameter;
    name_key = "parameter_name";
  } else if (kind == "buffer") {
    const bool persistent = boolean(member(*inner, "persistent", what), what);
    out.kind = persistent ? InputKind::kBuffer : InputKind::kConstant;
    name_key = "buffer_name";
  } else if (kind == "tensor_constant") {
    out.kind = InputKind::kConstant;
    name_key = "tensor_constant_name";
  } else if (kind != "user_input") {
    wrong(what, concat("is of the kind ", in_quotes(kind),
                       ", which has no counterpart here; export the model for tensors"));
  }
  const Json* arg = &member(*inner, "arg", what);
  if (out.kind == InputKind::kUser) {
    const auto [type, tensor] = alternative(*arg, what);
    if (type != "as_tensor") {
      wrong(what, concat("is of the kind ", in_quotes(type),
                         ", not a tensor; export the model with this argument fixed: give "
                         "torch.export.export() its value, and no dynamic shape for it"));
    }
    arg = tensor;
  }
  const std::string& name = text(member(*arg, "name", what), what);
  out.name = name_key == nullptr ? name : text(member(*inner, name_key, what), what);
  const std::string which = concat(reader.file(), ": input ", in_quotes(name));
  out.value = reader.define(name, which);
  const Json& meta = member(types, name.c_str(), which);
  out.type = tensor_type(meta, which);
  if (out.kind == InputKind::kUser) read_sizes(meta, out.type, program, which);
  return out;
}

/// The keys of the dictionary that a program returns, if its out_spec is one of tensors alone.
/// throws: DataError if a text in it is nested too deep.
std::vector<std::string> output_keys(const Json& module, size_t count, const std::string& file) {
  const Json* const calls = find(module, "module_call_graph");
  if (calls == nullptr || !calls->is_array() || calls->empty()) return {};
  const Json* const signature = find((*calls)[0], "signature");
  const Json* const spec = signature == nullptr ? nullptr : find(*signature, "out_spec");
  if (spec == nullptr || !spec->is_string()) return {};
  const auto parse = [&](const Json& value) {
    const std::string& json = value.get_ref<const std::string&>();
    check_depth(json, concat(file, ": out_spec"));
    return Json::parse(json, nullptr, false);
  };
  const Json tree = parse(*spec);
  if (!tree.is_array() || tree.size() != 2) return {};
  const Json* const children = find(tree[1], "children_spec");
  const Json* const context = find(tree[1], "context");
  if (children == nullptr || context == nullptr || !context->is_string()) return {};
  if (children->size() != count) return {};
  Json keys = parse(*context);
  if (keys.is_array() && keys.size() == 2 && keys[1].is_array()) keys = Json(keys[1]);
  if (!keys.is_array() || keys.size() != count) return {};
  std::vector<std::string> out;
  for (const Json& key : keys) {
    if (!key.is_string()) return {};
    out.push_back(key.get<std::string>());
  }
  return out;
}

void read_outputs(const Json& module, const Json& specs, const Json& types, const Reader& reader,
                  ProgramText& out) {
  for (const Json& spec : specs) {
    const std::string what = reader.file() + ": an output";
    const auto [kind, inner] = alternative(spec, what);
    if (kind != "user_output" && kind != "loss_output") {
      wrong(what, concat("is of the kind ", in_quotes(kind),
                         "; export the model without run_decompositions()"));
    }
    const Json* arg = &member(*inner, "arg", what);
    if (kind == "user_output") {
      const auto [type, tensor] = alternative(*arg, what);
      if (type == "as_none") continue;
      if (type != "as_tensor") wrong(what, concat("is of the kind ", in_quotes(type)));
      arg = tensor;
    }
    out.graph.outputs.push_back(reader.use(*arg, what));
    const std::string& name = text(member(*arg, "name", what), what);
    out.output_names.push_back(name);
    const Json* const type = find(types, name.c_str());
    out.output_types.push_back(type == nullptr ? TensorType() : tensor_type(*type, what));
  }
  if (out.graph.outputs.empty()) wrong(reader.file(), "has a program without results");
  const auto keys = output_keys(module, out.output_names.size(), reader.file());
  if (!keys.empty()) out.output_names = keys;
}

}  // namespace

const Argument* find_argument(const Node& node, std::string_view name) {
  const auto found = std::ranges::find(node.inputs, name, &NamedArgument::name);
  return found == node.inputs.end() ? nullptr : &found->value;
}

int value_of(const Node& node, std::string_view name) {
  const Argument* const argument = find_argument(node, name);
  const auto* const value = argument == nullptr ? nullptr : std::get_if<Value>(argument);
  return value == nullptr ? -1 : value->number;
}

ProgramText parse_program(std::string_view json, std::string_view name) {
  const std::string file = concat(name, ": the program");
  const Json root = parse_json(json, file);
  const Json& version = member(root, "schema_version", file);
  const int64_t major = integer(member(version, "major", file), file);
  ProgramText out;
  if (const Json* const torch = find(root, "torch_version"); torch != nullptr) {
    out.torch_version = text(*torch, file);
  }
  LATHE_CHECK(DataError, major == kMajor, file, " has schema ", major, " (PyTorch ",
              in_quotes(out.torch_version), "), but only schema ", kMajor,
              " can be read: export the model with PyTorch 2.8 to 2.15");
  const Json& module = member(root, "graph_module", file);
  const Json &graph = member(module, "graph", file), &signature = member(module, "signature", file);
  const Json& types = member(graph, "tensor_values", file);
  Reader reader(out.graph, file, 0);
  for (const Json& spec : array(signature, "input_specs", file)) {
    // Numbers, texts and None are written into the graph where they are used.
    if (spec.is_object() && spec.contains("constant_input")) continue;
    out.inputs.push_back(read_input(spec, types, reader, out));
    out.graph.inputs.push_back(out.inputs.back().value);
  }
  reader.nodes(array(graph, "nodes", file));
  read_outputs(module, array(signature, "output_specs", file), types, reader, out);
  if (const Json* const ranges = find(root, "range_constraints"); ranges != nullptr) {
    for (const auto& [symbol, range] : ranges->items()) {
      Range& bound = out.ranges.emplace_back(Range{symbol});
      if (const Json* const least = find(range, "min_val")) bound.least = integer(*least, file);
      if (const Json* const most = find(range, "max_val")) bound.most = integer(*most, file);
    }
  }
  return out;
}

}  // namespace lathe::jit::pt2
