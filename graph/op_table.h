// The ops that a graph can hold: what they are called with, and how to call them. op_table.cpp and
// op_table_*.cpp: one line per op; op_arguments.h: how arguments become attributes.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/core/hooks/range.h"
#include "lathe/core/tensor.h"
#include "lathe/graph/graph.h"
#include "lathe/ops/autocast.h"

namespace lathe::jit {

/// What an attribute of an op may be: the alternatives of Attribute, and `kMaybeInteger`, where the
/// word "none" says that there is no number.
enum class AttributeKind : uint8_t { kBool, kInteger, kReal, kList, kWord, kMaybeInteger, kNumber };

struct AttributeName {
  std::string name;
  AttributeKind kind;
};

/// One op, or one overload of an op: then the names are equal and the attributes differ.
struct Op {
  std::string name;
  int inputs;          // tensors that its profile::OpRange lists; -1: any number
  int option_tensors;  // further inputs: the tensors in its options, a bias for instance; -1: any
  std::vector<AttributeName> attributes;

  /// Arguments → attributes, and the tensors in them. False if the call is of another overload.
  std::function<bool(std::span<const profile::Argument>, std::vector<Attribute>&, Tensors&)> read;
  /// Calls the op with attributes in which every Size is fixed.
  /// throws: what the op throws; ValueError for a word that it does not know.
  std::function<Tensor(const Tensors& inputs, const std::vector<Attribute>&)> call;

  // Each element of the result depends on the elements at its place of the inputs, which are
  // broadcast, and on nothing else.
  bool pointwise = false;

  // To what the op casts its inputs under Autocast (ops/README.md, column amp); nothing: it takes
  // them as they are.
  std::optional<amp::Policy> amp = {};

  // Inputs that a call writes into, as batch norm writes its running statistics in training.
  std::vector<int> writes = {};
  bool draws = false;  // a call takes numbers from the default generator

  /// True if a call does more than make its result. Every run of a graph makes such a call, in its
  /// place among those that touch the same tensors or draw numbers, whether or not anything reads
  /// the result. A graph that stands in for a function has such nodes (compile.h), and a text may;
  /// trace() and files refuse them.
  bool has_effects() const { return draws || !writes.empty(); }

  /// True if a node of this op can have this many inputs.
  bool takes(size_t count) const;
};

/// All of them, sorted by name.
LATHE_API std::span<const Op> all_ops();
/// The overloads of an op; none if graphs cannot hold it.
std::span<const Op> find_ops(std::string_view name);
/// The overload with these attributes, by name; null if there is none.
const Op* find_op(std::string_view name, std::span<const std::string> attributes);

}  // namespace lathe::jit
