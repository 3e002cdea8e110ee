// Chapter 12: from a function to one kernel: trace, find the group, write the kernel's text.
#include <lathe/graph/fused/kernel_source.h>
#include <lathe/graph/passes.h>
#include <lathe/graph/trace.h>
#include <lathe/lathe.h>

#include <chrono>
#include <iostream>

namespace jit = lathe::jit;
using lathe::Tensor;
using lathe::Tensors;

/// What a model's author may write: five pointwise ops.
static Tensors chain(const Tensors& t) {
  const Tensor &x = t[0], &y = t[1];
  return {(x * y + x).relu() * 0.5 - y};
}

static bool is_number(const jit::Value& value) { return value.type.shape.empty(); }

/// How many whole tensors cross memory if each node runs alone. Numbers count nothing.
static int64_t tensors_moved(const jit::Graph& graph) {
  auto count = static_cast<int64_t>(graph.nodes.size());  // the results
  for (const jit::Node& node : graph.nodes)
    for (const int input : node.inputs) count += !is_number(graph.values[input]);
  return count;
}

/// The graph's nodes as one program, as the runner makes of a group (graph/run.cpp).
static jit::PointwisePlan plan_of(const jit::Graph& graph, int64_t n) {
  using Kind = jit::InputForm::Kind;
  jit::PointwiseProgram program{.shape = {n}};
  jit::InputForms forms;
  std::vector<int> numbers(graph.values.size(), -1);  // of each value within the program
  for (size_t i = 0; i < graph.values.size(); ++i) {
    const jit::Value& value = graph.values[i];
    if (value.origin == jit::Origin::kNode) continue;
    numbers[i] = program.inputs++;
    forms.push_back({value.type.dtype, is_number(value) ? Kind::kZeroDim : Kind::kFull});
  }
  int next = program.inputs;
  for (const jit::Node& node : graph.nodes) {
    program.steps.push_back({node.op, {}, node.attributes, lathe::kF32});
    for (const int input : node.inputs) program.steps.back().operands.push_back(numbers[input]);
    numbers[node.output] = next++;
  }
  program.results = {next - 1 - program.inputs};
  return *jit::PointwisePlan::of(program, forms);
}

static double least_ms(const auto& f, const Tensors& inputs) {
  using Ms = std::chrono::duration<double, std::milli>;
  double least = 1e9;
  for (int i = 0; i < 9; ++i) {
    const auto start = std::chrono::steady_clock::now();
    f(inputs);
    least = std::min(least, Ms(std::chrono::steady_clock::now() - start).count());
  }
  return least;
}

int main() {
  constexpr int64_t n = 1'000'000;
  const Tensors inputs{lathe::randn({n}), lathe::randn({n})};
  jit::Graph graph = jit::trace(chain, inputs, {.dynamic_batch = false});
  std::cout << "traced\n" << graph.text();
  jit::fuse_pointwise(graph);
  std::cout << "with its group\n" << graph.text();

  const jit::CompiledFunction fused = jit::compile(chain);
  std::cout << "equal bits: " << (lathe::equal(fused(inputs)[0], chain(inputs)[0]) ? "yes" : "no")
            << '\n'
            << fused.explain() << "through memory: " << tensors_moved(graph) * n * 4 / 1e6
            << " MB one by one, " << 3 * n * 4 / 1e6 << " MB together\n"
            << "~ one by one " << least_ms(chain, inputs) << " ms, together "
            << least_ms(fused, inputs) << " ms\n"
            << "the kernel for a GPU\n"
            << jit::kernel_source(plan_of(graph, n), "chain")->text;
}
