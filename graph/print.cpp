// A graph as text, which parse.cpp reads, and as a picture for Graphviz. Contract: graph.h.
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <system_error>

#include "lathe/core/format.h"
#include "lathe/graph/graph.h"
#include "lathe/graph/op_table.h"

namespace lathe::jit {

namespace {

template <class T>
std::string shortest(T value) {
  std::array<char, 64> buffer{};
  const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  return {buffer.data(), error == std::errc() ? end : buffer.data()};
}

/// The number in a text of shortest(). Unlike strtod() it does not ask the locale for the point.
double number_in(const std::string& text) {
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

/// With a point, an exponent or letters in it, so that it is no integer.
std::string real_text(double value) {
  const auto narrow = static_cast<float>(value);
  std::string text = shortest(value);
  if (static_cast<double>(narrow) == value) {  // the shorter text, if it means the same
    const std::string short_text = shortest(narrow);
    if (number_in(short_text) == value) text = short_text;
  }
  return text.find_first_of(".enfa") == std::string::npos ? text + ".0" : text;
}

std::string text_of(const Size& size) {
  if (size.of_batch == 0) return std::to_string(size.fixed);
  return size.of_batch == 1 ? "N" : concat(size.of_batch, "*N");
}

std::string text_of(const std::vector<Size>& sizes) {
  std::string text;
  for (const Size& size : sizes) text += (text.empty() ? "" : ",") + text_of(size);
  return "[" + text + "]";
}

std::string reference(const Graph& graph, int number) {
  if (number < 0) return "none";
  const Value& value = graph.values[static_cast<size_t>(number)];
  const bool local = value.origin == Origin::kInput || value.origin == Origin::kNode;
  return (local ? "%" : "@") + value.name;
}

/// The value of a constant of one element, if text keeps it exactly.
std::optional<std::string> inline_value(const Tensor& t) {
  if (!t.defined() || t.numel() != 1) return std::nullopt;
  const Scalar value = t.detach().item_scalar();
  if (t.dtype() == kBool) return value.to<bool>() ? "true" : "false";
  if (!value.is_floating()) return std::to_string(value.to<int64_t>());
  const auto real = value.to<double>();
  if (std::isnan(real)) return std::nullopt;
  if (t.dtype() != kF32) return real_text(real);
  // The text of an f32 need not be that of the same number as f64.
  const std::string text = shortest(static_cast<float>(real));
  const auto read = static_cast<float>(number_in(text));
  if (read != static_cast<float>(real)) return real_text(real);
  return text.find_first_of(".enfa") == std::string::npos ? text + ".0" : text;
}

const char* word_of(Origin origin) {
  switch (origin) {
    case Origin::kInput: return "input";
    case Origin::kParameter: return "param";
    case Origin::kBuffer: return "buffer";
    case Origin::kConstant: return "const";
    case Origin::kNode: break;
  }
  return "";
}

std::string call_text(const Graph& graph, const Node& node) {
  std::string arguments;
  const auto add = [&](const std::string& text) {
    arguments += (arguments.empty() ? "" : ", ") + text;
  };
  for (const int input : node.inputs) add(reference(graph, input));
  for (size_t i = 0; i < node.attributes.size(); ++i) {
    add(node.op->attributes[i].name + "=" + to_text(node.attributes[i]));
  }
  return node.op->name + "(" + arguments + ")";
}

void append_definitions(std::string& out, const Graph& graph, const std::vector<int>& uses) {
  for (const int input : graph.inputs) {
    const Value& value = graph.values[static_cast<size_t>(input)];
    out += concat("input ", reference(graph, input), ": ", to_text(value.type), "\n");
  }
  for (size_t i = 0; i < graph.values.size(); ++i) {
    const Value& value = graph.values[i];
    if (value.origin == Origin::kInput || value.origin == Origin::kNode || uses[i] == 0) continue;
    out += concat(word_of(value.origin), " ", reference(graph, static_cast<int>(i)), ": ",
                  to_text(value.type));
    if (value.origin == Origin::kConstant) {
      if (const auto number = inline_value(value.tensor)) out += " = " + *number;
    }
    out += "\n";
  }
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

}  // namespace

std::string to_text(const Type& type) {
  return std::string(name_of(type.dtype)) + text_of(type.shape);
}

std::string to_text(const Attribute& attribute) {
  if (const auto* truth = std::get_if<bool>(&attribute)) return *truth ? "true" : "false";
  if (const auto* size = std::get_if<Size>(&attribute)) return text_of(*size);
  if (const auto* real = std::get_if<double>(&attribute)) return real_text(*real);
  if (const auto* list = std::get_if<std::vector<Size>>(&attribute)) return text_of(*list);
  return concat('"', std::get<std::string>(attribute), '"');
}

std::string Graph::text() const {
  std::string out = "lathe graph 1\n";
  append_definitions(out, *this, count_uses(*this));
  for (const Node& node : nodes) {
    const Value& value = values[static_cast<size_t>(node.output)];
    out += concat(reference(*this, node.output), ": ", to_text(value.type), " = ",
                  call_text(*this, node));
    if (node.group != 0) out += concat(" {", node.group, "}");
    if (!node.place.empty()) out += "  # " + node.place;
    out += "\n";
  }
  std::string results;
  for (const int output : outputs) {
    results += concat(results.empty() ? "" : ", ", reference(*this, output));
  }
  return out + "output " + results + "\n";
}

std::string Graph::dot() const {
  std::string out = "digraph graph {\n  node [shape=box];\n";
  const auto line = [&](int from, const std::string& to) {
    out += concat("  v", from, " -> ", to, ";\n");
  };
  const std::vector<int> uses = count_uses(*this);
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i].origin == Origin::kNode || (uses[i] == 0 && values[i].origin != Origin::kInput)) {
      continue;
    }
    out += concat("  v", i, " [shape=ellipse, label=\"",
                  escaped(reference(*this, static_cast<int>(i))), "\\n", to_text(values[i].type),
                  "\"];\n");
  }
  for (const Node& node : nodes) {
    const Value& value = values[static_cast<size_t>(node.output)];
    out +=
        concat("  v", node.output, " [label=\"", escaped(node.op->name), "\\n", to_text(value.type),
               node.place.empty() ? "" : "\\n", escaped(node.place), "\"];\n");
    for (const int input : node.inputs) {
      if (input >= 0) line(input, concat("v", node.output));
    }
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    out += concat("  out", i, " [shape=ellipse, label=\"output\"];\n");
    line(outputs[i], concat("out", i));
  }
  return out + "}\n";
}

}  // namespace lathe::jit
