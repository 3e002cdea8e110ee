// LSTM, GRU and RNN over sequences, with torch.nn's parameter names. ops/recurrent.h has the
// formulas, recurrent_cell.h single steps, packed_sequence.h sequences of different lengths.
//   nn::LSTM lstm{*this, "lstm", 32, 64, {.num_layers = 2, .batch_first = true}};
//   auto [y, state] = lstm(x);
//   auto [next_y, next_state] = lstm(next_x, state);
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lathe/nn/module_of.h"
#include "lathe/nn/packed_sequence.h"
#include "lathe/ops/recurrent.h"

namespace lathe::nn {

struct GRUOptions {
  int64_t num_layers = 1;
  bool bias = true;
  bool batch_first = false;    // x and y are [N,T,…], not [T,N,…]
  double dropout = 0;          // of what a layer gives the next, in training; one layer has none
  bool bidirectional = false;  // each layer also runs from the end to the beginning
};

struct LSTMOptions {
  int64_t num_layers = 1;
  bool bias = true;
  bool batch_first = false;    // x and y are [N,T,…], not [T,N,…]
  double dropout = 0;          // of what a layer gives the next, in training; one layer has none
  bool bidirectional = false;  // each layer also runs from the end to the beginning
  int64_t proj_size = 0;       // numbers that weight_hr projects h to; 0: no projection
};

enum class RNNActivation { kTanh, kReLU };

struct RNNOptions {
  int64_t num_layers = 1;
  RNNActivation nonlinearity = RNNActivation::kTanh;
  bool bias = true;
  bool batch_first = false;    // x and y are [N,T,…], not [T,N,…]
  double dropout = 0;          // of what a layer gives the next, in training; one layer has none
  bool bidirectional = false;  // each layer also runs from the end to the beginning
};

/// The parameters of one layer in one direction. G is the number of gates: 4 for LSTM, 3 for GRU, 1
/// for RNN.
struct RecurrentWeights {
  Parameter weight_ih, weight_hh;  // [G*H,in], [G*H,H]; with a projection [G*H,proj_size]
  Parameter bias_ih, bias_hh;      // [G*H], or undefined
  Parameter weight_hr;             // [proj_size,H], or undefined
};

// --- what the layers and the cells (recurrent_cell.h) are made of ------------------------------

/// An op over a whole sequence with states h and c: lstm; or gru or rnn, which have no c, in the
/// wrapper without_c.
using RecurrentOp = RecurrentResult (*)(const Tensor& x, const Tensor& h, const Tensor& c,
                                        const std::vector<RecurrentLayer>& layers,
                                        const RecurrentOptions& options);

template <auto op>
RecurrentResult without_c(const Tensor& x, const Tensor& h, const Tensor&,
                          const std::vector<RecurrentLayer>& layers,
                          const RecurrentOptions& options) {
  return op(x, h, layers, options);
}

/// Zeros of `shape` [layers,N,H]. x has N elements along `dim`: from x a trace learns that N is the
/// batch size.
Tensor zero_states(const Tensor& x, int64_t dim, const Shape& shape);

/// A module that takes a tensor and states, so its call has another signature than Tensor(const
/// Tensor&).
class RecurrentModule : public Module {
 protected:
  bool takes_one_tensor() const override { return false; }
  /// Runs f() as a call of this module, and then the CallHooks.
  template <class F>
  auto called(const Tensors& inputs, const F& f) {
    std::optional<decltype(f())> result;
    call([&] {
      result.emplace(f());
      if (has_hooks()) run_call_hooks(inputs, tensors_in(*result));
    });
    return *std::move(result);
  }
};

// --- the layers --------------------------------------------------------------------------------

/// The shapes and parameters of LSTM, GRU and RNN. D is 2 for a bidirectional layer, else 1; P is
/// proj_size with a projection, else H = hidden_size.
///   x  [T,N,in], [N,T,in] with batch_first, [T,in] for a single sequence, or a PackedSequence
///   y  [T,N,D*P], in the form of x: the states of the last layer; forward direction first
///   h  [num_layers*D,N,P], or [num_layers*D,P] for a single sequence: the states at the end of
///      each sequence. As an argument, the states before the beginning; an undefined h is 0.
/// The states of a PackedSequence are in the caller's order. jit::trace() takes dimension 0 for the
/// batch, so trace a model that has batch_first.
/// Parameters, all U(±1/sqrt(H)): weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0 and, with a
/// projection, weight_hr_l0. Those of the backward direction follow (weight_ih_l0_reverse, …), then
/// those of layer 1, and so on. The rows of the gates are in PyTorch's order.
class LATHE_API RecurrentLayers : public RecurrentModule {
 public:
  /// Multiply-adds of the products with the weights.
  int64_t macs_of_call(const Tensors& inputs, const Tensors& outputs) const override;

  std::vector<RecurrentWeights> weights;  // of each layer its forward direction, then its backward

 protected:
  struct PackedResult {
    utils::rnn::PackedSequence y;
    Tensor h, c;
  };
  /// Makes layers of `op`, whose weights have gates · H rows.
  /// throws: ValueError unless sizes and num_layers are positive, dropout is in [0,1] and proj_size
  /// is in [0,hidden_size).
  RecurrentLayers(const char* name, RecurrentOp op, int64_t gates, int64_t input_size,
                  int64_t hidden_size, const LSTMOptions& options);
  /// throws: ShapeError for an x or states of other sizes; what the op throws.
  RecurrentResult run(const Tensor& x, const Tensor& h, const Tensor& c) const;
  PackedResult run(const utils::rnn::PackedSequence& x, const Tensor& h, const Tensor& c) const;

 private:
  void check_state(const char* which, const Tensor& given, const Tensor& x,
                   const Shape& shape) const;
  std::vector<RecurrentLayer> layers() const;

  const char* name_;
  RecurrentOp op_;
  int64_t input_size_, hidden_size_;
  LSTMOptions options_;
};

struct LSTMState {
  Tensor h = {}, c = {};  // [num_layers*D,N,P] and [num_layers*D,N,H]

  Tensors tensors() const { return tensors_in(h, c); }
};

/// Long short-term memory. RecurrentLayers describes shapes and parameters; lstm() in
/// ops/recurrent.h has the formulas.
/// ref: Hochreiter and Schmidhuber 1997; torch.nn.LSTM.
class LATHE_API LSTM final : public RecurrentLayers {
 public:
  using Packed = utils::rnn::PackedSequence;

  LSTM(int64_t input_size, int64_t hidden_size, const LSTMOptions& options = {});
  LSTM(Module& parent, const std::string& name, int64_t input_size, int64_t hidden_size,
       const LSTMOptions& options = {})
      : LSTM(input_size, hidden_size, options) {
    join(parent, name);
  }

  /// → y, and the states at the end
  std::pair<Tensor, LSTMState> operator()(const Tensor& x, const LSTMState& state = {});
  std::pair<Packed, LSTMState> operator()(const Packed& x, const LSTMState& state = {});
};

/// Gated recurrent units. RecurrentLayers describes shapes and parameters; gru() in ops/recurrent.h
/// has the formulas.
/// ref: Cho et al. 2014 (arXiv:1406.1078); torch.nn.GRU.
class LATHE_API GRU final : public RecurrentLayers {
 public:
  using Packed = utils::rnn::PackedSequence;

  GRU(int64_t input_size, int64_t hidden_size, const GRUOptions& options = {});
  GRU(Module& parent, const std::string& name, int64_t input_size, int64_t hidden_size,
      const GRUOptions& options = {})
      : GRU(input_size, hidden_size, options) {
    join(parent, name);
  }

  /// → y, and the states at the end
  std::pair<Tensor, Tensor> operator()(const Tensor& x, const Tensor& h = {});
  std::pair<Packed, Tensor> operator()(const Packed& x, const Tensor& h = {});
};

/// h' = tanh(w_ih x[t] + b_ih + w_hh h + b_hh), or relu instead of tanh. RecurrentLayers describes
/// shapes and parameters.
/// ref: Elman 1990; torch.nn.RNN.
class LATHE_API RNN final : public RecurrentLayers {
 public:
  using Packed = utils::rnn::PackedSequence;

  RNN(int64_t input_size, int64_t hidden_size, const RNNOptions& options = {});
  RNN(Module& parent, const std::string& name, int64_t input_size, int64_t hidden_size,
      const RNNOptions& options = {})
      : RNN(input_size, hidden_size, options) {
    join(parent, name);
  }

  /// → y, and the states at the end
  std::pair<Tensor, Tensor> operator()(const Tensor& x, const Tensor& h = {});
  std::pair<Packed, Tensor> operator()(const Packed& x, const Tensor& h = {});
};

}  // namespace lathe::nn
