// Recurrent layers. The products with x of all steps are one; those with the state are one per
// step. The steps are ops, or for lstm and gru on the CPU kernels. Contracts: recurrent.h.
#include "lathe/ops/recurrent.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "lathe/autograd/record.h"
#include "lathe/core/hooks/range.h"
#include "lathe/core/hooks/watch.h"
#include "lathe/core/visit.h"
#include "lathe/ops/autocast.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/dropout.h"
#include "lathe/ops/floating_check.h"
#include "lathe/ops/join.h"
#include "lathe/ops/matmul.h"
#include "lathe/ops/rearrange.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"

namespace lathe {

using autograd::Needs;
using autograd::record;
using autograd::Saved;

namespace {

struct State {
  Tensor h, c;  // [N,H]; c of lstm alone
};

/// One step: from the products with x, [N,G*H], and the state before it.
using Cell = State (*)(const Tensor& from_x, const State& before, const RecurrentLayer& layer);

/// A step of lstm: its gates after their sigmoid or tanh, and the states.
struct LstmStep {
  Tensor i, f, g, o;
  Tensor c, tanh_c, h;
};

/// A step, kept for the backward pass.
struct SavedStep {
  explicit SavedStep(const LstmStep& s)
      : i(s.i), f(s.f), g(s.g), o(s.o), c(s.c), tanh_c(s.tanh_c), h(s.h) {}
  LstmStep get() const {
    return {i.get(), f.get(), g.get(), o.get(), c.get(), tanh_c.get(), h.get()};
  }
  Saved i, f, g, o, c, tanh_c, h;
};

LstmStep lstm_step(const Tensor& from_x, const State& before, const RecurrentLayer& layer) {
  const Tensors gates = chunk(add(from_x, linear(before.h, layer.w_h, layer.b_h)), 4, 1);
  LstmStep s{sigmoid(gates[0]), sigmoid(gates[1]), tanh(gates[2]), sigmoid(gates[3]), {}, {}, {}};
  s.c = add(mul(s.f, before.c), mul(s.i, s.g));
  s.tanh_c = tanh(s.c);
  s.h = mul(s.o, s.tanh_c);
  return s;
}

State lstm_cell(const Tensor& from_x, const State& before, const RecurrentLayer& layer) {
  const LstmStep s = lstm_step(from_x, before, layer);
  return {layer.w_out.defined() ? linear(s.h, layer.w_out) : s.h, s.c};
}

State gru_cell(const Tensor& from_x, const State& before, const RecurrentLayer& layer) {
  const Tensors of_x = chunk(from_x, 3, 1);
  const Tensors of_h = chunk(linear(before.h, layer.w_h, layer.b_h), 3, 1);
  const Tensor r = sigmoid(add(of_x[0], of_h[0])), z = sigmoid(add(of_x[1], of_h[1]));
  const Tensor n = tanh(add(of_x[2], mul(r, of_h[2])));
  return {add(mul(sub(before.h, n), z), n), {}};
}

State rnn_tanh_cell(const Tensor& from_x, const State& before, const RecurrentLayer& layer) {
  return {tanh(add(from_x, linear(before.h, layer.w_h, layer.b_h))), {}};
}

State rnn_relu_cell(const Tensor& from_x, const State& before, const RecurrentLayer& layer) {
  return {relu(add(from_x, linear(before.h, layer.w_h, layer.b_h))), {}};
}

/// The steps of lstm, in the order of from_x [T,N,4H].
std::vector<LstmStep> lstm_steps(const Tensor& from_x, State state, const RecurrentLayer& layer) {
  std::vector<LstmStep> steps;
  for (const Tensor& one : unbind(from_x, 0)) {
    steps.push_back(lstm_step(one, state, layer));
    state = {steps.back().h, steps.back().c};
  }
  return steps;
}

/// The gradients of {from_x, h, c, w_h, b_h}, where h and c are the states before the first step.
///   dy  [T+1,N,H]: of h after each step, then of the last c
Tensors lstm_gradients(const std::vector<LstmStep>& steps, const State& first, const Tensor& w_h,
                       const Tensor& dy, const Needs& need) {
  const Tensors d_states = unbind(dy, 0);
  Tensors d_gates(steps.size()), h_before{first.h};
  Tensor dh, dc = d_states.back();
  for (size_t t = steps.size(); t-- > 0;) {
    const LstmStep& s = steps[t];
    dh = dh.defined() ? add(d_states[t], dh) : d_states[t];
    dc = add(dc, tanh_grad(mul(dh, s.o), s.tanh_c));
    const Tensor& c_before = t > 0 ? steps[t - 1].c : first.c;
    d_gates[t] = cat({sigmoid_grad(mul(dc, s.g), s.i), sigmoid_grad(mul(dc, c_before), s.f),
                      tanh_grad(mul(dc, s.i), s.g), sigmoid_grad(mul(dh, s.tanh_c), s.o)},
                     1);
    dc = mul(dc, s.f);
    dh = matmul(d_gates[t], w_h);
  }
  Tensors grads(5);
  if (need[0]) grads[0] = stack(d_gates, 0);
  if (need[1]) grads[1] = dh;
  if (need[2]) grads[2] = dc;
  const Tensor d_all = need[3] || need[4] ? cat(d_gates, 0) : Tensor();
  for (size_t t = 0; t + 1 < steps.size(); ++t) h_before.push_back(steps[t].h);
  if (need[3]) grads[3] = matmul(d_all.t(), cat(h_before, 0));
  if (need[4]) grads[4] = sum(d_all, {0});
  return grads;
}

/// The states [T,N,H] of lstm without a projection, and the last one. All steps are one op for the
/// backward pass, so that the gradients of the weights are one product.
std::pair<Tensor, State> recorded_lstm(const Tensor& from_x, const State& first,
                                       const RecurrentLayer& layer) {
  std::vector<LstmStep> steps;
  Tensor y;
  {
    const NoGrad inside;
    steps = lstm_steps(from_x, first, layer);
    Tensors states;
    for (const LstmStep& s : steps) states.push_back(s.h);
    states.push_back(steps.back().c);
    y = stack(states, 0);
  }
  std::vector<SavedStep> saved(steps.begin(), steps.end());
  const auto gradient = [saved = std::move(saved), from_x = Saved(from_x), h = Saved(first.h),
                         c = Saved(first.c), w_h = Saved(layer.w_h),
                         b_h = Saved(layer.b_h)](const Tensor& dy, const Needs& need) {
    const State before{h.get(), c.get()};
    if (!grad_enabled()) {
      std::vector<LstmStep> kept;
      for (const SavedStep& s : saved) kept.push_back(s.get());
      return lstm_gradients(kept, before, w_h.get(), dy, need);
    }
    const RecurrentLayer again{{}, w_h.get(), {}, b_h.get()};  // with the history of the inputs
    return lstm_gradients(lstm_steps(from_x.get(), before, again), before, w_h.get(), dy, need);
  };
  record("lstm", y, {from_x, first.h, first.c, layer.w_h, layer.b_h}, gradient);
  const int64_t count = from_x.dim(0);
  const Tensor states = narrow(y, 0, 0, count);
  return {states, {select(states, 0, count - 1), select(y, 0, count)}};
}

/// The gradients of {from_x, h, w_h, b_h} of gru, by ops, with the history of its inputs.
Tensors gru_gradients(const Tensor& from_x, const Tensor& first, const RecurrentLayer& layer,
                      const Tensor& dy) {
  const Tensors of_x = unbind(from_x, 0), d_states = unbind(dy, 0);
  Tensors before{first}, of_h;
  for (const Tensor& x : of_x) {
    of_h.push_back(linear(before.back(), layer.w_h, layer.b_h));
    before.push_back(gru_cell(x, {before.back(), {}}, layer).h);
  }
  Tensors d_of_x(of_x.size()), d_of_h(of_x.size());
  Tensor dh = zeros_like(first);
  for (size_t t = of_x.size(); t-- > 0;) {
    const Tensors x = chunk(of_x[t], 3, 1), s = chunk(of_h[t], 3, 1);
    const Tensor r = sigmoid(add(x[0], s[0])), z = sigmoid(add(x[1], s[1]));
    const Tensor n = tanh(add(x[2], mul(r, s[2])));
    const Tensor d = add(d_states[t], dh);
    const Tensor dn = tanh_grad(sub(d, mul(d, z)), n);
    const Tensor dr = sigmoid_grad(mul(dn, s[2]), r);
    const Tensor dz = sigmoid_grad(mul(d, sub(before[t], n)), z);
    d_of_x[t] = cat({dr, dz, dn}, 1);
    d_of_h[t] = cat({dr, dz, mul(dn, r)}, 1);
    dh = add(mul(d, z), matmul(d_of_h[t], layer.w_h));
  }
  before.pop_back();
  const Tensor d_all = cat(d_of_h, 0);
  return {stack(d_of_x, 0), dh, matmul(d_all.t(), cat(before, 0)), sum(d_all, {0})};
}

/// Whether cpu_steps() can compute this. What does not fit goes on to the ops, which name it.
bool has_cpu_steps(const Tensor& from_x, const State& first, const RecurrentLayer& layer,
                   Cell cell) {
  if ((cell != lstm_cell && cell != gru_cell) || layer.w_out.defined() || profile::watched()) {
    return false;
  }
  const int64_t N = from_x.dim(1), H = first.h.dim(1), rows = (cell == lstm_cell ? 4 : 3) * H;
  const auto fits = [&](const Tensor& t, const Shape& shape) {
    return t.shape() == shape && t.dtype() == from_x.dtype() && t.device().is_cpu();
  };
  return from_x.numel() > 0 && fits(from_x, {from_x.dim(0), N, rows}) && fits(first.h, {N, H}) &&
         (!first.c.defined() || fits(first.c, {N, H})) && fits(layer.w_h, {rows, H}) &&
         (!layer.b_h.defined() || fits(layer.b_h, {rows}));
}

/// What cpu_steps() keeps for the backward pass.
struct SavedSteps {
  SavedSteps(const Tensor& from_x_in, const State& first, const RecurrentLayer& layer,
             const cpu::RecurrentSteps& steps)
      : from_x(from_x_in),
        h(first.h),
        c(first.c),
        w_h(layer.w_h),
        b_h(layer.b_h),
        states(steps.states),
        gates(steps.gates),
        cells(steps.cells) {}
  Saved from_x, h, c, w_h, b_h, states, gates, cells;

  /// Of {from_x, h, c, w_h, b_h}, where products are computed in `dtype`.
  ///   dy  of h after each step, and for lstm of the last c: [T+1,N,H]; for gru [T,N,H]
  Tensors gradients(const Tensor& dy, const Needs& need, DType dtype) const {
    const Tensor last = cells.get();
    if (grad_enabled()) {
      const RecurrentLayer layer{{}, w_h.get(), {}, b_h.get()};
      const State first{h.get(), c.get()};
      if (last.defined()) {
        return lstm_gradients(lstm_steps(from_x.get(), first, layer), first, layer.w_h, dy, need);
      }
      const Tensors g = gru_gradients(from_x.get(), first.h, layer, dy);
      return {g[0], g[1], {}, g[2], g[3]};
    }
    // A hook that unpacks may return other strides.
    const cpu::RecurrentSteps steps{states.get().contiguous(), gates.get().contiguous(),
                                    last.defined() ? last.contiguous() : Tensor()};
    const int64_t T = steps.gates.dim(0), N = steps.gates.dim(1);
    const Tensor dense = dy.contiguous(), d_states = narrow(dense, 0, 0, T);
    const Tensor weights = w_h.get().contiguous();
    const cpu::RecurrentGradients d =
        last.defined() ? cpu::lstm_step_gradients(steps, weights, d_states, select(dense, 0, T))
                       : cpu::gru_step_gradients(steps, weights, d_states);
    const auto as_given = [&](const Tensor& t) { return t.defined() ? t.to(dy.dtype()) : t; };
    Tensors grads{d.from_x, as_given(d.h), as_given(d.c), {}, {}};
    const Tensor d_all = d.from_h.view({T * N, -1});
    if (need[3]) {
      const Tensor before = narrow(steps.states, 0, 0, T).view({T * N, -1});
      grads[3] = matmul(d_all.to(dtype).t(), before.to(dtype)).to(dy.dtype());
    }
    if (need[4]) grads[4] = sum(d_all, {0});
    return grads;
  }
};

/// The states [T,N,H] of lstm or gru, and the last one, by the CPU's kernels.
std::pair<Tensor, State> cpu_steps(const Tensor& from_x_in, const State& first_in,
                                   const RecurrentLayer& layer_in, Cell cell) {
  const DType dtype = from_x_in.dtype();
  const DType inner = cell == lstm_cell ? cpu::lstm_dtype(dtype) : compute_dtype(dtype);
  const auto cast_in = [&](const Tensor& t) { return t.defined() ? t.to(inner) : t; };
  const Tensor from_x = cast_in(from_x_in);
  const State first{cast_in(first_in.h), cast_in(first_in.c)};
  const RecurrentLayer layer{{}, cast_in(layer_in.w_h), {}, cast_in(layer_in.b_h)};
  const int64_t T = from_x.dim(0);
  const autograd::TensorRef inputs[] = {from_x, first.h, first.c, layer.w_h, layer.b_h};
  const bool records = autograd::wants_record(inputs, std::size(inputs));
  cpu::RecurrentSteps steps;
  Tensor y;
  {
    const NoGrad inside;
    const Tensor x = from_x.contiguous(), h = first.h.contiguous();
    const Tensor w = layer.w_h.contiguous();
    const Tensor b = layer.b_h.defined() ? layer.b_h.contiguous() : Tensor();
    steps = cell == lstm_cell ? cpu::lstm_steps(x, h, first.c.contiguous(), w, b, records)
                              : cpu::gru_steps(x, h, w, b, records);
    const Tensor states = narrow(steps.states, 0, 1, T);
    y = cell == lstm_cell ? cat({states, narrow(steps.cells, 0, T, 1).to(inner)}, 0)
                          : states.clone();
  }
  const auto gradient = [saved = SavedSteps(from_x, first, layer, steps), dtype](
                            const Tensor& dy, const Needs& need) {
    return saved.gradients(dy, need, dtype);
  };
  record(cell == lstm_cell ? "lstm" : "gru", y, {from_x, first.h, first.c, layer.w_h, layer.b_h},
         gradient);
  const Tensor out = y.to(dtype), states = narrow(out, 0, 0, T);
  return {states, {select(states, 0, T - 1), cell == lstm_cell ? select(out, 0, T) : Tensor()}};
}

/// One direction of a layer over x [T,N,in].   → the states [T,N,H], and the last one
std::pair<Tensor, State> run(const Tensor& x, State state, const RecurrentLayer& given, Cell cell,
                             bool backwards) {
  const Tensor from_x = linear(x, given.w_x, given.b_x);
  const auto [w_h, b_h] = amp::cast(amp::kHalf, given.w_h, given.b_h);
  const RecurrentLayer layer{{}, w_h, {}, b_h, given.w_out};
  const autograd::TensorRef inputs[] = {from_x, state.h, state.c, w_h, b_h};
  // A watcher is to see the single ops.
  const bool records = autograd::wants_record(inputs, std::size(inputs)) && !profile::watched();
  const bool by_kernels = has_cpu_steps(from_x, state, layer, cell);
  if (by_kernels || (records && cell == lstm_cell && !layer.w_out.defined())) {
    const Tensor in_order = backwards ? flip(from_x, {0}) : from_x;
    auto [states, last] = by_kernels ? cpu_steps(in_order, state, layer, cell)
                                     : recorded_lstm(in_order, state, layer);
    return {backwards ? flip(states, {0}) : states, last};
  }
  const int64_t steps = x.dim(0);
  Tensors states(static_cast<size_t>(steps));
  for (int64_t i = 0; i < steps; ++i) {
    const int64_t t = backwards ? steps - 1 - i : i;
    state = cell(select(from_x, 0, t), state, layer);
    states[static_cast<size_t>(t)] = state.h;
  }
  return {stack(states, 0), state};
}

RecurrentResult run_all(const char* op, const Tensor& x_in, const Tensor& h, const Tensor& c,
                        const std::vector<RecurrentLayer>& layers, const RecurrentOptions& opt,
                        Cell cell) {
  check_floating(op, x_in);
  const int64_t directions = opt.bidirectional ? 2 : 1;
  const auto count = static_cast<int64_t>(layers.size());
  LATHE_CHECK(ShapeError, x_in.ndim() == 3 && h.ndim() == 3, op,
              ": x must be [T,N,in] or [N,T,in], and the state [layers,N,H] (x: ", x_in, ", h: ", h,
              ")");
  LATHE_CHECK(ValueError, count > 0 && count % directions == 0 && h.dim(0) == count, op, ": has ",
              count, " layers and directions, ", directions, " directions, and a state of ",
              h.dim(0));
  Tensor x = opt.batch_first ? transpose(x_in, 0, 1) : x_in;
  LATHE_CHECK(ShapeError, x.dim(0) > 0 && x.dim(1) == h.dim(1), op,
              ": needs one step at least, and a state for each sequence (x: ", x_in, ", h: ", h,
              ")");
  Tensors last_h, last_c;
  for (int64_t i = 0; i < count; i += directions) {
    if (i > 0) x = dropout(x, {.p = opt.dropout, .train = true});
    Tensors ways;
    for (int64_t d = 0; d < directions; ++d) {
      const State first{select(h, 0, i + d), c.defined() ? select(c, 0, i + d) : Tensor()};
      auto [states, last] = run(x, first, layers[static_cast<size_t>(i + d)], cell, d == 1);
      ways.push_back(states);
      last_h.push_back(last.h);
      if (c.defined()) last_c.push_back(last.c);
    }
    x = ways.size() == 1 ? ways[0] : cat(ways, 2);
  }
  return {opt.batch_first ? transpose(x, 0, 1) : x, stack(last_h, 0),
          c.defined() ? stack(last_c, 0) : Tensor()};
}

}  // namespace

RecurrentResult lstm(const Tensor& x_in, const Tensor& h_in, const Tensor& c_in,
                     const std::vector<RecurrentLayer>& layers, const RecurrentOptions& opt) {
  const profile::OpRange range("lstm", {x_in, h_in, c_in});
  const auto [x, h, c] = amp::cast(amp::kHalf, x_in, h_in, c_in);
  LATHE_CHECK(ShapeError, c.defined() && c.ndim() == 3 && h.ndim() == 3 && c.dim(0) == h.dim(0),
              "lstm: needs a cell state for each layer and direction (h: ", h, ", c: ", c, ")");
  LATHE_CHECK(DTypeError, c.dtype() == h.dtype(), "lstm: the states differ in dtype (h: ", h,
              ", c: ", c, ")");
  for (const RecurrentLayer& layer : layers) {
    LATHE_CHECK(ShapeError, c.dim(1) == h.dim(1) && 4 * c.dim(2) == layer.w_h.dim(0),
                "lstm: the cell state does not fit h or the weights (h: ", h, ", c: ", c,
                ", w_h: ", layer.w_h, ")");
  }
  return run_all("lstm", x, h, c, layers, opt, lstm_cell);
}

RecurrentResult gru(const Tensor& x_in, const Tensor& h_in,
                    const std::vector<RecurrentLayer>& layers, const RecurrentOptions& opt) {
  const profile::OpRange range("gru", {x_in, h_in});
  const auto [x, h] = amp::cast(amp::kHalf, x_in, h_in);
  return run_all("gru", x, h, {}, layers, opt, gru_cell);
}

RecurrentResult rnn_tanh(const Tensor& x_in, const Tensor& h_in,
                         const std::vector<RecurrentLayer>& layers, const RecurrentOptions& opt) {
  const profile::OpRange range("rnn_tanh", {x_in, h_in});
  const auto [x, h] = amp::cast(amp::kHalf, x_in, h_in);
  return run_all("rnn_tanh", x, h, {}, layers, opt, rnn_tanh_cell);
}

RecurrentResult rnn_relu(const Tensor& x_in, const Tensor& h_in,
                         const std::vector<RecurrentLayer>& layers, const RecurrentOptions& opt) {
  const profile::OpRange range("rnn_relu", {x_in, h_in});
  const auto [x, h] = amp::cast(amp::kHalf, x_in, h_in);
  return run_all("rnn_relu", x, h, {}, layers, opt, rnn_relu_cell);
}

}  // namespace lathe
