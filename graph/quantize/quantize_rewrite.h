// What quantize.cpp and quantize_rewrite.cpp share: the layers of a graph, and the new graph.
#pragma once

#include <string>
#include <vector>

#include "lathe/graph/graph.h"

namespace lathe::jit {

/// The scale and dtype of a value's integers.
struct Quantum {
  double scale = 0;  // 0: there is none
  DType dtype = DType::kI8;
};

/// True for a node that quantised ops can compute: a convolution or linear layer with filters of
/// the program.
bool is_layer(const Graph& graph, const Node& node);

/// The values whose integers would be read, if the marked nodes were quantised.
std::vector<bool> wanted_integers(const Graph& graph, const std::vector<bool>& marked);

/// A quantised graph, and where values of the old one are in it.
struct Rewritten {
  Graph graph;
  std::vector<int> nodes;      // of an old node: the layer's new node, or -1
  std::vector<int> results;    // of an old node: the old value that its new node computes
  std::vector<int> values;     // of an old value: its number as integers, or else as f32, or -1
  std::vector<double> scales;  // of an old value: that of its integers
};

/// The graph with the marked nodes quantised. `quanta`: of each value; used where
/// wanted_integers().
/// throws: ValueError for a filter that is not finite.
Rewritten rewrite(const Graph& graph, const std::vector<bool>& marked,
                  const std::vector<Quantum>& quanta);

}  // namespace lathe::jit
