// Muon against PyTorch's, whose rounding to bf16 golden_rules.py leaves out; its batches, groups
// and memory orders against the plain case.
#include "lathe/optim/muon.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "../cuda_case.h"
#include "golden_rules.h"
#include "lathe/core/capture/cuda_graph.h"
#include "lathe/core/copy.h"
#include "lathe/nn/containers.h"
#include "lathe/nn/convnext.h"
#include "lathe/nn/embedding.h"
#include "lathe/nn/linear.h"
#include "lathe/nn/norm.h"
#include "lathe/nn/resnet.h"
#include "lathe/nn/vit.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/diagonal.h"
#include "lathe/ops/matmul.h"
#include "lathe/ops/random.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"
#include "lathe/optim/param_groups.h"
#include "lathe/optim/sgd.h"
#include "loss_scaling.h"
#include "make_optimizer.h"

using namespace lathe;
using namespace lathe::optim;
using namespace lathe::test;

namespace {

constexpr int kSteps = 10;

/// The numbers of golden_rules.py.
std::vector<double> values(int64_t factor, int64_t step) {
  std::vector<double> out;
  for (int64_t i = 0; i < 6; ++i)
    out.push_back(static_cast<double>((factor * i + 5 * step) % 11 - 5) / 8);
  return out;
}

/// Ten steps of a parameter with this memory, which has the shape of the golden matrix, or of
/// filters with as many rows.
std::vector<double> after_steps(const Tensor& p, const MuonOptions& o) {
  p.requires_grad_();
  const auto fill = [&](const Tensor& to, int64_t factor, int64_t step) {
    copy_values(to, tensor(values(factor, step), to.dtype()).reshape(to.shape()));
  };
  fill(p.detach(), 3, 0);
  Muon optimizer({p}, o);
  for (int64_t step = 0; step < kSteps; ++step) {
    const Tensor g = empty_like(p.detach());
    fill(g, 7, step);
    p.set_grad(g);
    optimizer.step();
  }
  return p.to_vector<double>();
}

void check_near(const std::vector<double>& got, const std::vector<double>& want, double tolerance) {
  REQUIRE(got.size() == want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    INFO("element ", i, ": got ", got[i], ", want ", want[i]);
    CHECK(std::abs(got[i] - want[i]) <= tolerance);
  }
}

const MuonOptions kPlain{.lr = 0.1, .ns_bf16 = false};
const MuonOptions kTall{.lr = 0.1,
                        .weight_decay = 0.5,
                        .momentum = 0.75,
                        .nesterov = false,
                        .ns_steps = 3,
                        .ns_bf16 = false};
const MuonOptions kRms{.lr = 0.1, .ns_bf16 = false, .match_rms_adamw = true};

}  // namespace

TEST_CASE("Muon: ten steps are PyTorch's") {
  for (const DType dtype : {kF64, kF32}) {
    const double tolerance = dtype == kF64 ? 1e-12 : 1e-5;
    check_near(after_steps(empty({2, 3}, {.dtype = dtype}), kPlain), golden::kMuonWide, tolerance);
    check_near(after_steps(empty({3, 2}, {.dtype = dtype}), kTall), golden::kMuonTall, tolerance);
    check_near(after_steps(empty({3, 2}, {.dtype = dtype}), kRms), golden::kMuonRms, tolerance);
  }
  MuonOptions normalized{.lr = 0.24,
                         .weight_decay = 0,
                         .momentum = 0.6,
                         .ns_steps = 3,
                         .ns_bf16 = false,
                         .normalize = true};
  check_near(after_steps(empty({2, 3}, {.dtype = kF64}), normalized), golden::kMuonNormalized,
             1e-12);
  check_near(after_steps(empty({2, 3}), normalized), golden::kMuonNormalized, 1e-5);
  // In ten steps of 0.1 products in bf16 move what the golden ones, in bf16 as well, do not.
  MuonOptions half = kPlain;
  half.ns_bf16 = true;
  check_near(after_steps(empty({2, 3}), half), golden::kMuonBf16, 0.02);
}

TEST_CASE("Muon: filters are matrices, in any memory order") {
  const TensorOptions f64{.dtype = kF64};
  check_near(after_steps(empty({2, 3, 1, 1}, f64), kPlain), golden::kMuonWide, 1e-12);
  check_near(after_steps(empty({3, 1, 2, 1}, f64), kTall), golden::kMuonTall, 1e-12);
  const Tensor by_columns = transpose(empty({2, 3}, f64), 0, 1).detach();
  check_near(after_steps(by_columns, kRms), golden::kMuonRms, 1e-12);
  check_near(after_steps(slice(empty({2, 6}, f64), 1, 0, 6, 2).detach(), kPlain), golden::kMuonWide,
             1e-12);

  Generator generator(3);
  const Tensor start = randn({4, 3, 2, 2}, f64, &generator),
               g = randn({4, 3, 2, 2}, f64, &generator);
  std::vector<std::vector<double>> results;
  for (const bool nhwc : {false, true}) {
    const Tensor p = (nhwc ? start.contiguous(kChannelsLast) : start).clone().detach();
    p.requires_grad_();
    p.set_grad(g);
    Muon optimizer({p}, kPlain);
    optimizer.step();
    results.push_back(p.to_vector<double>());
  }
  check_near(results[1], results[0], 1e-12);
}

TEST_CASE("Muon: matrices of one shape step together as each alone, others beside them") {
  const std::vector<Shape> shapes = {{4, 6}, {6, 4}, {4, 6}, {6, 4, 1}, {0, 3}, {4, 2, 3}};
  const auto make_params = [&] {
    Generator generator(4);
    Tensors out;
    for (const Shape& shape : shapes) {
      out.push_back(param(randn(shape, {}, &generator), kCPU));
      out.back().set_grad(randn(shape, {}, &generator));
    }
    return out;
  };
  const Tensors together = make_params(), alone = make_params();
  Muon optimizer(together, kPlain);
  for (int s = 0; s < 2; ++s) optimizer.step();
  for (size_t i = 0; i < alone.size(); ++i) {
    Muon one({alone[i]}, kPlain);
    for (int s = 0; s < 2; ++s) one.step();
    CAPTURE(i);
    check_near(together[i].to_vector<double>(), alone[i].to_vector<double>(), 1e-6);
  }
}

TEST_CASE("newton_schulz: singular values near 1, the singular vectors stay") {
  Generator generator(5);
  for (const Shape& shape : {Shape{6, 9}, Shape{9, 6}}) {
    const Tensor x = randn(shape, {.dtype = kF64}, &generator);
    const Tensor y = newton_schulz(x);
    const Tensor small =
        shape[0] < shape[1] ? matmul(y, y.transpose(0, 1)) : matmul(y.transpose(0, 1), y);
    // The eigenvalues of the smaller product are the squares: their sum and that of their squares.
    const double square = mean(diagonal(small)).item<double>();
    CHECK(square > 0.5);
    CHECK(square < 1.4);
    // x yᵀ is symmetric if the singular vectors are the same.
    const Tensor product = matmul(x, y.transpose(0, 1));
    CHECK(max(abs(product - transpose(product, 0, 1))).item<double>() < 1e-12);
  }
  CHECK(newton_schulz(zeros({2, 3})).to_vector<float>() == std::vector<float>(6, 0));
  CHECK_THROWS_WITH_AS(newton_schulz(zeros({3})), doctest::Contains("must be […,m,n]"), ShapeError);
  CHECK_THROWS_WITH_AS(newton_schulz(zeros({2, 3}, {.dtype = kF16})),
                       doctest::Contains("x: f16[2,3]@cpu"), DTypeError);
}

TEST_CASE("Muon: a group with use_adamw is AdamW, bit for bit") {
  const Tensor p = param(full({5}, 0.5), kCPU), q = param(full({5}, 0.5), kCPU);
  const Tensor matrix = param(ones({2, 3}), kCPU);
  Muon muon({{.params = {matrix}}, {.params = {p}, .lr = 0.01, .use_adamw = true, .eps = 1e-3}},
            {.lr = 0.1, .weight_decay = 0.25, .betas = {0.8, 0.9}});
  AdamW adamw({q}, {.lr = 0.01, .betas = {0.8, 0.9}, .eps = 1e-3, .weight_decay = 0.25});
  for (uint64_t s = 0; s < 4; ++s) {
    Generator generator(s);
    const Tensor g = randn({5}, {}, &generator);
    for (const Tensor& t : {p, q}) t.set_grad(g);
    matrix.set_grad(ones({2, 3}));
    muon.step();
    adamw.step();
  }
  CHECK(p.to_vector<float>() == q.to_vector<float>());
  const StateDict state = muon.state_dict();
  CHECK(state.contains("state.0.exp_avg"));
  CHECK_FALSE(state.contains("state.0.exp_avg_sq"));
  CHECK(state.contains("state.1.exp_avg_sq"));
}

TEST_CASE("Muon: a group with use_sgd is SGD, bit for bit") {
  const Tensor p = param(full({5}, 0.5), kCPU), q = param(full({5}, 0.5), kCPU);
  const Tensor matrix = param(ones({2, 3}), kCPU);
  Muon muon({{.params = {matrix}},
             {.params = {p}, .lr = 0.01, .weight_decay = 0.5, .momentum = 0.85, .use_sgd = true}},
            {.lr = 0.1});
  SGD sgd({q}, {.lr = 0.01, .momentum = 0.85, .weight_decay = 0.5, .nesterov = true});
  for (uint64_t s = 0; s < 4; ++s) {
    Generator generator(s);
    const Tensor g = randn({5}, {}, &generator);
    for (const Tensor& t : {p, q}) t.set_grad(g);
    matrix.set_grad(ones({2, 3}));
    muon.step();
    sgd.step();
  }
  CHECK(p.to_vector<float>() == q.to_vector<float>());
  CHECK_FALSE(muon.state_dict().contains("state.1.exp_avg_sq"));
}

TEST_CASE("Muon: a normalised matrix has the norm sqrt(rows), masters and memory orders included") {
  Generator generator(9);
  const MuonOptions still{.lr = 0, .normalize = true};
  const auto norm_after_step = [&](const Tensor& start, const MuonOptions& options) {
    const Tensor p = param(start, kCPU);
    p.set_grad(ones_like(p.detach()));
    Muon optimizer({p}, options);
    optimizer.step();
    return norm(p.detach().to(kF64)).item<double>();
  };
  const Tensor filters = randn({9, 3, 2, 2}, {}, &generator);
  CHECK(std::abs(norm_after_step(filters, still) - 3) < 1e-6);
  CHECK(std::abs(norm_after_step(filters.contiguous(kChannelsLast), still) - 3) < 1e-6);
  CHECK(norm_after_step(zeros({4, 6}), still) == 0);

  // With a master the steps are those of f32.
  const Tensor half = param(filters.to(kBF16), kCPU), wide = param(half.detach().to(kF32), kCPU);
  Muon narrow({half}, {.lr = 0.1, .normalize = true, .master_weights = true});
  Muon reference({wide}, {.lr = 0.1, .normalize = true});
  for (int s = 0; s < 3; ++s) {
    const Tensor g = randn({9, 3, 2, 2}, {}, &generator).to(kBF16);
    half.set_grad(g);
    wide.set_grad(g.to(kF32));
    narrow.step();
    reference.step();
  }
  CHECK(narrow.state_dict().at("state.0.master_param").to_vector<float>() ==
        wide.to_vector<float>());
}

TEST_CASE("Muon: a skipped step changes nothing") {
  Generator generator(6);
  const Tensor whole = param(randn({4, 6}, {}, &generator), kCPU);
  Muon optimizer({whole}, {.lr = 0.1});
  whole.set_grad(randn({4, 6}, {}, &generator));
  optimizer.step();
  const auto before = everything({whole}, optimizer);
  optimizer.step({.found_inf = ones({})});
  CHECK(everything({whole}, optimizer) == before);
}

TEST_CASE("Muon: half parameters with masters are the rounded values of an f32 run") {
  Generator generator(7);
  const Tensor start = randn({4, 6}, {}, &generator).to(kBF16),
               g = randn({4, 6}, {}, &generator).to(kBF16);
  const Tensor half = param(start, kCPU), wide = param(start.to(kF32), kCPU);
  half.set_grad(g);
  wide.set_grad(g.to(kF32));
  Muon narrow({half}, {.lr = 0.1, .master_weights = true}), reference({wide}, {.lr = 0.1});
  for (int s = 0; s < 3; ++s) {
    narrow.step();
    reference.step();
  }
  CHECK(half.to_vector<float>() == wide.to(kBF16).to_vector<float>());
  CHECK(narrow.state_dict().at("state.0.master_param").to_vector<float>() ==
        wide.to_vector<float>());
}

TEST_CASE("Muon: vectors need use_adamw, and bad options are refused by name") {
  const Tensor vector = param(ones({3}), kCPU), matrix = param(ones({2, 3}), kCPU);
  CHECK_THROWS_WITH_AS(Muon({matrix, vector}),
                       doctest::Contains("parameter 1 of group 0 is no matrix, so its group needs "
                                         "use_adamw or use_sgd"),
                       ValueError);
  CHECK_THROWS_WITH_AS(Muon({matrix}, {.use_adamw = true, .use_sgd = true}),
                       doctest::Contains("a group has both use_adamw and use_sgd"), ValueError);
  CHECK_NOTHROW(Muon({vector}, {.use_adamw = true}));
  CHECK_THROWS_WITH_AS(Muon({matrix}, {.momentum = 1}),
                       doctest::Contains("Muon: momentum must be in [0,1), got 1"), ValueError);
  const Tensor filters = permute(empty({3, 2, 4}), {1, 0, 2}).detach().requires_grad_();
  filters.set_grad(ones({2, 3, 4}));
  Muon optimizer({filters});
  CHECK_THROWS_WITH_AS(optimizer.step(), doctest::Contains("neither by rows nor by columns"),
                       StateError);
}

TEST_CASE("split_for_muon: filters and matrices but the head, embeddings and norms") {
  auto model = nn::resnet8({.classes = 10});
  const MuonSplit split = split_for_muon(model);
  for (const Tensor& p : split.hidden) CHECK(p.ndim() == 4);
  CHECK(split.hidden.size() + split.others.size() == model.parameters().size());
  CHECK(split.others.back().dim(0) == 10);  // fc.bias
  nn::Sequential text;
  text.add<nn::Embedding>(7, 4);
  text.add<nn::Linear>(4, 5);
  text.add<nn::LayerNorm>(Shape{3, 5});
  text.add<nn::Linear>(5, 7);
  const MuonSplit words = split_for_muon(text);
  REQUIRE(words.hidden.size() == 1);
  CHECK(words.hidden[0].shape() == Shape{5, 4});
  CHECK(words.others.size() == 6);
}

TEST_CASE("split_for_muon: tokens, position tables and scales are no hidden matrices") {
  const auto others_of = [](nn::Module& model) {
    std::vector<std::string> names;
    const MuonSplit split = split_for_muon(model);
    for (const auto& [name, p] : model.named_parameters()) {
      const bool is_other =
          std::ranges::any_of(split.others, [&](const Tensor& o) { return o.is_same(p); });
      // A norm, a bias and the head are others in any case.
      if (is_other && p.ndim() > 1 && p.dim(0) != 10) names.push_back(name);
    }
    return names;
  };
  nn::VisionTransformer vit({.patch_size = 4, .layers = 1, .heads = 2, .hidden = 8, .mlp = 16},
                            {.classes = 10, .image_size = 8});
  CHECK(others_of(vit) == std::vector<std::string>{"class_token", "encoder.pos_embedding"});
  const MuonSplit split = split_for_muon(vit);
  CHECK(split.hidden.size() == 1 + 4);  // patches; in_proj, out_proj and the MLP's two
  nn::Sequential convnext;
  convnext.add<nn::ConvNeXtBlock>(4, 1e-6, 0.0);
  convnext.add<nn::Linear>(4, 10);
  CHECK(others_of(convnext) == std::vector<std::string>{"0.layer_scale"});
  CHECK(split_for_muon(convnext).hidden.size() == 3);  // the depthwise filters, two matrices
}

TEST_CASE("Muon: a GPU gives the CPU's values, captured too" * cuda_case()) {
  const Device device(DeviceType::kCUDA);
  const std::vector<Shape> shapes = {{4, 6}, {6, 3, 2}, {4, 6}};
  const auto make_params = [&](Device on) {
    Generator generator(8);
    Tensors out;
    for (const Shape& shape : shapes) {
      out.push_back(param(randn(shape, {}, &generator), on));
      out.back().set_grad(randn(shape, {}, &generator).to(on));
    }
    return out;
  };
  const Tensors host = make_params(kCPU), eager = make_params(device),
                captured = make_params(device);
  Muon first(host, kPlain), second(eager, kPlain), third(captured, kPlain);
  third.set_capturable();
  third.step();
  lathe::cuda::Graph graph(device);
  graph.capture([&] { third.step(); });
  for (int s = 0; s < 3; ++s) {
    if (s > 0) graph.launch();
    first.step();
    second.step();
  }
  CHECK(everything(captured, third) == everything(eager, second));
  for (size_t i = 0; i < host.size(); ++i)
    check_near(eager[i].to_vector<double>(), host[i].to_vector<double>(), 1e-5);
  const auto before = everything(eager, second);
  second.step({.found_inf = ones({}, {.device = device})});
  CHECK(everything(eager, second) == before);
}
