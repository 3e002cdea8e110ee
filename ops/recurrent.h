// Recurrent layers: recurrent.cpp, made of other ops; recurrent_kernels/, lstm and gru on a CPU.
#pragma once

#include <vector>

#include "lathe/core/tensor.h"

namespace lathe {

/// The tensors of one layer in one direction. H is the size of the state. G is the number of gates:
/// 4 for lstm, 3 for gru, 1 for rnn_tanh and rnn_relu. With w_out (lstm only), every h and y have P
/// numbers in place of H. P is the size of the projection.
struct RecurrentLayer {
  Tensor w_x, w_h;            // [G*H,in] and [G*H,H]; with w_out [G*H,P]
  Tensor b_x = {}, b_h = {};  // [G*H] or undefined
  Tensor w_out = {};          // [P,H] or undefined; lstm only: projects h from H to P numbers
};

struct RecurrentOptions {
  bool bidirectional = false;  // each layer also runs from the end to the beginning
  bool batch_first = false;    // x is [N,T,in], not [T,N,in]
  double dropout = 0;          // probability, between two layers; pass 0 in evaluation
};

struct RecurrentResult {
  Tensor y;     // [T,N,D*H] or [N,T,D*H]: the states of the last layer, D directions side by side
  Tensor h, c;  // [layers*D,N,H]: the states at the end; c only for lstm
};

/// Long short-term memory. The rows of w_x and w_h belong to the gates i, f, g, o, in this order:
///   i, f, o = sigmoid(…), g = tanh(…),   … = w_x x[t] + b_x + w_h h + b_h
///   c' = f c + i g,   h' = o tanh(c')
///   x       [T,N,in]     h, c  [layers*D,N,H] (with w_out, h has P in place of H)
///           D = 2 if bidirectional, else 1
///   layers  for each layer its forward direction, then its backward one
/// dtypes: floats.   grad: x, h, c and the layers' tensors, twice differentiable.   amp: half.
/// throws: ShapeError, DTypeError; ValueError unless `layers` has as many elements as h's first
/// dimension has entries.
/// ref: Hochreiter and Schmidhuber 1997; torch.nn.LSTM.
LATHE_API RecurrentResult lstm(const Tensor& x, const Tensor& h, const Tensor& c,
                               const std::vector<RecurrentLayer>& layers,
                               const RecurrentOptions& options = {});

/// Gated recurrent units. The rows of w_x and w_h belong to the gates r, z, n, in this order:
///   r, z = sigmoid(w_x x[t] + b_x + w_h h + b_h),   n = tanh(w_x x[t] + b_x + r (w_h h + b_h))
///   h' = (1 - z) n + z h
/// Shapes and the order of `layers` are those of lstm.
/// dtypes: floats.   grad: x, h and the layers' tensors, twice differentiable.   amp: half.
/// throws: as lstm.
/// ref: Cho et al. 2014 (arXiv:1406.1078); torch.nn.GRU.
LATHE_API RecurrentResult gru(const Tensor& x, const Tensor& h,
                              const std::vector<RecurrentLayer>& layers,
                              const RecurrentOptions& options = {});

/// The plain recurrent layer: h' = f(w_x x[t] + b_x + w_h h + b_h), where f is tanh or relu. Shapes
/// and the order of `layers` are those of lstm.
/// dtypes: floats.   grad: x, h and the layers' tensors, twice differentiable.   amp: half.
/// throws: as lstm.
/// ref: Elman 1990; torch.nn.RNN.
LATHE_API RecurrentResult rnn_tanh(const Tensor& x, const Tensor& h,
                                   const std::vector<RecurrentLayer>& layers,
                                   const RecurrentOptions& options = {});
LATHE_API RecurrentResult rnn_relu(const Tensor& x, const Tensor& h,
                                   const std::vector<RecurrentLayer>& layers,
                                   const RecurrentOptions& options = {});

namespace cpu {

// All steps of one direction. All tensors are dense, have elements and are of one dtype, for lstm
// lstm_dtype(), for gru f32 or f64. What is kept or returned of bf16 is f32, where no dtype is
// given. An undefined bias is 0.

/// The dtype in which the steps of lstm are computed: bf16 for bf16 where the processor multiplies
/// tiles of it, else f64 or f32.
DType lstm_dtype(DType dtype) noexcept;

/// What the backward pass needs of all steps.
struct RecurrentSteps {
  Tensor states;  // [T+1,N,H], bf16 of bf16: h before each step, then the last one
  Tensor gates;   // [T,N,4H]: lstm: i, f, g, o; gru: r, z, n and w_h h + b_h of n
  Tensor cells;   // [T+1,N,H]: c before each step, then the last one; undefined for gru
};

struct RecurrentGradients {
  Tensor from_x;  // [T,N,G*H], bf16 of bf16
  Tensor from_h;  // [T,N,G*H]: of w_h h + b_h; for lstm the tensor from_x itself
  Tensor h, c;    // [N,H]: of the states before the first step; c undefined for gru
};

/// from_x  [T,N,4H]: w_x x + b_x    h, c  [N,H]    w_h  [4H,H]    b_h  [4H]
/// Without `keep` the gates of the steps are overwritten by the next one's: gates is [1,N,4H].
RecurrentSteps lstm_steps(const Tensor& from_x, const Tensor& h, const Tensor& c, const Tensor& w_h,
                          const Tensor& b_h, bool keep);
/// dy  [T,N,H]: of h after each step    dc  [N,H]: of the last c
RecurrentGradients lstm_step_gradients(const RecurrentSteps& steps, const Tensor& w_h,
                                       const Tensor& dy, const Tensor& dc);

/// As lstm_steps(), with w_h [3H,H] and b_h [3H].
RecurrentSteps gru_steps(const Tensor& from_x, const Tensor& h, const Tensor& w_h,
                         const Tensor& b_h, bool keep);
RecurrentGradients gru_step_gradients(const RecurrentSteps& steps, const Tensor& w_h,
                                      const Tensor& dy);

}  // namespace cpu

}  // namespace lathe
