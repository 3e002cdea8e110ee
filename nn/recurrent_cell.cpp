// Recurrent cells: a step is the op over a sequence of one.
#include "lathe/nn/recurrent_cell.h"

#include "lathe/core/error.h"
#include "lathe/nn/init.h"
#include "lathe/ops/views.h"

namespace lathe::nn {

RecurrentCell::RecurrentCell(const char* name, int64_t gates, int64_t input_size,
                             int64_t hidden_size, bool bias)
    : name_(name), input_size_(input_size), hidden_size_(hidden_size) {
  LATHE_CHECK(ValueError, input_size > 0 && hidden_size > 0, name_,
              ": sizes must be positive, got an input_size of ", input_size,
              " and a hidden_size of ", hidden_size);
  const int64_t rows = gates * hidden_size;
  const auto made = [&](const char* what, const Shape& shape) {
    return parameter(what, init::uniform_fan_in(shape, hidden_size));
  };
  weight_ih = made("weight_ih", {rows, input_size});
  weight_hh = made("weight_hh", {rows, hidden_size});
  if (!bias) return;
  bias_ih = made("bias_ih", rows);
  bias_hh = made("bias_hh", rows);
}

LSTMState RecurrentCell::step(RecurrentOp op, const Tensor& x, const Tensor& h,
                              const Tensor& c) const {
  const bool single = x.ndim() == 1;
  LATHE_CHECK(ShapeError, (single || x.ndim() == 2) && x.dim(-1) == input_size_, name_,
              ": expected [N,", input_size_, "] or [", input_size_, "] (x: ", x, ")");
  Shape shape = x.shape();
  shape[shape.size() - 1] = hidden_size_;
  const Tensor sequences = single ? unsqueeze(x, 0) : x;
  const auto state = [&](const char* which, const Tensor& given) {
    LATHE_CHECK(ShapeError, !given.defined() || given.shape() == shape, name_,
                ": expected the state ", which, " to be ", shape, " (", which, ": ", given,
                ", x: ", x, ")");
    const Shape whole{1, sequences.dim(0), hidden_size_};
    return given.defined() ? view(given, whole) : zero_states(sequences, 0, whole);
  };
  const RecurrentResult r =
      op(unsqueeze(sequences, 0), state("h", h), op == lstm ? state("c", c) : Tensor(),
         {{weight_ih, weight_hh, bias_ih, bias_hh}}, {});
  return {view(r.h, shape), r.c.defined() ? view(r.c, shape) : Tensor()};
}

int64_t RecurrentCell::macs_of_call(const Tensors& inputs, const Tensors&) const {
  return inputs[0].numel() / input_size_ * (weight_ih.numel() + weight_hh.numel());
}

LSTMCell::LSTMCell(int64_t input_size, int64_t hidden_size, const RecurrentCellOptions& options)
    : RecurrentCell("LSTMCell", 4, input_size, hidden_size, options.bias) {}

LSTMState LSTMCell::operator()(const Tensor& x, const LSTMState& state) {
  return called(tensors_in(x, state), [&] { return step(lstm, x, state.h, state.c); });
}

GRUCell::GRUCell(int64_t input_size, int64_t hidden_size, const RecurrentCellOptions& options)
    : RecurrentCell("GRUCell", 3, input_size, hidden_size, options.bias) {}

Tensor GRUCell::operator()(const Tensor& x, const Tensor& h) {
  return called(tensors_in(x, h), [&] { return step(without_c<gru>, x, h, {}).h; });
}

RNNCell::RNNCell(int64_t input_size, int64_t hidden_size, const RNNCellOptions& options)
    : RecurrentCell("RNNCell", 1, input_size, hidden_size, options.bias),
      nonlinearity_(options.nonlinearity) {}

Tensor RNNCell::operator()(const Tensor& x, const Tensor& h) {
  return called(tensors_in(x, h), [&] {
    return step(nonlinearity_ == RNNActivation::kTanh ? without_c<rnn_tanh> : without_c<rnn_relu>,
                x, h, {})
        .h;
  });
}

}  // namespace lathe::nn
