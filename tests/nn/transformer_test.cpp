// Attention with masks, weights and a cache, and the Transformer's layers: PyTorch's results.
#include "lathe/nn/transformer.h"

#include <limits>
#include <string>
#include <vector>

#include "lathe/autograd/autocast.h"
#include "lathe/autograd/grad_mode.h"
#include "lathe/core/formats/safetensors.h"
#include "lathe/core/random/generator.h"
#include "lathe/graph/trace.h"
#include "lathe/nn/init.h"
#include "lathe/nn/norm.h"
#include "lathe/nn/summary.h"
#include "lathe/ops/inplace.h"
#include "lathe/ops/isclose.h"
#include "lathe/ops/join.h"
#include "lathe/ops/rotary.h"
#include "lathe/ops/triangle.h"
#include "lathe/ops/unary.h"
#include "lathe/tests/ops/compare.h"

using namespace lathe;
using doctest::Contains;
using test::difference;
using test::f64;

namespace {

/// A case of golden_transformer.safetensors.
class Golden {
 public:
  explicit Golden(const std::string& name) {
    static const StateDict all = safetensors::read(LATHE_GOLDEN_TRANSFORMER).tensors;
    for (const auto& [key, t] : all) {
      if (key.starts_with(name + ".")) entries_.add(key.substr(name.size() + 1), t.clone());
    }
  }
  Tensor operator[](const std::string& name) const { return entries_[name]; }
  /// An argument of the call, whose gradient check() compares.
  Tensor argument(const std::string& name) {
    leaves_.emplace_back(name, entries_[name].requires_grad_());
    return leaves_.back().second;
  }
  void load(nn::Module& m) const {
    StateDict state;
    for (const auto& [key, t] : entries_) {
      if (key.starts_with("model.")) state.add(key.substr(6), t);
    }
    m.to(kF64).eval();
    m.load_state_dict(state);
  }
  void check(const Tensor& y, const nn::Module& m) const {
    CHECK(y.shape() == entries_["y"].shape());
    CHECK(difference(y, entries_["y"].to_vector<double>(), 1e-13) == "");
    sum(y * sin(arange(y.numel(), {.dtype = kF64}).view(y.shape()))).backward();
    for (const auto& list : {leaves_, m.named_parameters()}) {
      for (const auto& leaf : list) {
        CAPTURE(leaf.first);
        const Tensor want = entries_["grad." + leaf.first];
        CHECK(difference(leaf.second.grad(), want.to_vector<double>(), 1e-12) == "");
      }
    }
  }

 private:
  StateDict entries_;
  nn::Module::Named<Tensor> leaves_;
};

void check_attention(const char* name, const nn::MultiheadAttentionOptions& options,
                     const std::vector<const char*>& masks, bool average = true) {
  CAPTURE(name);
  for (const bool weighted : {false, true}) {
    CAPTURE(weighted);
    Golden g(name);
    nn::MultiheadAttention m(4, 2, options);
    g.load(m);
    const Tensor q = g.argument("query"), k = g.argument("key"), v = g.argument("value");
    nn::AttentionMask mask;
    for (const std::string of : masks)
      (of == "attn_mask" ? mask.attn_mask : mask.key_padding_mask) = g[of];
    if (!weighted) {
      g.check(m(q, k, v, mask), m);
      continue;
    }
    const auto [y, weights] = m.with_weights(q, k, v, mask, {.average_attn_weights = average});
    g.check(y, m);
    CHECK(weights.shape() == g["weights"].shape());
    CHECK(difference(weights, g["weights"].to_vector<double>(), 1e-13) == "");
  }
}

}  // namespace

TEST_CASE("MultiheadAttention: masks of keys and of pairs, and the weights, are PyTorch's") {
  check_attention("padded", {}, {"attn_mask", "key_padding_mask"});
  check_attention("by_heads", {.bias = false}, {"attn_mask", "key_padding_mask"}, false);
  check_attention("mixed", {.batch_first = false}, {"attn_mask", "key_padding_mask"});
  check_attention("single", {}, {"key_padding_mask"});
}

TEST_CASE("MultiheadAttention: is_causal is the mask of later keys; weights of nothing are 0") {
  manual_seed(1);
  nn::MultiheadAttention m(4, 2);
  m.to(kF64);
  const Tensor x = f64({2, 3, 4}), later = ones({3, 3}, kBool).triu(1);
  const Tensor want = m(x, x, x, {.attn_mask = later});
  CHECK(allclose(m(x, x, x, {.is_causal = true}), want));
  // N is the number of heads: a mask of each sample must not become one of each head.
  CHECK_THROWS_WITH_AS(m(x, x, x, {.attn_mask = zeros({2, 3, 3}, kBool)}),
                       Contains("must begin with N*heads = 4 or with 1"), ShapeError);
  CHECK(allclose(m(x, x, x, {.attn_mask = later.view({1, 3, 3})}), want));
  const auto [y, weights] = m.with_weights(x, x, x, {.is_causal = true});
  CHECK(allclose(y, want));
  CHECK(weights.sum().item<double>() == doctest::Approx(6));
  CHECK(weights[0][0].to_vector<double>() == std::vector<double>{1, 0, 0});
  const auto [z, none] = m.with_weights(x, x, x, {.attn_mask = ones({3, 3}, kBool)});
  CHECK(none.sum().item<double>() == 0);
  CHECK(difference(z, zeros({2, 3, 4}).to_vector<double>(), 0) == "");  // out_proj.bias
  int64_t calls = 0;
  m.register_call_hook([&](nn::Module&, const Tensors& in, const Tensors& out) {
    ++calls;
    CHECK(in.size() == 3);
    CHECK(out.size() == 2);
  });
  m.with_weights(x, x, x);
  CHECK(calls == 1);
  CHECK_THROWS_WITH_AS(m(x, x, x, {.key_padding_mask = zeros({3, 3}, kBool)}),
                       Contains("a key_padding_mask of [2,3]"), ShapeError);
  CHECK_THROWS_AS(m(x, x, x, {.key_padding_mask = zeros({2, 3}, kI64)}), DTypeError);
}

TEST_CASE("Transformer: layers and stacks compute what PyTorch's do, with its names") {
  const nn::TransformerLayerOptions first{.dim_feedforward = 5, .batch_first = true};
  {
    Golden g("encoder_layer");
    nn::TransformerEncoderLayer m(6, 2, first);
    g.load(m);
    g.check(m(g.argument("src"),
              {.attn_mask = g["src_mask"], .key_padding_mask = g["src_key_padding_mask"]}),
            m);
  }
  nn::TransformerLayerOptions other{
      .dim_feedforward = 5, .activation = nn::TransformerActivation::kGELU, .norm_first = true};
  {
    Golden g("decoder");
    nn::TransformerDecoder m(6, 2, 2, {.layer = other});
    g.load(m);
    const Tensor tgt = g.argument("tgt");
    g.check(m(tgt, g.argument("memory")), m);
  }
  {
    Golden g("encoder_layer_norm_first");
    other.bias = false;
    other.layer_norm_eps = 1e-3;
    nn::TransformerEncoderLayer m(6, 3, other);
    g.load(m);
    g.check(m(g.argument("src")), m);
  }
  {
    Golden g("encoder");
    nn::TransformerEncoder m(6, 2, 2, {.layer = first, .norm = true});
    g.load(m);
    g.check(m(g.argument("src"), {.attn_mask = g["mask"]}), m);
  }
  {
    Golden g("decoder_layer");
    nn::TransformerDecoderLayer m(6, 2, first);
    g.load(m);
    const Tensor tgt = g.argument("tgt");
    g.check(m(tgt, g.argument("memory"),
              {.tgt = {.attn_mask = g["tgt_mask"]},
               .memory = {.key_padding_mask = g["memory_key_padding_mask"]}}),
            m);
  }
}

TEST_CASE("RMSNorm: values and gradients are PyTorch's") {
  Golden with_eps("rms_norm");
  nn::RMSNorm m({6}, {.eps = 0.25});
  with_eps.load(m);
  with_eps.check(m(with_eps.argument("x")), m);
  Golden by_default("rms_norm_default");
  nn::RMSNorm both({4, 6});
  by_default.load(both);
  by_default.check(both(by_default.argument("x")), both);
  CHECK(nn::RMSNorm({6}, {.affine = false}).parameters().empty());
  CHECK(nn::LayerNorm({6}, {.bias = false}).parameters().size() == 1);
  CHECK(nn::GroupNorm(2, 6, {.bias = false}).parameters().size() == 1);
}

TEST_CASE("Transformer: decoding with a cache gives the rows of the whole sequence") {
  manual_seed(2);
  for (const bool batch_first : {false, true}) {
    CAPTURE(batch_first);
    nn::TransformerEncoder m(
        8, 2, 2, {.layer = {.dim_feedforward = 5, .batch_first = batch_first, .norm_first = true}});
    m.to(kF64);
    const Tensor x = batch_first ? f64({2, 7, 8}) : f64({7, 2, 8});
    const int64_t tokens = batch_first ? 1 : 0;
    m.eval();
    const Tensor whole = m(x, {.is_causal = true});
    std::vector<nn::KeyValueCache> caches;
    Tensors rows;
    int64_t start = 0;
    for (const int64_t count : {3, 1, 1, 2}) {
      rows.push_back(m.decode(x.narrow(tokens, start, count), caches));
      start += count;
    }
    CHECK_FALSE(rows[0].requires_grad());
    CHECK(caches[1].length() == 7);
    CHECK(difference(cat(rows, tokens), whole.contiguous().to_vector<double>(), 1e-13) == "");
    CHECK_THROWS_WITH_AS(m.decode(batch_first ? f64({3, 1, 8}) : f64({1, 3, 8}), caches),
                         Contains("do not fit the 7 tokens"), ShapeError);
    caches[0].clear();
    CHECK(caches[0].length() == 0);
    caches.pop_back();
    CHECK_THROWS_WITH_AS(m.decode(x, caches), Contains("1 caches for 2 layers"), ValueError);
  }
}

TEST_CASE("KeyValueCache: copies are decoded apart") {
  manual_seed(4);
  nn::TransformerEncoder m(8, 2, 2, {.layer = {.dim_feedforward = 5, .batch_first = true}});
  m.to(kF64);
  m.eval();
  const Tensor start = f64({1, 3, 8}), next = f64({1, 1, 8}), a = f64({1, 1, 8}),
               b = f64({1, 1, 8}), c = f64({1, 1, 8});
  std::vector<nn::KeyValueCache> caches;
  m.decode(start, caches);
  m.decode(next, caches);  // now there is room for more tokens, which copies must not share
  std::vector<nn::KeyValueCache> fork = caches;
  m.decode(a, caches);
  m.decode(b, fork);
  const auto last_row = [&](const Tensor& before) {
    return m(cat({start, next, before, c}, 1), {.is_causal = true}).narrow(1, 5, 1);
  };
  CHECK(allclose(m.decode(c, caches), last_row(a), {.rtol = 1e-12, .atol = 1e-12}));
  CHECK(allclose(m.decode(c, fork), last_row(b), {.rtol = 1e-12, .atol = 1e-12}));
}

TEST_CASE("Transformer: a decode that throws leaves the caches as they were") {
  manual_seed(5);
  nn::TransformerEncoder m(8, 2, 2, {.layer = {.dim_feedforward = 5, .batch_first = true}});
  const Tensor start = randn({1, 3, 8}), next = randn({1, 1, 8});
  std::vector<nn::KeyValueCache> caches;
  CHECK_THROWS_WITH_AS(m.decode(start, caches), Contains("call eval()"), StateError);
  m.eval();
  int64_t calls = 0;
  const auto count = [&](nn::Module&, const Tensors& in, const Tensors& out) {
    calls += in.size() == 1 && out.size() == 1;
  };
  m.register_call_hook(count);
  m.layers[0].register_call_hook(count);
  m.decode(start, caches);
  CHECK(calls == 2);
  const int64_t hook = m.layers[1].self_attn.register_call_hook(
      [](nn::Module&, const Tensors&, const Tensors&) { throw ValueError("no"); });
  CHECK_THROWS_AS(m.decode(next, caches), ValueError);
  for (const nn::KeyValueCache& cache : caches) CHECK(cache.length() == 3);
  m.layers[1].self_attn.remove_hook(hook);
  const Tensor want = m(cat({start, next}, 1), {.is_causal = true}).narrow(1, 3, 1);
  CHECK(allclose(m.decode(next, caches), want, {.rtol = 1e-4, .atol = 1e-5}));
  caches[1].truncate(3);
  CHECK_THROWS_WITH_AS(m.decode(next, caches), Contains("caches of 4 and of 3 tokens"), ValueError);
  CHECK_THROWS_WITH_AS(caches[1].truncate(4), Contains("truncate(4) of 3 tokens"), ValueError);
  const Tensor key = zeros({1, 2, 1, 4}, kF64);
  CHECK_THROWS_WITH_AS(caches[1].append(key, key), Contains("another dtype"), DTypeError);
  CHECK(caches[1].length() == 3);
}

TEST_CASE("Transformer: a dropout of everything leaves the norms alone") {
  manual_seed(6);
  const nn::TransformerLayerOptions all{.dim_feedforward = 5, .dropout = 1};
  nn::TransformerEncoderLayer encoder(6, 2, all);
  nn::TransformerDecoderLayer decoder(6, 2, all);
  // Without the weights of attention, its result is this bias.
  for (nn::MultiheadAttention* m :
       {&encoder.self_attn, &decoder.self_attn, &decoder.multihead_attn}) {
    nn::init::normal_(m->out_proj.bias, 0, 1);
  }
  const Tensor x = randn({4, 2, 6});
  CHECK(allclose(encoder(x), encoder.norm2(encoder.norm1(x))));
  CHECK(allclose(decoder(x, x), decoder.norm3(decoder.norm2(decoder.norm1(x)))));
  decoder.eval();
  const Tensor later = ones({4, 4}, kBool).triu(1);
  CHECK(allclose(decoder(x, x, {.tgt = {.is_causal = true}}),
                 decoder(x, x, {.tgt = {.attn_mask = later}})));
}

TEST_CASE("Transformer: under Autocast, with a sample that is padding alone") {
  manual_seed(7);
  nn::TransformerEncoderLayer m(8, 2, {.dim_feedforward = 5, .batch_first = true});
  m.eval();
  const Tensor x = randn({2, 3, 8}), padding = zeros({2, 3});
  padding[1].fill_(std::numeric_limits<float>::lowest());
  const Tensor want = m(x, {.key_padding_mask = padding < -1.0});
  const Autocast half(kCPU, kBF16);
  const Tensor y = m(x, {.key_padding_mask = padding});
  CHECK(allclose(y.to(kF32), want, {.rtol = 0.05, .atol = 0.05}));
}

TEST_CASE("Transformer: rotary positions and RMSNorm are traced for any batch") {
  struct Net final : nn::Module {
    nn::RMSNorm norm{*this, "norm", {6}};
    Tensor forward(const Tensor& x) override { return rotary_embedding(norm(x)); }
  } net;
  manual_seed(8);
  const NoGrad off;
  const jit::Graph graph = jit::trace(net, randn({2, 5, 6}));
  const Tensor x = randn({3, 5, 6});
  CHECK(allclose(graph.run({x})[0], net(x)));
}

TEST_CASE("Transformer: dropout in training, a trace, multiply-adds, and what is refused") {
  manual_seed(3);
  struct Net final : nn::Module {
    nn::TransformerEncoder encoder{*this, "encoder", 8, 2, 2, {.layer = {.batch_first = true}}};
    Tensor forward(const Tensor& x) override { return encoder(x, {.is_causal = true}); }
  } net;
  const Tensor x = randn({2, 5, 8});
  CHECK_FALSE(equal(net(x), net(x)));
  net.eval();
  CHECK(equal(net(x), net(x)));
  const NoGrad off;
  const jit::Graph graph = jit::trace(net, x);
  const Tensor more = randn({3, 5, 8});
  CHECK(allclose(graph.run({more})[0], net(more), {.rtol = 1e-4, .atol = 1e-5}));
  // For each token 4 projections, 2 layers of 8 by 2048, and products with 5 keys twice.
  CHECK(nn::summary(net, {2, 5, 8}).macs == 2 * 10 * (4 * 64 + 2 * 8 * 2048 + 2 * 5 * 8));
  CHECK_THROWS_WITH_AS(nn::TransformerEncoder(8, 2, 0), Contains("num_layers must be positive"),
                       ValueError);
  CHECK_THROWS_AS(nn::TransformerDecoderLayer(8, 3), ValueError);
}
