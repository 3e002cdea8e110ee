// fuse_pointwise: pointwise ops of one shape become a group, which Graph::run takes piece by piece.
// What lies between two of them and reads neither is moved before the group.
// Contract: graph/passes.h.
#include <algorithm>
#include <unordered_set>
#include <utility>
#include <vector>

#include "lathe/graph/op_table.h"
#include "lathe/graph/passes.h"
#include "lathe/graph/work.h"

namespace lathe::jit {

namespace {

class Fusion {
 public:
  explicit Fusion(Graph& graph) : graph_(graph), written_(written_values(graph)) {}

  void run() {
    for (Node& node : std::exchange(graph_.nodes, {})) {
      node.group = 0;
      if (joins(node) && (open_.empty() || shape(node) == shape(open_.front()))) {
        add(std::move(node));
      } else if (reads_open_values(node)) {
        close();
        // It may itself begin a group: of another shape, behind this one.
        if (joins(node)) {
          add(std::move(node));
        } else {
          graph_.nodes.push_back(std::move(node));
        }
      } else {
        graph_.nodes.push_back(std::move(node));  // before the group, whose values it does not read
      }
    }
    close();
  }

 private:
  const std::vector<Size>& shape(const Node& node) const {
    return graph_.values[static_cast<size_t>(node.output)].type.shape;
  }

  bool reads_open_values(const Node& node) const {
    return std::ranges::any_of(node.inputs, [&](int input) { return made_.contains(input); });
  }

  // A group saves its inputs for the backward pass, so it must not read what a node writes.
  bool joins(const Node& node) const { return node.op->pointwise && !reads_any(node, written_); }

  void add(Node node) {
    made_.insert(node.output);
    open_.push_back(std::move(node));
  }

  void close() {
    if (open_.size() > 1) ++groups_;
    for (Node& node : open_) {
      if (open_.size() > 1) node.group = groups_;
      graph_.nodes.push_back(std::move(node));
    }
    open_.clear();
    made_.clear();
  }

  Graph& graph_;
  const std::vector<bool> written_;
  std::vector<Node> open_;        // the group that nodes still join, not yet in the graph
  std::unordered_set<int> made_;  // its values
  int groups_ = 0;
};

}  // namespace

void fuse_pointwise(Graph& graph) { Fusion(graph).run(); }

}  // namespace lathe::jit
