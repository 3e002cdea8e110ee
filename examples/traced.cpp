// A model that leaves its class behind: traced to a graph, printed, optimised, saved, and run from
// the file. main() knows nothing of Net.
//
//   traced [FILE]      FILE: the graph's file, net.lathe by default
#include <lathe/lathe.h>

#include <iostream>
#include <string>

namespace jit = lathe::jit;
namespace nn = lathe::nn;
using lathe::Tensor;

namespace {

struct Net : nn::Module {
  nn::Conv2d conv{*this, "conv", 3, 16, {.kernel = 3, .pad = 1, .bias = false}};
  nn::BatchNorm2d bn{*this, "bn", 16};
  nn::Linear fc{*this, "fc", 16, 10};

  Tensor forward(const Tensor& x) override {
    const Tensor h = bn.relu(conv(x));
    return fc(h.mean({2, 3}));
  }
};

/// Writes the graph of a new Net to `path`.  → its scores for x
Tensor export_net(const std::string& path, const Tensor& x) {
  Net net;
  net(lathe::randn({8, 3, 32, 32}));  // moves the statistics of the batch norm
  net.eval();
  jit::Graph graph = jit::trace(net, x);
  graph.print(std::cout);
  std::cout << "equal bits: " << (lathe::equal(graph(x), net(x)) ? "yes" : "no") << "\n\n";

  jit::optimize_for_inference(graph);
  graph.print(std::cout);
  jit::save(graph, path);
  return net(x);
}

}  // namespace

int main(int argc, char** argv) {
  lathe::manual_seed(1);
  const lathe::NoGrad off;
  const Tensor x = lathe::randn({2, 3, 32, 32});
  const std::string path = argc > 1 ? argv[1] : "net.lathe";
  const Tensor expected = export_net(path, x);

  const jit::Graph graph = jit::load(path);
  const Tensor scores = graph(x);
  const double error = (scores - expected).abs().max().item<double>();
  std::cout << "\nfrom the file: " << scores.shape() << ", for a batch of 5 "
            << graph(lathe::randn({5, 3, 32, 32})).shape() << "\n"
            << (error < 1e-5 ? "all right" : "wrong") << "\n";
}
