// Layouts: what an optimised graph copies or reorders while it runs, of whole models. NHWC is
// chosen for the whole graph, so nothing but the input changes its order; what else moves is named
// here.
#include <doctest/doctest.h>

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "lathe/autograd/grad_mode.h"
#include "lathe/core/hooks/watch.h"
#include "lathe/core/random/generator.h"
#include "lathe/graph/passes.h"
#include "lathe/graph/trace.h"
#include "lathe/nn/containers.h"
#include "lathe/nn/conv.h"
#include "lathe/nn/convnext.h"
#include "lathe/nn/init.h"
#include "lathe/nn/linear.h"
#include "lathe/nn/models.h"
#include "lathe/nn/norm.h"
#include "lathe/nn/vit.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/isclose.h"
#include "lathe/ops/join.h"
#include "lathe/ops/memory_format.h"
#include "lathe/ops/pool2d.h"
#include "lathe/ops/random.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"

using namespace lathe;

namespace {

/// Each copy inside of an op, as "flatten: contiguous f32[2,8,7,7]@cpu", and each convolution whose
/// image is not in NHWC: its kernels would copy it without a word. What a convolution to rows of
/// fewer than 8 pixels reorders is left out: oneDNN's kernels for blocks of channels are faster
/// there (ops/conv/cpu/conv2d_primitive_dnnl.cpp, in_place_pays).
class Moves final : public profile::Watcher {
 public:
  Moves() : Watcher(Gradients::kIgnore) {}

  const std::vector<std::string>& seen() const { return seen_; }

 private:
  void begins() override {
    constexpr std::string_view kCopies[] = {"cast", "clone", "contiguous", "reorder", "to_device"};
    const profile::WatchedOp &op = open_ops().back(), &outer = open_ops().front();
    const std::string_view name = op.name;
    if (std::find(std::begin(kCopies), std::end(kCopies), name) != std::end(kCopies)) {
      const std::string of = op.inputs.empty() ? "" : concat(" ", op.inputs[0]);
      (name == "reorder" ? reorders_ : seen_).push_back(concat(outer.name, ": ", name, of));
    }
    if (name != "conv2d" && name != "fused_conv2d") return;
    const std::span<const Tensor> in = op.inputs;
    const bool with_residual = in.size() > 3 && in[3].defined();
    if (conv2d_format(in[0]) != kChannelsLast)
      seen_.push_back(concat(name, ": reads ", in[0], " in another order than NHWC"));
    if (with_residual && !in[3].is_contiguous(kChannelsLast))
      seen_.push_back(concat(name, ": adds ", in[3], " in another order than NHWC"));
  }
  void output(const Tensor& y) override { y_ = y; }
  void outermost_ends() override {
    constexpr int64_t kShortRow = 8;
    if (!(y_.ndim() == 4 && y_.dim(3) < kShortRow))
      seen_.insert(seen_.end(), reorders_.begin(), reorders_.end());
    reorders_.clear();
  }

  std::vector<std::string> seen_, reorders_;  // reorders_: of the op that is open
  Tensor y_;                                  // of the last op that ended
};

/// What moves in a run of the optimised graph, behind a first run, which packs the filters.
std::vector<std::string> moves_of(nn::Module& model, const Tensor& x) {
  const NoGrad off;
  model.eval();
  jit::Graph graph = jit::trace(model, x);
  jit::optimize_for_inference(graph);
  graph(x);
  const Moves moves;
  graph(x);
  return moves.seen();
}

std::string lines(const std::vector<std::string>& all) {
  std::string text;
  for (const std::string& line : all) text += line + "\n";
  return text;
}

const std::string kInput = "contiguous: contiguous f32[2,3,32,32]@cpu\n";

}  // namespace

TEST_CASE("graph: an optimised model reorders nothing but its input") {
  for (const auto& [name, size] : {std::pair("resnet18", 64), {"mobilenet_v2", 32}}) {
    CAPTURE(name);
    const nn::init::Skip skip;
    const auto model = nn::make_model(name, {.classes = 5, .image_size = size});
    const Tensor x = zeros({2, 3, size, size});
    CHECK(lines(moves_of(*model, x)) == concat("contiguous: contiguous ", x, "\n"));
  }
}

TEST_CASE("graph: a ConvNeXt reorders nothing but its input") {
  struct Small : nn::Module {  // stages of one block, and of few channels
    nn::Sequential features{*this, "features"};
    nn::Linear classifier{*this, "classifier", 16, 5};
    Small() {
      for (const auto& [in, out, side] : {std::tuple(3, 8, 4), {8, 16, 2}}) {
        if (in != 3) features.add<nn::LayerNorm2d>(in);
        features.add<nn::Conv2d>(in, out, nn::Conv2dOptions{.kernel = side, .stride = side});
        if (in == 3) features.add<nn::LayerNorm2d>(out);
        features.add<nn::ConvNeXtBlock>(out, 1e-6, 0.1);
      }
    }
    Tensor forward(const Tensor& x) override { return classifier(mean(features(x), {2, 3})); }
  };
  Small model;
  CHECK(lines(moves_of(model, zeros({2, 3, 64, 64}))) ==
        "contiguous: contiguous f32[2,3,64,64]@cpu\n");
}

TEST_CASE("graph: a linear layer behind a map of features, as in VGG, has it reordered") {
  struct Vgg : nn::Module {
    nn::Conv2d conv{*this, "conv", 3, 8, {.kernel = 3, .pad = 1}};
    nn::Linear linear{*this, "linear", 8 * 7 * 7, 4};
    Tensor forward(const Tensor& x) override {
      const Tensor y = max_pool2d(relu(conv(x)), {.kernel = 2});
      return linear(flatten(adaptive_avg_pool2d(y, 7), 1));
    }
  };
  Vgg model;
  CHECK(lines(moves_of(model, zeros({2, 3, 32, 32}))) ==
        kInput + "flatten: contiguous f32[2,8,7,7]@cpu\n");
}

TEST_CASE("graph: a Vision Transformer reorders its input, and in attention what heads multiply") {
  nn::VisionTransformer vit({.patch_size = 8, .layers = 2, .heads = 2, .hidden = 16, .mlp = 32},
                            {.classes = 5, .image_size = 32});
  std::vector<std::string> moves = moves_of(vit, zeros({2, 3, 32, 32}));
  std::ranges::sort(moves);  // compilers differ in which operand of matmul() is brought in first
  const std::string attention = "scaled_dot_product_attention: contiguous ",
                    keys = attention + "f32[2,2,8,17]@cpu\n",
                    queries = attention + "f32[2,2,17,8]@cpu\n", values = queries,
                    joined_heads = "reshape: contiguous f32[2,17,2,8]@cpu\n";
  CHECK(lines(moves) ==
        kInput + joined_heads + joined_heads + queries + queries + values + values + keys + keys);
}

TEST_CASE("graph: a shortcut from the input is brought into NHWC once, with the input") {
  struct Block : nn::Module {
    nn::Conv2d a{*this, "a", 8, 8, {.kernel = 3, .pad = 1}}, b{*this, "b", 8, 8, {.kernel = 1}};
    Tensor forward(const Tensor& x) override { return relu(b(relu(a(x))) + x); }
  };
  Block model;
  CHECK(lines(moves_of(model, zeros({2, 8, 8, 8}))) == "contiguous: contiguous f32[2,8,8,8]@cpu\n");
}

TEST_CASE("graph: convolutions to one channel, or to one pixel, go on in NHWC") {
  struct Maps : nn::Module {
    nn::Conv2d mask{*this, "mask", 3, 1, {.kernel = 1}}, depth{*this, "depth", 3, 1, {.kernel = 1}};
    nn::Conv2d joint{*this, "joint", 2, 4, {.kernel = 3}};
    nn::Conv2d edges{*this, "edges", 3, 1, {.kernel = 3}},
        pixel{*this, "pixel", 1, 4, {.kernel = 6}};
    nn::Conv2d last{*this, "last", 4, 4, {.kernel = 3, .pad = 1}};
    Tensor forward(const Tensor& x) override {
      return joint(cat({mask(x), depth(x)}, 1)) + last(relu(pixel(relu(edges(x)))));
    }
  };
  Maps model;
  for (const DType dtype : {kF32, kF64}) {  // f64: fused_conv2d is several ops
    model.to(dtype);
    const Tensor x = zeros({2, 3, 8, 8}, {.dtype = dtype});
    const Tensor joined = zeros({2, 2, 8, 8}, {.dtype = dtype});  // cat() of maps is row-major
    CHECK(lines(moves_of(model, x)) ==
          concat("contiguous: contiguous ", x, "\ncontiguous: contiguous ", joined, "\n"));
  }
}

TEST_CASE("graph: NHWC also behind what comes before the first convolution") {
  struct Scaled : nn::Module {
    nn::Conv2d a{*this, "a", 3, 8, {.kernel = 3, .pad = 1}}, b{*this, "b", 8, 4, {.kernel = 3}};
    Tensor forward(const Tensor& x) override {
      const Tensor y = a((x - 0.5) * 4).slice(2, 0, 8, 2);
      return b(y).view({x.dim(0), -1});
    }
  };
  manual_seed(2);
  Scaled model;
  const Tensor x = randn({2, 3, 8, 8});
  CHECK(lines(moves_of(model, x)) ==
        "contiguous: contiguous f32[2,3,8,8]@cpu\n"
        "contiguous: contiguous f32[2,8,4,8]@cpu\n"
        "reshape: contiguous f32[2,4,2,6]@cpu\n");
  const NoGrad off;
  jit::Graph graph = jit::trace(model, x);
  jit::optimize_for_inference(graph);
  CHECK(allclose(graph(x), model(x), {.rtol = 1e-4, .atol = 1e-4}));
}
