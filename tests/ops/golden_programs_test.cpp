// 1,000 random programs of 232 ops against PyTorch: values, gradients and gradients of gradients, on
// the CPU and on a GPU. golden_programs.py made golden_programs.txt and says how to read a line.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

#include "../cuda_case.h"
#include "../nn/golden_numbers.h"
#include "golden_programs.h"
#include "lathe/core/config.h"
#include "lathe/core/cuda.h"
#include "lathe/lathe.h"

using namespace lathe;
using namespace lathe::test;

namespace {

// All programs take a minute under emulation. There those are run that have ops which none before
// had, each at least so many; LATHE_PROGRAMS=all asks for all.
#if defined(LATHE_CUDA_EMULATED) && defined(LATHE_ASAN)
constexpr size_t kNewOps = 4;
#elif defined(LATHE_CUDA_EMULATED)
constexpr size_t kNewOps = 1;
#else
constexpr size_t kNewOps = 0;
#endif
constexpr double kTolerance = 1e-9;  // of |wanted| + 1; rounding of the ill-conditioned is below it

using Numbers = std::vector<double>;

struct Step {
  std::string op;
  std::vector<size_t> operands;
  Ints integers;
};

struct Program {
  uint32_t number;
  std::vector<std::string> leaves;
  std::vector<Step> steps;
  std::vector<size_t> sinks;
  Numbers value, first, second;
};

std::vector<std::string> split_at(const std::string& text, char mark) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, mark);) parts.push_back(part);
  return parts;
}

template <class T>
std::vector<T> read_all(std::istream& in) {
  std::vector<T> all;
  for (T one; in >> one;) all.push_back(one);
  return all;
}
template <class T>
std::vector<T> read_all(const std::string& text) {
  std::istringstream in(text);
  return read_all<T>(in);
}

Program parse(const std::string& line) {
  const std::vector<std::string> parts = split_at(line, '|');
  REQUIRE_MESSAGE(parts.size() == 4, line);
  Program p;
  p.value = read_all<double>(parts[1]);
  p.first = read_all<double>(parts[2]);
  p.second = read_all<double>(parts[3]);  // empty for "-"
  for (const std::string& text : split_at(parts[0], ';')) {
    std::istringstream in(text);
    if (p.leaves.empty()) {
      in >> p.number;
      p.leaves = read_all<std::string>(in);
      continue;
    }
    Step step;
    in >> step.op;
    step.operands = read_all<size_t>(in);
    in.clear();
    in.ignore(text.size(), ':');
    step.integers = read_all<int64_t>(in);
    if (step.op == "=")
      p.sinks = step.operands;
    else
      p.steps.push_back(step);
  }
  return p;
}

/// Numbers k of a program: those of leaf k, and the weights of what is summed.
Tensor numbers(const Program& p, size_t k, const Shape& shape, Device device) {
  return uniforms(64 * p.number + static_cast<uint32_t>(k), shape).to(device);
}

/// "2x3/t/p": shape, layout, kind; see golden_programs.py.
Tensor make_leaf(const Program& p, size_t k, Device device) {
  const std::vector<std::string> words = split_at(p.leaves[k], '/');
  Shape shape;
  if (words[0] != "-") {
    for (const std::string& size : split_at(words[0], 'x')) shape.push_back(std::stoll(size));
  }
  const Tensor u = numbers(p, k, shape, device);
  Tensor x = words[2] == "n" ? u * 1.7 : (u + 1) * 0.85 + 0.3;
  if (words[1] == "t") x = x.transpose(0, -1).contiguous().transpose(0, -1);
  if (words[1] == "e") x = x.narrow(0, 0, 1).expand(shape);
  if (words[1] == "s") {
    Shape wide = shape;
    wide[shape.size() - 1] = 2 * shape.back() + 1;
    const Tensor room = zeros(wide, {.dtype = kF64, .device = device}).slice(-1, 1, wide.back(), 2);
    x = room.copy_(x);
  }
  return x.detach().requires_grad_();
}

struct Results {
  Numbers value, first, first_without_graph, second;
};

Results run(const Program& p, Device device) {
  Tensors variables, leaves;
  for (size_t k = 0; k < p.leaves.size(); ++k) leaves.push_back(make_leaf(p, k, device));
  variables = leaves;
  for (const Step& step : p.steps) {
    Tensors operands;
    for (const size_t v : step.operands) operands.push_back(variables.at(v));
    variables.push_back(run_golden_op(step.op, operands, step.integers));
  }
  Tensor value = zeros({}, {.dtype = kF64, .device = device});
  for (const size_t v : p.sinks) {
    const Tensor& y = variables.at(v);
    value = value + (numbers(p, 32 + v, y.shape(), device) * y * y).sum();
  }
  const auto gradients = [&](const Tensor& y, bool create_graph) {
    Tensors found(leaves.size());
    if (y.requires_grad()) {
      found = grad({y}, leaves,
                   {.retain_graph = true, .create_graph = create_graph, .allow_unused = true});
    }
    for (size_t k = 0; k < leaves.size(); ++k) {
      if (!found[k].defined()) found[k] = zeros_like(leaves[k]);
      CHECK(found[k].shape() == leaves[k].shape());
      CHECK(found[k].device() == device);
    }
    return found;
  };
  // Two weighed sums of the gradient of each leaf.
  const auto sums = [&](const Tensors& found) {
    Numbers values;
    for (size_t s = 1; s < 3; ++s) {
      for (size_t k = 0; k < leaves.size(); ++k) {
        const Tensor g = found[k].detach().cpu();
        values.push_back((numbers(p, 8 * s + k, g.shape(), kCPU) * g).sum().item<double>());
      }
    }
    return values;
  };
  const Tensors first = gradients(value, true);
  Results results{{value.item<double>()}, sums(first), sums(gradients(value, false)), {}};
  if (p.second.empty()) return results;
  Tensor total = zeros({}, {.dtype = kF64, .device = device});
  for (size_t k = 0; k < leaves.size(); ++k) {
    total = total + (numbers(p, 8 + k, first[k].shape(), device) * first[k]).sum();
  }
  results.second = sums(gradients(total, false));
  return results;
}

void compare(const std::string& what, const Numbers& got, const Numbers& want) {
  REQUIRE(got.size() == want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    const bool near = std::fabs(got[i] - want[i]) <= kTolerance * (1 + std::fabs(want[i]));
    CHECK_MESSAGE(near, what, ", number ", i, ": got ", got[i], ", want ", want[i], ", ",
                  got[i] - want[i], " apart");
  }
}

/// Returns how many programs there are.
int run_file(Device device, size_t new_ops) {
  std::ifstream file(LATHE_GOLDEN_PROGRAMS);
  REQUIRE_MESSAGE(file.good(), LATHE_GOLDEN_PROGRAMS);
  if (std::getenv("LATHE_PROGRAMS") != nullptr) new_ops = 0;
  int count = 0, run_count = 0;
  std::set<std::string> ops;
  for (std::string line; std::getline(file, line);) {
    if (line[0] == '#') continue;
    ++count;
    INFO(line.substr(0, line.find('|')));
    const Program program = parse(line);
    std::set<std::string> with_these = ops;
    for (const Step& step : program.steps) with_these.insert(step.op);
    if (with_these.size() < ops.size() + new_ops) continue;
    ops = with_these;
    ++run_count;
    try {
      const Results results = run(program, device);
      compare("value", results.value, program.value);
      compare("first derivatives", results.first, program.first);
      compare("first derivatives without a graph", results.first_without_graph, program.first);
      compare("second derivatives", results.second, program.second);
    } catch (const Error& error) {
      FAIL_CHECK(std::string(error.what()));
    }
  }
  MESSAGE(run_count, " of ", count, " programs, with ", ops.size(), " ops");
  return count;
}

}  // namespace

TEST_CASE("golden programs: values and first and second derivatives are PyTorch's") {
  CHECK(run_file(kCPU, 0) == 1000);
}

TEST_CASE("golden programs: they are so on a GPU" * cuda_case()) {
  CHECK(run_file(Device(DeviceType::kCUDA), kNewOps) == 1000);
}
