// The sample inputs of PyTorch's own tests: what PyTorch computes of them, with gradients, is what
// the rows of graph/pt2's tables compute. make_torch_samples.py made golden_torch_samples.txt and
// says how to read a line; torch_samples_listed.h has the cases that differ, with reasons.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <set>
#include <string>

#include "lathe/autograd/engine.h"
#include "lathe/core/config.h"
#include "lathe/core/cuda.h"
#include "lathe/core/error.h"
#include "lathe/graph/pt2/pt2_steps.h"
#include "lathe/nn/module.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"
#include "lathe/tests/cuda_case.h"
#include "lathe/tests/graph/torch_samples.h"
#include "lathe/tests/graph/torch_samples_listed.h"

using namespace lathe;
using namespace lathe::testing;
using namespace lathe::jit;

namespace {

// Of f32: a few ulp of what is summed up, on the CPU in PyTorch's order or another. Gradients pass
// through more operations. On a GPU sums have another order still.
constexpr double kTolerance = 1e-5, kGradientTolerance = 1e-4, kDeviceTolerance = 1e-4;

/// "" if the numbers that stand for `got` are as wanted.
std::string difference(const Tensor& got, const Numbers& want, double tolerance) {
  const Sums sums = sums_of(got);
  if (sums.numbers.size() != want.size()) {
    return concat("got ", sums.numbers.size(), " numbers, want ", want.size());
  }
  for (size_t i = 0; i < want.size(); ++i) {
    const double g = sums.numbers[i], w = want[i];
    if (g == w || (std::isnan(g) && std::isnan(w))) continue;
    if (!(std::fabs(g - w) <= tolerance * (1 + sums.sizes[i]))) {
      return concat("number ", i, ": got ", g, ", want ", w, " (", got, ")");
    }
  }
  return "";
}

Tensors run(const TorchSample& sample, const Tensors& inputs, Device device) {
  nn::Module model;
  std::vector<pt2::Input> types;
  for (const pt2::Value value : sample.graph.inputs) types.push_back({.value = value});
  const auto find = [&](const std::string&) -> nn::Module& { return model; };
  pt2::check_known(sample.graph, "the sample");
  const pt2::Steps steps = pt2::make_steps(sample.graph, types, find, "the sample");
  return pt2::run_steps(steps, inputs, {.device = device});
}

/// Sum over k and i of y_ki cos(i + k).
Tensor loss_of(const Tensors& results) {
  Tensor loss;
  for (size_t k = 0; k < results.size(); ++k) {
    const Tensor& y = results[k];
    if (!y.requires_grad()) continue;
    const Tensor at = arange(y.numel(), {.dtype = kF64}) + static_cast<double>(k);
    const Tensor part = (y.reshape({-1}) * cos(at).to(y.device(), y.dtype())).sum();
    loss = loss.defined() ? loss + part : part;
  }
  return loss;
}

/// What differs from PyTorch; "" if nothing does.
std::string wrong_in(const TorchSample& sample, Device device) {
  const double scale = device == kCPU ? 1 : kDeviceTolerance / kTolerance;
  try {
    Tensors inputs, leaves;
    for (const Tensor& x : sample.inputs) inputs.push_back(x.to(device));
    for (const size_t i : sample.with_gradient) {
      inputs[i] = inputs[i].detach().requires_grad_();
      leaves.push_back(inputs[i]);
    }
    const Tensors results = run(sample, inputs, device);
    if (results.size() != sample.results.size()) return concat(results.size(), " results");
    for (size_t k = 0; k < results.size(); ++k) {
      const Summary& want = sample.results[k];
      if (kind_of(results[k]) != want.kind) {
        return concat("result ", k, ": got ", results[k], ", want ", want.kind);
      }
      const std::string text = difference(results[k], want.numbers, scale * kTolerance);
      if (!text.empty()) return concat("result ", k, ": ", text);
    }
    if (leaves.empty()) return "";
    const Tensor loss = loss_of(results);
    Tensors found(leaves.size());  // of a call like zero_, which no input has a part in: none
    if (loss.defined()) found = grad({loss}, leaves, {.allow_unused = true});
    for (size_t k = 0; k < found.size(); ++k) {
      const Tensor got = found[k].defined() ? found[k] : zeros_like(leaves[k]);
      const std::string text = difference(got, sample.gradients[k], scale * kGradientTolerance);
      if (!text.empty()) return concat("gradient of input ", sample.with_gradient[k], ": ", text);
    }
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

/// The entry of the list that the case is an example of; null if there is none.
const Listed* listed(const std::string& name, const std::string& wrong) {
  const size_t op = name.find(' '), number = name.rfind(' ');
  for (const Listed& one : kListed) {
    const std::string_view entry = one.sample;
    const bool named = entry == name || entry == name.substr(0, op) ||
                       entry == name.substr(op + 1, number - op - 1);
    if (named && wrong.find(one.wrong) != std::string::npos) return &one;
  }
  return nullptr;
}

struct Tally {
  int cases = 0, agree = 0;
  std::set<std::string> ops;
  std::set<const Listed*> used;
};

/// Runs every case of the file whose number `step` divides.
Tally run_file(Device device, int step) {
  std::ifstream file(LATHE_TORCH_SAMPLES);
  REQUIRE_MESSAGE(file.good(), LATHE_TORCH_SAMPLES);
  Tally tally;
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    if (line[0] == '#' || number++ % step != 0) continue;
    const TorchSample sample = parse_torch_sample(line);
    const std::string wrong = wrong_in(sample, device);
    ++tally.cases;
    tally.ops.insert(sample.name.substr(0, sample.name.find(' ')));
    if (wrong.empty()) {
      ++tally.agree;
      continue;
    }
    const Listed* const reason = listed(sample.name, wrong);
    CHECK_MESSAGE(reason != nullptr, sample.name, ": ", wrong);
    tally.used.insert(reason);
  }
  MESSAGE(tally.agree, " of ", tally.cases, " cases of ", tally.ops.size(), " operators agree");
  return tally;
}

}  // namespace

TEST_CASE("torch samples: values and gradients are PyTorch's, but for those listed") {
  const Tally tally = run_file(kCPU, 1);
  CHECK(tally.agree >= 2606);
  CHECK(tally.ops.size() >= 354);
  for (const Listed& one : kListed) {  // those that agree by now are to be struck off the list
    const std::string entry = concat(one.sample, ": ", one.wrong);
    CHECK_MESSAGE(tally.used.contains(&one), entry);
  }
}

TEST_CASE("torch samples: calls that are not among PyTorch's samples") {
  // A singular value of 1e-10, which the default limit of 1e-15 keeps; no dimension.
  for (const char* const line :
       {"pinverse f32 0 | f32[2,2] 1 0 0 1e-10 | aten.pinverse.default self=%0 > 1 ; = 1 | "
        "f32[2,2] "
        "-9.899925e+09 7.539023e+09 4.425698e+07 |",
        "all bool 0 | bool[1,2] 1 0 | aten.all.dims self=%0 dim=[] > 1 ; = 1 | bool[1,2] 1 0 |",
        "any i64 0 | i64[2] 2 0 | aten.any.dims self=%0 dim=[] > 1 ; = 1 | bool[2] 1 0 |"}) {
    CAPTURE(line);
    CHECK(wrong_in(parse_torch_sample(line), kCPU) == "");
  }
}

TEST_CASE("torch samples: a GPU computes the same" * test::cuda_case()) {
  const bool all = std::getenv("LATHE_PROGRAMS") != nullptr;
  CHECK(run_file(Device(DeviceType::kCUDA), all ? 1 : 4).agree > 500);
}
