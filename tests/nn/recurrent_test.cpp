// LSTM, GRU, RNN, their cells and packed sequences: PyTorch's results, and what is refused.
#include "lathe/nn/recurrent.h"

#include <cmath>
#include <string>
#include <vector>

#include "lathe/autograd/autocast.h"
#include "lathe/autograd/engine.h"
#include "lathe/autograd/grad_mode.h"
#include "lathe/core/formats/safetensors.h"
#include "lathe/core/random/generator.h"
#include "lathe/graph/trace.h"
#include "lathe/nn/embedding.h"
#include "lathe/nn/functional_call.h"
#include "lathe/nn/linear.h"
#include "lathe/nn/recurrent_cell.h"
#include "lathe/nn/summary.h"
#include "lathe/ops/inplace.h"
#include "lathe/ops/isclose.h"
#include "lathe/ops/losses/cross_entropy.h"
#include "lathe/ops/unary.h"
#include "lathe/optim/adam.h"
#include "lathe/tests/ops/compare.h"

using namespace lathe;
using namespace lathe::nn::utils::rnn;
using doctest::Contains;
using test::difference;

namespace {

/// The entries of a case in golden_recurrent.safetensors.
StateDict golden(const std::string& name) {
  static const StateDict all = safetensors::read(LATHE_GOLDEN_RECURRENT).tensors;
  StateDict out;
  for (const auto& [key, t] : all) {
    if (key.starts_with(name + ".")) out.add(key.substr(name.size() + 1), t.clone());
  }
  return out;
}

StateDict below(const StateDict& all, const std::string& prefix) {
  StateDict out;
  for (const auto& [key, t] : all) {
    if (key.starts_with(prefix)) out.add(key.substr(prefix.size()), t);
  }
  return out;
}

Tensor leaf(const StateDict& all, const char* name) {
  return all.contains(name) ? all[name].requires_grad_() : Tensor();
}

/// Calls a layer or a cell.   → y, h and, of LSTM, c
template <class Layer>
Tensors results_of(Layer& layer, const Tensor& x, const Tensor& h, const Tensor& c) {
  if constexpr (std::is_same_v<Layer, nn::LSTM>) {
    const auto [y, state] = layer(x, {h, c});
    return {y, state.h, state.c};
  } else if constexpr (std::is_same_v<Layer, nn::LSTMCell>) {
    const nn::LSTMState state = layer(x, {h, c});
    return {state.h, state.h, state.c};
  } else if constexpr (std::is_base_of_v<nn::RecurrentCell, Layer>) {
    const Tensor y = layer(x, h);
    return {y, y};
  } else {
    const auto [y, end] = layer(x, h);
    return {y, end};
  }
}

template <class Layer>
Tensors results_of_packed(Layer& layer, const Tensor& x, const Tensor& h, const Tensor& c,
                          const Tensor& lengths, bool batch_first) {
  const PackedSequence packed =
      pack_padded_sequence(x, lengths, {.batch_first = batch_first, .enforce_sorted = false});
  Tensors ends;
  PackedSequence y;
  if constexpr (std::is_same_v<Layer, nn::LSTM>) {
    const auto [out, state] = layer(packed, {h, c});
    y = out;
    ends = {state.h, state.c};
  } else {
    const auto [out, end] = layer(packed, h);
    y = out;
    ends = {end};
  }
  const PaddedSequence padded =
      pad_packed_sequence(y, {.batch_first = batch_first, .padding_value = 0.5});
  CHECK(padded.lengths == lengths.to_vector<int64_t>());
  ends.insert(ends.begin(), padded.x);
  return ends;
}

Tensor counted(const Tensor& like) {
  return arange(like.numel(), {.dtype = kF64}).view(like.shape());
}

/// Results and gradients of a case are PyTorch's.
template <class Layer>
void check_golden(const char* name, Layer layer, bool batch_first = false) {
  CAPTURE(name);
  const StateDict g = golden(name);
  const StateDict weights = below(g, "model.");
  layer.to(kF64).eval();
  layer.load_state_dict(weights);
  const Tensor x = leaf(g, "x"), h = leaf(g, "h"), c = leaf(g, "c");
  Tensors got;
  if constexpr (!std::is_base_of_v<nn::RecurrentCell, Layer>) {
    if (g.contains("lengths")) got = results_of_packed(layer, x, h, c, g["lengths"], batch_first);
  }
  if (got.empty()) got = results_of(layer, x, h, c);
  const char* const names[] = {"y", "hn", "cn"};
  Tensor loss = sum(got[0] * sin(counted(got[0]))) + sum(got[1] * cos(counted(got[1])));
  if (got.size() == 3) loss = loss + sum(got[2]);
  for (size_t i = 0; i < got.size(); ++i) {
    CAPTURE(names[i]);
    CHECK(got[i].shape() == g[names[i]].shape());
    CHECK(difference(got[i], g[names[i]].to_vector<double>(), 1e-13) == "");
  }
  loss.backward();
  const auto check_grad = [&](const std::string& of, const Tensor& t) {
    CAPTURE(of);
    CHECK(difference(t.grad(), g["grad." + of].to_vector<double>(), 1e-13) == "");
  };
  check_grad("x", x);
  if (h.defined()) check_grad("h", h);
  if (c.defined()) check_grad("c", c);
  for (const auto& [of, p] : layer.named_parameters()) check_grad(of, p);
}

}  // namespace

TEST_CASE("recurrent layers: results and gradients are PyTorch's") {
  using nn::RNNActivation;
  check_golden("lstm", nn::LSTM(2, 3, {.num_layers = 2}));
  check_golden(
      "lstm_both_ways",
      nn::LSTM(2, 3, {.num_layers = 2, .bias = false, .batch_first = true, .bidirectional = true}));
  check_golden("lstm_projected",
               nn::LSTM(2, 3, {.num_layers = 2, .bidirectional = true, .proj_size = 2}));
  check_golden("lstm_single", nn::LSTM(2, 3, {.batch_first = true}));
  check_golden("gru", nn::GRU(2, 3, {.num_layers = 2, .bidirectional = true}));
  check_golden("gru_single", nn::GRU(2, 3, {.bias = false}));
  check_golden("rnn", nn::RNN(2, 3, {.num_layers = 2, .dropout = 0.5}));
  check_golden("rnn_relu",
               nn::RNN(2, 3, {.nonlinearity = RNNActivation::kReLU, .bidirectional = true}));
}

TEST_CASE("recurrent layers: of packed sequences, results and gradients are PyTorch's") {
  check_golden(
      "lstm_packed",
      nn::LSTM(2, 3, {.num_layers = 2, .batch_first = true, .bidirectional = true, .proj_size = 2}),
      true);
  check_golden("gru_packed", nn::GRU(2, 3, {.bidirectional = true}));
  check_golden("rnn_packed", nn::RNN(2, 3, {.batch_first = true}), true);
}

TEST_CASE("recurrent cells: results and gradients are PyTorch's") {
  check_golden("lstm_cell", nn::LSTMCell(2, 3));
  check_golden("lstm_cell_single", nn::LSTMCell(2, 3, {.bias = false}));
  check_golden("gru_cell", nn::GRUCell(2, 3));
  check_golden("rnn_cell", nn::RNNCell(2, 3, {.nonlinearity = nn::RNNActivation::kReLU}));
}

TEST_CASE("recurrent layers: gradients of parameters agree with finite differences") {
  struct Net final : nn::Module {
    nn::LSTM lstm{*this, "lstm", 2, 2, {.bidirectional = true}};
    nn::GRUCell cell{*this, "cell", 4, 2};
    Tensor forward(const Tensor& x) override { return cell(lstm(x).first[-1]); }
  } net;
  manual_seed(2);
  net.to(kF64);
  const Tensor x = test::f64({3, 2, 2});
  std::vector<std::string> names;
  Tensors values;
  for (const auto& [name, p] : net.named_parameters()) {
    names.push_back(name);
    values.push_back(p.detach().clone());
  }
  const GradReport report = gradcheck(
      [&](const Tensors& in) {
        nn::Module::Named<Tensor> tensors;
        for (size_t i = 0; i < in.size(); ++i) tensors.emplace_back(names[i], in[i]);
        return square(nn::functional_call(net, tensors, x));
      },
      values);
  CHECK_MESSAGE(report.ok, report.text);
}

TEST_CASE("recurrent layers: ten steps of a character LSTM have PyTorch's losses") {
  struct Net final : nn::Module {
    nn::Embedding characters{*this, "characters", 9, 6};
    nn::LSTM lstm{*this, "lstm", 6, 8, {.num_layers = 2}};
    nn::Linear head{*this, "head", 8, 9};
    Tensor forward(const Tensor& text) override { return head(lstm(characters(text)).first); }
  } net;
  const StateDict g = golden("steps");
  net.load_state_dict(below(g, "model."));
  const Tensor text = g["text"], in = text.slice(0, 0, 12), next = text.slice(0, 1);
  optim::Adam opt(net.parameters(), {.lr = 0.05});
  for (const double want : g["losses"].to_vector<double>()) {
    const Tensor loss = cross_entropy(net(in).flatten(0, 1), next.flatten());
    CHECK(std::fabs(loss.item<double>() - want) <= 1e-5);
    opt.zero_grad();
    loss.backward();
    opt.step();
  }
}

TEST_CASE("recurrent layers: parameters have PyTorch's names, in its order") {
  const nn::LSTM lstm(2, 3, {.bidirectional = true, .proj_size = 2});
  std::string names;
  for (const auto& [name, p] : lstm.named_parameters()) names += name + " ";
  CHECK(names ==
        "weight_ih_l0 weight_hh_l0 bias_ih_l0 bias_hh_l0 weight_hr_l0 weight_ih_l0_reverse "
        "weight_hh_l0_reverse bias_ih_l0_reverse bias_hh_l0_reverse weight_hr_l0_reverse ");
}

TEST_CASE("recurrent layers: initial values, dropout between layers, multiply-adds") {
  manual_seed(3);
  nn::LSTM lstm(20, 25, {.num_layers = 2, .dropout = 0.5, .bidirectional = true, .proj_size = 7});
  double largest = 0;
  for (const Tensor& p : lstm.parameters()) {
    largest = std::max(largest, p.detach().abs().max().item<double>());
  }
  CHECK(largest <= 0.2);  // 1 / sqrt(25)
  CHECK(largest > 0.199);
  const Tensor x = randn({3, 2, 20});
  CHECK_FALSE(equal(lstm(x).first, lstm(x).first));
  lstm.eval();
  CHECK(equal(lstm(x).first, lstm(x).first));
  const int64_t macs = nn::summary(lstm, [&] { lstm(x); }).macs;
  CHECK(macs == 6 * 2 * (100 * 20 + 100 * 7 + 25 * 7 + 100 * 14 + 100 * 7 + 25 * 7));
  CHECK(nn::summary(lstm, [&] { lstm(pack_sequence({x[0], x[1]})); }).macs == macs / 6 * 4);
  nn::GRUCell cell(4, 5);
  CHECK(nn::summary(cell, [&] { cell(zeros({3, 4})); }).macs == 3 * 15 * (4 + 5));
}

TEST_CASE("recurrent layers: dropout stands between layers alone, of packed sequences too") {
  manual_seed(5);
  const Tensor x = randn({4, 2, 3}), nothing = zeros({4, 2, 4});
  const auto packed = [](const Tensor& t) { return pack_padded_sequence(t, {4, 3}); };
  nn::GRU one(3, 4, {.dropout = 0.5});
  CHECK(equal(one(x).first, one(x).first));
  CHECK(equal(one(packed(x)).first.data, one(packed(x)).first.data));
  // If all that the first layer gives is dropped, the second one sees zeros.
  nn::GRU both(3, 4, {.num_layers = 2, .dropout = 1}), second(4, 4);
  second.weights[0].weight_ih = both.weights[1].weight_ih.detach();
  second.weights[0].weight_hh = both.weights[1].weight_hh.detach();
  second.weights[0].bias_ih = both.weights[1].bias_ih.detach();
  second.weights[0].bias_hh = both.weights[1].bias_hh.detach();
  CHECK(allclose(both(x).first, second(nothing).first));
  CHECK(allclose(both(packed(x)).first.data, second(packed(nothing)).first.data));
}

TEST_CASE("recurrent layers: under Autocast") {
  manual_seed(6);
  const Tensor x = randn({4, 2, 3});
  nn::LSTM lstm(3, 4);
  nn::GRU gru(3, 4);
  const Tensor of_lstm = lstm(x).first, of_gru = gru(x).first;
  const Autocast half(kCPU, kBF16);
  CHECK(allclose(lstm(x).first.to(kF32), of_lstm, {.rtol = 0.05, .atol = 0.02}));
  CHECK(allclose(gru(x).first.to(kF32), of_gru, {.rtol = 0.05, .atol = 0.02}));
  const PackedSequence packed = pack_padded_sequence(x, {4, 3});
  CHECK(allclose(lstm(packed).first.data.narrow(0, 0, 6).to(kF32),
                 of_lstm.narrow(0, 0, 3).reshape({6, 4}), {.rtol = 0.05, .atol = 0.02}));
}

TEST_CASE("recurrent layers: a trace runs for other batches, and a moved layer keeps its weights") {
  struct Net final : nn::Module {
    nn::LSTM lstm{*this, "lstm", 3, 4, {.num_layers = 2, .batch_first = true}};
    nn::GRU gru{*this, "gru", 4, 5, {.batch_first = true, .bidirectional = true}};
    nn::RNN rnn{*this, "rnn", 10, 3, {.batch_first = true}};
    nn::LSTMCell cell{*this, "cell", 3, 2};
    Tensor forward(const Tensor& x) override {
      return cell(rnn(gru(lstm(x).first).first).second[0]).h;
    }
  } net;
  manual_seed(4);
  net.lstm = nn::LSTM(3, 4, {.batch_first = true});
  CHECK(net.named_parameters().front().first == "lstm.weight_ih_l0");
  net.lstm.weights[0].weight_ih = ones({16, 3});
  CHECK(net.state_dict()["lstm.weight_ih_l0"].sum().item<double>() == 48);
  net.eval();
  const NoGrad off;
  const jit::Graph graph = jit::trace(net, randn({2, 5, 3}));
  const Tensor x = randn({7, 5, 3});
  CHECK(allclose(graph.run({x})[0], net(x)));
}

TEST_CASE("packed sequences: are what PyTorch packs, and come back") {
  const Tensor x = arange(12, {.dtype = kF64}).view({3, 4, 1});  // [T,N,1]: 4 t + n
  const PackedSequence p = pack_padded_sequence(x, {1, 3, 3, 2}, {.enforce_sorted = false});
  CHECK(p.data.view({-1}).to_vector<double>() == std::vector<double>{1, 2, 3, 0, 5, 6, 7, 9, 10});
  CHECK(p.batch_sizes == std::vector<int64_t>{4, 3, 2});
  CHECK(p.sorted_indices == std::vector<int64_t>{1, 2, 3, 0});
  CHECK(p.unsorted_indices == std::vector<int64_t>{3, 0, 1, 2});
  const PaddedSequence back =
      pad_packed_sequence(p, {.batch_first = true, .padding_value = -1, .total_length = 4});
  CHECK(back.lengths == std::vector<int64_t>{1, 3, 3, 2});
  CHECK(back.x.view({4, 4}).to_vector<double>() ==
        std::vector<double>{0, -1, -1, -1, 1, 5, 9, -1, 2, 6, 10, -1, 3, 7, -1, -1});
  const Tensors sequences{ones({2, 2}), zeros({1, 2})};
  CHECK(pad_sequence(sequences, {.batch_first = true, .padding_value = 3}).to_vector<double>() ==
        std::vector<double>{1, 1, 1, 1, 0, 0, 3, 3});
  CHECK(pad_sequence(sequences).shape() == Shape{2, 2, 2});
  CHECK(pack_sequence(sequences).data.to_vector<double>() == std::vector<double>{1, 1, 0, 0, 1, 1});
}

TEST_CASE("recurrent layers: what does not fit is named") {
  CHECK_THROWS_WITH_AS(nn::LSTM(0, 3), Contains("an input_size of 0"), ValueError);
  CHECK_THROWS_WITH_AS(nn::LSTM(2, 3, {.proj_size = 3}), Contains("proj_size must be in [0,3)"),
                       ValueError);
  CHECK_THROWS_WITH_AS(nn::GRU(2, 3, {.dropout = 1.5}), Contains("got 1.5"), ValueError);
  CHECK_THROWS_WITH_AS(nn::RNNCell(2, -1), Contains("a hidden_size of -1"), ValueError);
  nn::LSTM lstm(2, 3, {.batch_first = true});
  CHECK_THROWS_WITH_AS(lstm(zeros({4, 5, 3})),
                       Contains("LSTM: expected [N,T,2] or [T,2] (x: f32[4,5,3]"), ShapeError);
  CHECK_THROWS_WITH_AS(lstm(zeros({4, 5, 2}), {.h = zeros({1, 5, 3})}),
                       Contains("expected the state h to be [1,4,3]"), ShapeError);
  CHECK_THROWS_WITH_AS(lstm(zeros({5, 2}), {.c = zeros({1, 1, 3})}),
                       Contains("expected the state c to be [1,3]"), ShapeError);
  nn::GRUCell cell(2, 3);
  CHECK_THROWS_WITH_AS(cell(zeros({4, 3})), Contains("expected [N,2] or [2]"), ShapeError);
  CHECK_THROWS_WITH_AS(cell(zeros({4, 2}), zeros({3, 3})), Contains("h to be [4,3]"), ShapeError);
  const Tensor x = zeros({4, 2, 2});
  CHECK_THROWS_WITH_AS(pack_padded_sequence(x, {3}), Contains("each of 1 lengths"), ShapeError);
  CHECK_THROWS_WITH_AS(pack_padded_sequence(x, {3, 5}), Contains("in [1,4], got 5"), ValueError);
  CHECK_THROWS_WITH_AS(pack_padded_sequence(x, {3, 4}), Contains("length 4 comes after 3"),
                       ValueError);
  CHECK_THROWS_AS(pack_padded_sequence(x, tensor({3.0, 2.0})), DTypeError);
  PackedSequence packed = pack_padded_sequence(x, {3, 2});
  CHECK_THROWS_WITH_AS(pad_packed_sequence(packed, {.total_length = 2}),
                       Contains("the longest sequence has 3"), ValueError);
  packed.batch_sizes = {2, 3};
  CHECK_THROWS_WITH_AS(lstm(packed), Contains("must not grow, got 2 first and 3 last"), ValueError);
  packed.batch_sizes = {2, 2};
  CHECK_THROWS_WITH_AS(lstm(packed), Contains("batch_sizes add up to 4"), ValueError);
  packed = pack_padded_sequence(x, {3, 2});
  packed.sorted_indices = {0, 0};
  packed.unsorted_indices = {0, 1};
  CHECK_THROWS_WITH_AS(lstm(packed), Contains("permutations of the 2 sequences"), ValueError);
  CHECK_THROWS_AS(pad_sequence({}), ValueError);
  // A forward hook would have to know of the states.
  CHECK_THROWS_AS(lstm.register_forward_pre_hook([](nn::Module&, const Tensor& t) { return t; }),
                  StateError);
}
