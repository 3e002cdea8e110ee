// LSTMCell, GRUCell, RNNCell: single steps of the recurrent layers, with torch.nn's parameter
// names. ops/recurrent.h has the formulas, recurrent.h the layers.
#pragma once

#include <cstdint>
#include <string>

#include "lathe/nn/recurrent.h"

namespace lathe::nn {

struct RecurrentCellOptions {
  bool bias = true;
};

struct RNNCellOptions {
  RNNActivation nonlinearity = RNNActivation::kTanh;
  bool bias = true;
};

/// Base of the cells. A cell takes x [N,in] and states [N,H], or [in] and [H] for a single
/// sequence. An undefined state is 0. Parameters, all U(±1/sqrt(H)): weight_ih [G*H,in], weight_hh
/// [G*H,H], bias_ih and bias_hh [G*H]. G is 4 for LSTMCell, 3 for GRUCell, 1 for RNNCell.
class LATHE_API RecurrentCell : public RecurrentModule {
 public:
  /// Multiply-adds of the products with the weights.
  int64_t macs_of_call(const Tensors& inputs, const Tensors& outputs) const override;

  Parameter weight_ih, weight_hh, bias_ih, bias_hh;

 protected:
  /// throws: ValueError unless the sizes are positive.
  RecurrentCell(const char* name, int64_t gates, int64_t input_size, int64_t hidden_size,
                bool bias);
  /// Makes one step of `op`.   → h and c after the step
  /// throws: ShapeError for an x or states of other sizes; what the op throws.
  LSTMState step(RecurrentOp op, const Tensor& x, const Tensor& h, const Tensor& c) const;

 private:
  const char* name_;
  int64_t input_size_, hidden_size_;
};

/// ref: torch.nn.LSTMCell.
class LATHE_API LSTMCell final : public RecurrentCell {
 public:
  LSTMCell(int64_t input_size, int64_t hidden_size, const RecurrentCellOptions& options = {});
  LSTMCell(Module& parent, const std::string& name, int64_t input_size, int64_t hidden_size,
           const RecurrentCellOptions& options = {})
      : LSTMCell(input_size, hidden_size, options) {
    join(parent, name);
  }
  /// → the states after the step
  LSTMState operator()(const Tensor& x, const LSTMState& state = {});
};

/// ref: torch.nn.GRUCell.
class LATHE_API GRUCell final : public RecurrentCell {
 public:
  GRUCell(int64_t input_size, int64_t hidden_size, const RecurrentCellOptions& options = {});
  GRUCell(Module& parent, const std::string& name, int64_t input_size, int64_t hidden_size,
          const RecurrentCellOptions& options = {})
      : GRUCell(input_size, hidden_size, options) {
    join(parent, name);
  }
  /// → the state after the step
  Tensor operator()(const Tensor& x, const Tensor& h = {});
};

/// ref: torch.nn.RNNCell.
class LATHE_API RNNCell final : public RecurrentCell {
 public:
  RNNCell(int64_t input_size, int64_t hidden_size, const RNNCellOptions& options = {});
  RNNCell(Module& parent, const std::string& name, int64_t input_size, int64_t hidden_size,
          const RNNCellOptions& options = {})
      : RNNCell(input_size, hidden_size, options) {
    join(parent, name);
  }
  /// → the state after the step
  Tensor operator()(const Tensor& x, const Tensor& h = {});

 private:
  RNNActivation nonlinearity_;
};

}  // namespace lathe::nn
