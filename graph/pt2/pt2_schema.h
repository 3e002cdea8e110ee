// The program in a .pt2 file as data: what is left of its JSON. Names of values are numbers here:
// indices into Graph::names. Internal: program.h is what others use.
// ref: torch/_export/serde/schema.py of PyTorch 2.15, schema 8.20.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "lathe/core/dtype.h"
#include "lathe/core/shape.h"

namespace lathe::jit::pt2 {

struct Graph;

/// A value of the graph: a tensor, or a symbolic number.
struct Value {
  int number = -1;  // -1: none
};
/// An integer that is known, or the value `value`.
struct Integer {
  int64_t known = 0;
  Value value = {};
};
/// PyTorch's memory formats. kPreserve: that of the input.
enum class Format : uint8_t { kContiguous, kChannelsLast, kPreserve };
/// A device is not kept: a program runs where its parameters are.
struct AnyDevice {};
struct SubGraph {
  std::shared_ptr<Graph> graph;  // never null
};

/// What a call is given, or gives. std::monostate: None.
using Argument =
    std::variant<std::monostate, Value, std::vector<Value>, bool, Integer, std::vector<Integer>,
                 double, std::vector<double>, std::string, DType, Format, AnyDevice, SubGraph>;

struct NamedArgument {
  std::string name;  // of the operator's parameter: "kernel_size"
  Argument value;
};

/// A call of an operator.
struct Node {
  std::string target;                 // "torch.ops.aten.conv2d.default"
  std::string name;                   // "conv2d_1"
  std::vector<NamedArgument> inputs;  // those with their default value may be missing
  std::vector<Value> outputs;         // of all results, one after another; none: nobody reads it
  std::string module;                 // the path of the module that made the call: "layer1.0.conv1"
  std::string module_type;            // its class: "torch.nn.modules.conv.Conv2d"
  std::string stack;                  // of all modules whose calls hold it, as PyTorch writes it
  std::string line;                   // the innermost line of Python: "resnet.py:92, in forward"
  int scope = 0;                      // of Graph::scopes
};

/// A part of a program under torch.autocast or torch.no_grad.
struct Scope {
  enum class Kind : uint8_t { kNone, kAutocast, kGradients };
  Kind kind = Kind::kNone;
  bool on = false;
  DType dtype = DType::kBF16;  // of autocast
  int outer = 0;               // the scope around this one
};

struct Graph {
  std::vector<std::string> names;  // of the values
  std::vector<Value> inputs, outputs;
  std::vector<Node> nodes;           // each value is made before it is used
  std::vector<Scope> scopes = {{}};  // the first: no scope
};

/// Calls f(Value&, bool is_tensor) for each value in an argument.
template <class A, class F>
void for_values(A& argument, F&& f) {  // A: Argument, const or not
  bool is_tensor = true;
  const auto one = [&](auto& value) {
    if (value.number >= 0) f(value, is_tensor);
  };
  if (auto* const value = std::get_if<Value>(&argument)) one(*value);
  if (auto* const values = std::get_if<std::vector<Value>>(&argument)) {
    for (auto& value : *values) one(value);
  }
  is_tensor = false;
  if (auto* const number = std::get_if<Integer>(&argument)) one(number->value);
  if (auto* const numbers = std::get_if<std::vector<Integer>>(&argument)) {
    for (auto& number : *numbers) one(number.value);
  }
}

/// The node's argument for the operator's parameter `name`; null if it is missing.
const Argument* find_argument(const Node& node, std::string_view name);
/// The number of the value that the argument `name` is; -1 if the argument is missing or something
/// else.
int value_of(const Node& node, std::string_view name);

/// A size that is known, or a symbol: "s77".
using Size = std::variant<int64_t, std::string>;

struct TensorType {
  DType dtype = DType::kF32;
  std::vector<Size> shape = {};
  bool requires_grad = false;
};

enum class InputKind : uint8_t { kParameter, kBuffer, kConstant, kUser };

struct Input {
  InputKind kind = InputKind::kUser;
  Value value = {};
  std::string name;  // of a parameter, buffer or constant: "layer1.0.conv1.weight"
  TensorType type = {};
};

/// Sizes that the program was exported for. No bound: INT64_MAX.
struct Range {
  std::string symbol;
  int64_t least = 0, most = INT64_MAX;
};

struct ProgramText {
  std::string torch_version;  // "2.15.0+cu132"
  Graph graph;
  std::vector<Input> inputs;              // in the order of graph.inputs
  std::vector<std::string> output_names;  // keys of the dictionary that the program returns, or
                                          // the names of the values
  std::vector<TensorType> output_types;   // without sizes where the file does not say them
  std::vector<Range> ranges;
  std::map<std::string, int64_t> sizes;  // of the user's inputs at the export, by symbol
};

/// The program of `models/NAME.json`. Checked are the schema's version, that each value is made
/// once and before it is used, and that every argument is of a kind that is known here; not whether
/// the operators exist. `name` stands for the file in messages.
/// throws: DataError that names the file, the node and the value that does not fit.
/// Memory: at most 200 times the text.
ProgramText parse_program(std::string_view json, std::string_view name);

/// Where the values of a parameter or constant are in the archive.
struct Payload {
  std::string name;   // "layer1.0.conv1.weight"
  std::string entry;  // "weight_0"
  DType dtype = DType::kF32;
  Shape shape;
  Strides strides;
  int64_t offset = 0;  // in elements
};

/// The table of `model_weights_config.json` or `model_constants_config.json`.
/// throws: DataError.
std::vector<Payload> parse_payloads(std::string_view json, std::string_view name);

}  // namespace lathe::jit::pt2
