// Parameters and states of the recurrent layers. The op runs a whole stack; of packed sequences it
// runs the steps between which the number of sequences stays.
#include "lathe/nn/recurrent.h"

#include <cmath>
#include <initializer_list>

#include "lathe/core/error.h"
#include "lathe/core/hooks/watch.h"
#include "lathe/nn/init.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/dropout.h"
#include "lathe/ops/index.h"
#include "lathe/ops/join.h"
#include "lathe/ops/views.h"
#include "lathe/ops/where.h"

namespace lathe::nn {

using utils::rnn::PackedSequence;

namespace {

Tensor chosen(const Tensor& x, int64_t dim, const std::vector<int64_t>& index) {
  return index_select(x, dim, tensor(index, {.device = x.device()}));
}

/// For each element of packed data the one that takes its place if every sequence is reversed.
std::vector<int64_t> reversal(const std::vector<int64_t>& batch_sizes) {
  const std::vector<int64_t> lengths = utils::rnn::lengths_of(batch_sizes);
  std::vector<int64_t> starts, order;
  int64_t start = 0;
  for (const int64_t size : batch_sizes) {
    starts.push_back(start);
    start += size;
  }
  for (size_t t = 0; t < batch_sizes.size(); ++t) {
    for (size_t n = 0; n < static_cast<size_t>(batch_sizes[t]); ++n)
      order.push_back(starts[static_cast<size_t>(lengths[n]) - 1 - t] + static_cast<int64_t>(n));
  }
  return order;
}

LSTMOptions without_projection(const auto& o) {
  return {.num_layers = o.num_layers,
          .bias = o.bias,
          .batch_first = o.batch_first,
          .dropout = o.dropout,
          .bidirectional = o.bidirectional};
}

}  // namespace

Tensor zero_states(const Tensor& x, int64_t dim, const Shape& shape) {
  if (!profile::watched()) return zeros(shape, {.dtype = x.dtype(), .device = x.device()});
  const Tensor one = narrow(transpose(x, dim, 0), -1, 0, 1);
  const Tensor flat = select(flatten(one, 1), 1, 0);  // [N]
  const Tensor all = ones({1}, {.dtype = kBool, .device = x.device()});
  return expand(unsqueeze(masked_fill(flat, all, 0), 1), shape);
}

RecurrentLayers::RecurrentLayers(const char* name, RecurrentOp op, int64_t gates,
                                 int64_t input_size, int64_t hidden_size,
                                 const LSTMOptions& options)
    : name_(name), op_(op), input_size_(input_size), hidden_size_(hidden_size), options_(options) {
  const LSTMOptions& o = options_;
  LATHE_CHECK(ValueError, input_size > 0 && hidden_size > 0 && o.num_layers > 0, name_,
              ": sizes and num_layers must be positive, got an input_size of ", input_size,
              ", a hidden_size of ", hidden_size, " and ", o.num_layers, " layers");
  LATHE_CHECK(ValueError, o.dropout >= 0 && o.dropout <= 1, name_,
              ": dropout must be in [0,1], got ", o.dropout);
  LATHE_CHECK(ValueError, o.proj_size >= 0 && o.proj_size < hidden_size, name_,
              ": proj_size must be in [0,", hidden_size, "), got ", o.proj_size);
  const int64_t directions = o.bidirectional ? 2 : 1, rows = gates * hidden_size;
  const int64_t state = o.proj_size > 0 ? o.proj_size : hidden_size;
  for (int64_t i = 0; i < o.num_layers * directions; ++i) {
    const int64_t layer = i / directions;
    const std::string suffix =
        "_l" + std::to_string(layer) + (i % directions == 1 ? "_reverse" : "");
    const auto made = [&](const char* what, const Shape& shape) {
      return parameter(what + suffix, init::uniform_fan_in(shape, hidden_size));
    };
    RecurrentWeights& w = weights.emplace_back();
    w.weight_ih = made("weight_ih", {rows, layer == 0 ? input_size : directions * state});
    w.weight_hh = made("weight_hh", {rows, state});
    if (o.bias) {
      w.bias_ih = made("bias_ih", rows);
      w.bias_hh = made("bias_hh", rows);
    }
    if (o.proj_size > 0) w.weight_hr = made("weight_hr", {o.proj_size, hidden_size});
  }
}

std::vector<RecurrentLayer> RecurrentLayers::layers() const {
  std::vector<RecurrentLayer> out;
  for (const RecurrentWeights& w : weights)
    out.push_back({w.weight_ih, w.weight_hh, w.bias_ih, w.bias_hh, w.weight_hr});
  return out;
}

void RecurrentLayers::check_state(const char* which, const Tensor& given, const Tensor& x,
                                  const Shape& shape) const {
  LATHE_CHECK(ShapeError, !given.defined() || given.shape() == shape, name_,
              ": expected the state ", which, " to be ", shape, " (", which, ": ", given,
              ", x: ", x, ")");
}

RecurrentResult RecurrentLayers::run(const Tensor& x, const Tensor& h, const Tensor& c) const {
  const bool single = x.ndim() == 2, batch_first = options_.batch_first;
  LATHE_CHECK(ShapeError, (single || x.ndim() == 3) && x.dim(-1) == input_size_, name_,
              ": expected ", batch_first ? "[N,T," : "[T,N,", input_size_, "] or [T,", input_size_,
              "] (x: ", x, ")");
  const auto count = static_cast<int64_t>(weights.size());
  const Tensor sequences = single ? unsqueeze(x, batch_first ? 0 : 1) : x;
  const int64_t N = sequences.dim(batch_first ? 0 : 1);
  const auto state = [&](const char* which, const Tensor& given, int64_t size) {
    check_state(which, given, x, single ? Shape{count, size} : Shape{count, N, size});
    if (!given.defined()) return zero_states(sequences, batch_first ? 0 : 1, {count, N, size});
    return single ? unsqueeze(given, 1) : given;
  };
  const Tensor h0 = state("h", h, weights[0].weight_hh.dim(1));
  const Tensor c0 = op_ == lstm ? state("c", c, hidden_size_) : Tensor();
  RecurrentResult r = op_(sequences, h0, c0, layers(),
                          {.bidirectional = options_.bidirectional,
                           .batch_first = batch_first,
                           .dropout = is_training() ? options_.dropout : 0});
  if (single) {
    r.y = squeeze(r.y, batch_first ? 0 : 1);
    r.h = squeeze(r.h, 1);
    if (r.c.defined()) r.c = squeeze(r.c, 1);
  }
  return r;
}

/// One direction of a layer over packed data [sum,in], from the states h and c [N,…].
///   → data, and the states [N,…] after each sequence's own end
static RecurrentResult run_packed(RecurrentOp op, const Tensor& data,
                                  const std::vector<int64_t>& batch_sizes, Tensor h, Tensor c,
                                  const RecurrentLayer& layer) {
  Tensors ys, hs, cs;
  int64_t start = 0;
  for (size_t t = 0; t < batch_sizes.size();) {
    const size_t first = t;
    const int64_t size = batch_sizes[t];
    while (t < batch_sizes.size() && batch_sizes[t] == size) ++t;
    const auto steps = static_cast<int64_t>(t - first);
    const Tensor x = reshape(narrow(data, 0, start, steps * size), {steps, size, data.dim(1)});
    start += steps * size;
    const RecurrentResult r =
        op(x, unsqueeze(h, 0), c.defined() ? unsqueeze(c, 0) : c, {layer}, {});
    ys.push_back(flatten(r.y, 0, 1));
    // The last sequences end here, the first ones go on.
    const int64_t rest = t < batch_sizes.size() ? batch_sizes[t] : 0;
    const auto split = [&](Tensor& state, const Tensor& now, Tensors& ended) {
      const Tensor all = squeeze(now, 0);
      ended.insert(ended.begin(), narrow(all, 0, rest, size - rest));
      state = narrow(all, 0, 0, rest);
    };
    split(h, r.h, hs);
    if (c.defined()) split(c, r.c, cs);
  }
  return {cat(ys), cat(hs), cs.empty() ? Tensor() : cat(cs)};
}

RecurrentLayers::PackedResult RecurrentLayers::run(const PackedSequence& x, const Tensor& h,
                                                   const Tensor& c) const {
  utils::rnn::check_packed(name_, x);
  LATHE_CHECK(ShapeError, x.data.ndim() == 2 && x.data.dim(1) == input_size_, name_,
              ": expected packed data of [·,", input_size_, "] (data: ", x.data, ")");
  const auto count = static_cast<int64_t>(weights.size());
  const auto state = [&](const char* which, const Tensor& given, int64_t size) {
    const Shape shape{count, x.batch_sizes[0], size};
    check_state(which, given, x.data, shape);
    if (!given.defined()) return zeros(shape, {.dtype = x.data.dtype(), .device = x.data.device()});
    return x.sorted_indices.empty() ? given : chosen(given, 1, x.sorted_indices);
  };
  const Tensor h0 = state("h", h, weights[0].weight_hh.dim(1));
  const Tensor c0 = op_ == lstm ? state("c", c, hidden_size_) : Tensor();
  const std::vector<RecurrentLayer> all = layers();
  const int64_t directions = options_.bidirectional ? 2 : 1;
  const std::vector<int64_t> reversed =
      options_.bidirectional ? reversal(x.batch_sizes) : std::vector<int64_t>();
  Tensor data = x.data;
  Tensors hs, cs;
  for (int64_t i = 0; i < count; i += directions) {
    if (i > 0) data = dropout(data, {.p = options_.dropout, .train = is_training()});
    Tensors ways;
    for (int64_t d = 0; d < directions; ++d) {
      const Tensor in = d == 1 ? chosen(data, 0, reversed) : data;
      const RecurrentResult r =
          run_packed(op_, in, x.batch_sizes, select(h0, 0, i + d),
                     c0.defined() ? select(c0, 0, i + d) : c0, all[static_cast<size_t>(i + d)]);
      ways.push_back(d == 1 ? chosen(r.y, 0, reversed) : r.y);
      hs.push_back(r.h);
      if (r.c.defined()) cs.push_back(r.c);
    }
    data = ways.size() == 1 ? ways[0] : cat(ways, 1);
  }
  const auto in_callers_order = [&](const Tensors& states) {
    if (states.empty()) return Tensor();
    const Tensor stacked = stack(states, 0);
    return x.sorted_indices.empty() ? stacked : chosen(stacked, 1, x.unsorted_indices);
  };
  PackedResult out{x, in_callers_order(hs), in_callers_order(cs)};
  out.y.data = data;
  return out;
}

int64_t RecurrentLayers::macs_of_call(const Tensors& inputs, const Tensors&) const {
  int64_t each = 0;  // for one step of one sequence
  for (const RecurrentWeights& w : weights) {
    each += w.weight_ih.numel() + w.weight_hh.numel();
    if (w.weight_hr.defined()) each += w.weight_hr.numel();
  }
  return inputs[0].numel() / input_size_ * each;
}

LSTM::LSTM(int64_t input_size, int64_t hidden_size, const LSTMOptions& options)
    : RecurrentLayers("LSTM", lstm, 4, input_size, hidden_size, options) {}

std::pair<Tensor, LSTMState> LSTM::operator()(const Tensor& x, const LSTMState& state) {
  return called(tensors_in(x, state), [&]() -> std::pair<Tensor, LSTMState> {
    const RecurrentResult r = run(x, state.h, state.c);
    return {r.y, {r.h, r.c}};
  });
}

std::pair<PackedSequence, LSTMState> LSTM::operator()(const PackedSequence& x,
                                                      const LSTMState& state) {
  return called(tensors_in(x, state), [&]() -> std::pair<PackedSequence, LSTMState> {
    const PackedResult r = run(x, state.h, state.c);
    return {r.y, {r.h, r.c}};
  });
}

GRU::GRU(int64_t input_size, int64_t hidden_size, const GRUOptions& options)
    : RecurrentLayers("GRU", without_c<gru>, 3, input_size, hidden_size,
                      without_projection(options)) {}

std::pair<Tensor, Tensor> GRU::operator()(const Tensor& x, const Tensor& h) {
  return called(tensors_in(x, h), [&] {
    const RecurrentResult r = run(x, h, {});
    return std::pair(r.y, r.h);
  });
}

std::pair<PackedSequence, Tensor> GRU::operator()(const PackedSequence& x, const Tensor& h) {
  return called(tensors_in(x, h), [&] {
    const PackedResult r = run(x, h, {});
    return std::pair(r.y, r.h);
  });
}

RNN::RNN(int64_t input_size, int64_t hidden_size, const RNNOptions& options)
    : RecurrentLayers(
          "RNN",
          options.nonlinearity == RNNActivation::kTanh ? without_c<rnn_tanh> : without_c<rnn_relu>,
          1, input_size, hidden_size, without_projection(options)) {}

std::pair<Tensor, Tensor> RNN::operator()(const Tensor& x, const Tensor& h) {
  return called(tensors_in(x, h), [&] {
    const RecurrentResult r = run(x, h, {});
    return std::pair(r.y, r.h);
  });
}

std::pair<PackedSequence, Tensor> RNN::operator()(const PackedSequence& x, const Tensor& h) {
  return called(tensors_in(x, h), [&] {
    const PackedResult r = run(x, h, {});
    return std::pair(r.y, r.h);
  });
}

}  // namespace lathe::nn
