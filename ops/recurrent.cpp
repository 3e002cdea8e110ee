// Recurrent layers, step by step. The products with x of all steps are one; those with the state
// are one per step. Contracts: recurrent.h.
#include "lathe/ops/recurrent.h"

#include <algorithm>

#include "lathe/core/hooks/range.h"
#include "lathe/ops/autocast.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/dropout.h"
#include "lathe/ops/floating_check.h"
#include "lathe/ops/join.h"
#include "lathe/ops/matmul.h"
#include "lathe/ops/rearrange.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"

namespace lathe {

namespace {

struct State {
  Tensor h, c;  // [N,H]; c of lstm alone
};

/// One step: from the products with x, [N,G*H], and the state before it.
using Cell = State (*)(const Tensor& from_x, const State& before, const RecurrentLayer& layer);

State lstm_cell(const Tensor& from_x, const State& before, const RecurrentLayer& layer) {
  const Tensors gates = chunk(add(from_x, linear(before.h, layer.w_h, layer.b_h)), 4, 1);
  const Tensor kept = mul(sigmoid(gates[1]), before.c);
  const Tensor c = add(kept, mul(sigmoid(gates[0]), tanh(gates[2])));
  const Tensor h = mul(sigmoid(gates[3]), tanh(c));
  return {layer.w_out.defined() ? linear(h, layer.w_out) : h, c};
}

State gru_cell(const Tensor& from_x, const State& before, const RecurrentLayer& layer) {
  const Tensors of_x = chunk(from_x, 3, 1);
  const Tensors of_h = chunk(linear(before.h, layer.w_h, layer.b_h), 3, 1);
  const Tensor r = sigmoid(add(of_x[0], of_h[0])), z = sigmoid(add(of_x[1], of_h[1]));
  const Tensor n = tanh(add(of_x[2], mul(r, of_h[2])));
  return {add(mul(sub(before.h, n), z), n), {}};
}

/// One direction of a layer over x [T,N,in].   → the states [T,N,H], and the last one
std::pair<Tensor, State> run(const Tensor& x, State state, const RecurrentLayer& layer, Cell cell,
                             bool backwards) {
  const Tensor from_x = linear(x, layer.w_x, layer.b_x);
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
  LATHE_CHECK(ShapeError, c.defined() && c.ndim() == 3 && c.dim(0) == h.dim(0), "lstm: needs a ",
              "cell state for each layer and direction (h: ", h, ", c: ", c, ")");
  return run_all("lstm", x, h, c, layers, opt, lstm_cell);
}

RecurrentResult gru(const Tensor& x_in, const Tensor& h_in,
                    const std::vector<RecurrentLayer>& layers, const RecurrentOptions& opt) {
  const profile::OpRange range("gru", {x_in, h_in});
  const auto [x, h] = amp::cast(amp::kHalf, x_in, h_in);
  return run_all("gru", x, h, {}, layers, opt, gru_cell);
}

}  // namespace lathe
