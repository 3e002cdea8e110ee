// Chapter 2: the tape. Prints the graph that a small program records, runs the backward pass by
// hand as autograd/engine.cpp does, and compares with backward().
#include <lathe/autograd/meta.h>
#include <lathe/autograd/node.h>
#include <lathe/lathe.h>

#include <iostream>
#include <map>
#include <string>

using lathe::Tensor;
using lathe::autograd::Edge;
using lathe::autograd::Node;

static std::map<const lathe::TensorImpl*, std::string> leaf_names;
static uint64_t first_number = 0;  // numbers go on from program start; ours begin at 1

static std::string name(const Edge& edge) {
  if (edge.node) return lathe::concat(edge.node->name, "#", edge.node->number - first_number);
  return edge.leaf ? leaf_names.at(edge.leaf.get()) : "nobody";
}

/// The engine in one page: a queue of gradients, the newest op first.
static std::map<std::string, Tensor> backward_by_hand(const Tensor& loss) {
  std::map<std::string, Tensor> leaves;
  std::map<uint64_t, std::pair<lathe::autograd::NodePtr, Tensor>> queue;  // by number
  const auto deliver = [&](const Edge& edge, const Tensor& gradient) {
    std::cout << "    " << gradient.item<float>() << " to " << name(edge) << '\n';
    Tensor& sum = edge.node ? queue[edge.node->number].second : leaves[name(edge)];
    if (edge.node) queue[edge.node->number].first = edge.node;
    sum = sum.defined() ? sum + gradient : gradient;
  };
  const lathe::NoGrad off;
  std::cout << "begin with dloss/dloss\n";
  deliver(lathe::autograd::gradient_edge(loss), lathe::ones({}));
  while (!queue.empty()) {
    const auto [node, dy] = queue.rbegin()->second;  // the largest number
    queue.erase(node->number);
    std::cout << "run " << node->name << '#' << node->number - first_number << " with dy "
              << dy.item<float>() << '\n';
    const lathe::Tensors dx = node->run({dy}, lathe::autograd::Needs(node->edges));
    for (size_t i = 0; i < node->edges.size(); ++i)
      if (node->edges[i].wanted()) deliver(node->edges[i], dx[i]);
  }
  return leaves;
}

int main() {
  const Tensor w = lathe::tensor(3.f), x = lathe::tensor(2.f), b = lathe::tensor(1.f);
  w.requires_grad_();
  b.requires_grad_();
  leaf_names = {{&w.impl(), "w"}, {&b.impl(), "b"}};

  const Tensor h = w * x + b;  // 7
  const Tensor loss = h * h + h;
  first_number = lathe::autograd::gradient_edge(w * x).node->number - 5;  // four nodes and this one

  std::cout << "loss " << loss.item<float>() << ", made by " << loss.grad_fn()
            << "; edges of its op:";
  for (const Edge& edge : loss.impl().meta->grad_fn->edges) std::cout << ' ' << name(edge);
  std::cout << "\n\n";
  const auto by_hand = backward_by_hand(loss);
  loss.backward();
  std::cout << "\nby hand:    dw " << by_hand.at("w").item<float>() << ", db "
            << by_hand.at("b").item<float>() << "\nbackward(): dw " << w.grad().item<float>()
            << ", db " << b.grad().item<float>() << '\n';
  std::cout << "x has a gradient: " << (x.grad().defined() ? "yes" : "no, it does not require one")
            << '\n';
}
