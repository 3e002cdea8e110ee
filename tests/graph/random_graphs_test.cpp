// 500 random programs, each against itself after every pass. The generator is a function of the
// seed, so that a program that fails can be looked at alone.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "lathe/autograd/grad_mode.h"
#include "lathe/core/format.h"
#include "lathe/core/random/generator.h"
#include "lathe/graph/passes.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/random.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"
#include "lathe/tests/cuda_case.h"

using namespace lathe;

namespace {

/// A program of convolutions, norms, sums, activations and what else a network has, on images of
/// [N,8,6,6] or fewer pixels. Values that nobody reads, and equal calls, are among it.
class RandomProgram {
 public:
  explicit RandomProgram(uint64_t seed) : random_(seed) {
    values_.push_back({"%x", {8, 6, 6}});
    const int calls = static_cast<int>(4 + below(9));
    for (int i = 0; i < calls; ++i) add_call();
    const Image& last = values_.back();
    outputs_ = last.name;
    if (below(4) == 0) outputs_ += ", " + values_[below(values_.size())].name;
  }

  std::string text() const {
    return "lathe graph 1\ninput %x: f32[N,8,6,6]\n" + parameters_ + calls_ + "output " + outputs_ +
           "\n";
  }
  /// Tensors for the parameters; those that are variances are positive.
  StateDict state(const jit::Graph& graph) const {
    StateDict state;
    for (const jit::Value& value : graph.values) {
      if (value.origin != jit::Origin::kParameter && value.origin != jit::Origin::kBuffer) continue;
      Shape shape;
      for (const jit::Size& size : value.type.shape) shape.push_back(size.fixed);
      const Tensor t = randn(shape);
      state.add(value.name, value.name.starts_with("var") ? add(square(t), 0.5) : mul(t, 0.3));
    }
    return state;
  }

 private:
  struct Image {
    std::string name;
    std::vector<int64_t> size;  // channels, rows, columns
  };

  uint64_t below(uint64_t n) { return random_() % n; }
  const Image& any() {  // late ones more often, so that programs are deep
    return below(3) == 0 ? values_[below(values_.size())] : values_.back();
  }
  std::string parameter(const char* kind, const std::string& name, const std::string& shape) {
    const std::string full = concat(name, count_++);
    parameters_ += concat(kind, " @", full, ": f32[", shape, "]\n");
    return "@" + full;
  }
  void call(const std::string& call, std::vector<int64_t> size) {
    const std::string name = concat("%", calls_made_++);
    calls_ += concat(name, ": f32[N,", size[0], ",", size[1], ",", size[2], "] = ", call, "\n");
    values_.push_back({name, std::move(size)});
    last_call_ = call;
  }

  void add_call() {
    const Image x = any();
    switch (below(10)) {
      case 0:
      case 1:
      case 2: return add_convolution(x);
      case 3: return add_norm(x);
      case 4: return call(concat("relu(", x.name, ")"), x.size);
      case 5:
      case 6: return add_sum(x);
      case 7: return add_pointwise(x);
      case 8: return add_pool(x);
      default: break;
    }
    if (!last_call_.empty()) call(last_call_, values_.back().size);  // an equal one
  }
  void add_convolution(const Image& x) {
    const int64_t channels = x.size[0], kernel = below(2) == 0 ? 1 : 3, pad = kernel / 2;
    const int64_t stride = below(4) == 0 ? 2 : 1;
    const int64_t groups = below(4) == 0 ? 2 : 1, out = below(2) == 0 ? channels : 8 + 8 * below(2);
    const std::string w =
        parameter("param", "w", concat(out, ",", channels / groups, ",", kernel, ",", kernel));
    const std::string bias = below(2) == 0 ? "none" : parameter("param", "b", concat(out));
    const auto side = [&](int64_t in) { return (in + 2 * pad - kernel) / stride + 1; };
    call(concat("conv2d(", x.name, ", ", w, ", ", bias, ", stride=[", stride, ",", stride,
                "], pad=[", pad, ",", pad, "], dilation=[1,1], groups=", groups, ")"),
         {out, side(x.size[1]), side(x.size[2])});
  }
  void add_norm(const Image& x) {
    const std::string channels = concat(x.size[0]);
    const auto affine = [&](const char* name) {
      return below(4) == 0 ? std::string("none") : parameter("param", name, channels);
    };
    const std::string weight = affine("g"), bias = affine("b");
    const std::string mean = parameter("buffer", "mean", channels);
    const std::string var = parameter("buffer", "var", channels);
    const char* const forms[] = {"batch_norm(", "batch_norm_relu(", "batch_norm_add_relu("};
    const size_t form = below(3);
    std::string operands = x.name;
    if (form == 2) operands += ", " + like(x).name;
    call(concat(forms[form], operands, ", ", weight, ", ", bias, ", ", mean, ", ", var,
                ", training=false, eps=0.001)"),
         x.size);
  }
  /// A value of x's size; x itself at worst.
  const Image& like(const Image& x) {
    std::vector<size_t> fitting;
    for (size_t i = 0; i < values_.size(); ++i) {
      if (values_[i].size == x.size) fitting.push_back(i);
    }
    return values_[fitting[below(fitting.size())]];
  }
  void add_sum(const Image& x) {
    if (below(4) == 0) {  // one that stretches its operand
      const std::string c = parameter("param", "s", concat("1,", x.size[0], ",1,1"));
      return call(concat("add(", x.name, ", ", c, ")"), x.size);
    }
    const Image other = like(x);
    call(below(2) == 0 ? concat("add(", x.name, ", ", other.name, ")")
                       : concat("add(", other.name, ", ", x.name, ")"),
         x.size);
  }
  void add_pointwise(const Image& x) {
    switch (below(3)) {
      case 0: return call(concat("gelu(", x.name, ", tanh_approximation=true)"), x.size);
      case 1: return call(concat("sigmoid(", x.name, ")"), x.size);
      default: break;
    }
    const std::string a = parameter("param", "k", ""), b = parameter("param", "k", "");
    const std::string name = concat("%c", count_++);  // what fold_constants computes
    calls_ += concat(name, ": f32[] = mul(", a, ", ", b, ")\n");
    call(concat("mul(", x.name, ", ", name, ")"), x.size);
  }
  void add_pool(const Image& x) {
    if (x.size[1] < 2 || x.size[2] < 2) return;
    call(concat("max_pool2d(", x.name,
                ", kernel=[2,2], stride=[2,2], pad=[0,0], dilation=[1,1], ceil_mode=false)"),
         {x.size[0], x.size[1] / 2, x.size[2] / 2});
  }

  std::mt19937_64 random_;
  std::vector<Image> values_;
  std::string parameters_, calls_, outputs_, last_call_;
  int64_t count_ = 0, calls_made_ = 0;
};

bool same_bits(const Tensors& a, const Tensors& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    const std::vector<float> left = a[i].to_vector<float>(), right = b[i].to_vector<float>();
    if (left.size() != right.size()) return false;
    if (std::memcmp(left.data(), right.data(), left.size() * sizeof(float)) != 0) return false;
  }
  return a.size() == b.size();
}

/// The largest difference, relative to the largest value.
double error_of(const Tensors& got, const Tensors& expected) {
  double error = got.size() == expected.size() ? 0 : 1e9;
  for (size_t i = 0; i < got.size(); ++i) {
    const double size = abs(expected[i]).max().item<double>();
    error = std::max(error, abs(sub(got[i], expected[i])).max().item<double>() / (size + 1));
  }
  return error;
}

struct Pass {
  const char* name;
  void (*run)(jit::Graph&);
  double bound;      // 0: equal bits
  double gpu_bound;  // kernels of a GPU order sums differently for an epilogue or a layout
};
// Each of at most 12 layers in a row is rounded in another way, or computed by Winograd.
constexpr double kRounding = 1e-4;
const Pass kPasses[] = {
    {"remove_dead_code", jit::remove_dead_code, 0, 0},
    {"merge_common_subexpressions", jit::merge_common_subexpressions, 0, 0},
    {"fold_constants", jit::fold_constants, 0, 0},
    {"fuse_pointwise", jit::fuse_pointwise, 0, 0},
    {"fuse_epilogues", jit::fuse_epilogues, 0, kRounding},
    {"fold_batch_norm", jit::fold_batch_norm, kRounding, kRounding},
    {"use_channels_last", jit::use_channels_last, kRounding, kRounding},
    {"optimize_for_inference", jit::optimize_for_inference, kRounding, kRounding}};

/// Runs the program of a seed as it is and after each pass.
void check_program(uint64_t seed, Device device) {
  CAPTURE(seed);
  manual_seed(seed);
  const RandomProgram program(seed);
  CAPTURE(program.text());
  jit::Graph graph = jit::parse(program.text());
  graph.bind(program.state(graph));
  Tensor x = randn({2, 8, 6, 6});
  const Tensors of_cpu = graph.run({x});
  if (device.is_cuda()) {
    graph.to(device);
    x = x.to(device);
  }
  const Tensors expected = device.is_cuda() ? graph.run({x}) : of_cpu;
  for (size_t i = 0; i < expected.size(); ++i)
    CHECK(error_of({expected[i].to(kCPU)}, {of_cpu[i]}) <= kRounding);
  for (const Pass& pass : kPasses) {
    CAPTURE(pass.name);
    jit::Graph changed = graph;
    pass.run(changed);
    CAPTURE(changed.text());
    const Tensors got = changed.run({x});
    const double bound = device.is_cuda() ? pass.gpu_bound : pass.bound;
    if (bound == 0) {
      CHECK(same_bits(got, expected));
    } else {
      CHECK(error_of(got, expected) <= bound);
    }
  }
}

}  // namespace

TEST_CASE("random graphs: each pass leaves the results of 500 programs as they are") {
  const NoGrad off;
  for (uint64_t seed = 0; seed < 500; ++seed) check_program(seed, kCPU);
}

TEST_CASE("random graphs: so it is on a GPU, which agrees with the CPU" * test::cuda_case()) {
  const NoGrad off;
  for (uint64_t seed = 0; seed < 40; ++seed) check_program(seed, Device(DeviceType::kCUDA));
}
