// A program run by the library; see interpreter.h.
#include "interpreter.h"

#include "lathe/autograd/engine.h"
#include "lathe/autograd/grad_mode.h"
#include "lathe/autograd/meta.h"
#include "lathe/core/copy.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/index.h"
#include "lathe/ops/inplace.h"
#include "lathe/ops/join.h"
#include "lathe/ops/matmul.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"
#include "lathe/ops/where.h"

namespace lathe::programs {

namespace {

Tensor filled(const Shape& shape, std::vector<double> data, DType dtype = kF64) {
  const Tensor t = empty(shape, {.dtype = dtype});
  copy_values(t, from_blob(data.data(), shape));
  return t;
}

Tensor index_of(const std::vector<double>& data) {
  return filled({static_cast<int64_t>(data.size())}, data, kI64);
}

Tensor view_of(const Statement& s, const Tensor& x) {
  switch (s.op) {
    case Op::kNarrow: return narrow(x, s.i, s.j, s.k);
    case Op::kSlice: return slice(x, s.i, s.j, s.k, s.l);
    case Op::kSelect: return select(x, s.i, s.j);
    case Op::kTranspose: return transpose(x, s.i, s.j);
    case Op::kPermute: return permute(x, s.dims);
    case Op::kView: return view(x, s.dims);
    case Op::kReshape: return reshape(x, s.dims);
    case Op::kExpand: return expand(x, s.dims);
    case Op::kUnsqueeze: return unsqueeze(x, s.i);
    case Op::kAsStrided: return as_strided(x, s.dims, s.strides, s.i);
    default: break;
  }
  const Tensor y = x.detach();
  return s.i != 0 ? y.requires_grad_() : y;
}

Tensor result_of(const Statement& s, const Tensors& in) {
  const Tensor& x = in[0];
  switch (s.op) {
    case Op::kAdd: return add(x, in[1]);
    case Op::kSub: return sub(x, in[1]);
    case Op::kMul: return mul(x, in[1]);
    case Op::kMaximum: return maximum(x, in[1]);
    case Op::kMatmul: return matmul(x, in[1]);
    case Op::kWhere: return where(filled(s.dims, s.data, kBool), x, in[1]);
    case Op::kCat: return cat(in, s.i);
    case Op::kStack: return stack(in, s.i);
    case Op::kSum: return sum(x, s.dims, {.keepdim = s.i != 0});
    case Op::kNeg: return neg(x);
    case Op::kRelu: return relu(x);
    case Op::kAbs: return abs(x);
    case Op::kSquare: return square(x);
    case Op::kClone: return x.clone();
    case Op::kClamp: return clamp(x, s.i, s.j);
    case Op::kTimes: return mul(x, s.i);
    case Op::kPlus: return add(x, s.i);
    default: return index_select(x, s.i, index_of(s.data));
  }
}

void write(const Statement& s, const Tensors& in) {
  const Tensor& x = in[0];
  switch (s.op) {
    case Op::kAddInto: x.add_(in[1], s.i); return;
    case Op::kSubInto: x.sub_(in[1]); return;
    case Op::kMulInto: x.mul_(in[1]); return;
    case Op::kCopyInto: x.copy_(in[1]); return;
    case Op::kFill: x.fill_(s.i); return;
    case Op::kZero: x.zero_(); return;
    case Op::kPlusInto: x.add_(s.i); return;
    case Op::kTimesInto: x.mul_(s.i); return;
    case Op::kNegInto: neg_(x); return;
    case Op::kReluInto: relu_(x); return;
    case Op::kClampInto: x.clamp_(s.i, s.j); return;
    default: masked_fill_(x, filled(s.dims, s.data, kBool), s.i);
  }
}

std::vector<double> or_zeros(const Tensor& gradient, const Tensor& of) {
  return gradient.defined() ? gradient.to_vector<double>()
                            : std::vector<double>(static_cast<size_t>(of.numel()), 0.0);
}

/// `gradient` as a variable of the program: a tensor of its own that requires grad.
Tensor keep(const Tensor& gradient, const Tensor& of) {
  const Tensor nothing = mul(of.sum(), 0);
  return gradient.defined() ? add(gradient, nothing) : add(empty_like(of).zero_(), nothing);
}

class Run {
 public:
  explicit Run(const Program& program) : program_(program) {}
  // Cycles are taken apart: a gradient made with create_graph remembers its leaf, which holds it;
  // and a tensor that was written after an op had kept it may come from that op.
  ~Run() {
    for (const Tensor& leaf : leaves_) leaf.set_grad({});
    for (const Tensor& t : variables_) autograd::set_maker(t, {});
  }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  Log log() {
    const size_t lines = program_.lines.size();
    try {
      for (line_ = 0; line_ < lines; ++line_) run(program_.lines[line_]);
      for (const Tensor& t : variables_) {
        note(t.to_vector<double>());
        note({t.requires_grad() ? 1.0 : 0.0});
      }
    } catch (const Error& error) {
      log_.error = error.what();
      note({});
    }
    return log_;
  }

 private:
  void run(const Statement& s) {
    const autograd::ModeScope mode({!s.no_grad, false});
    Tensors in;
    for (const int n : s.in) in.push_back(variables_.at(static_cast<size_t>(n)));
    if (s.op == Op::kLeaf || s.op == Op::kConstant) {
      variables_.push_back(filled(s.dims, s.data));
      if (s.op == Op::kLeaf) leaves_.push_back(variables_.back().requires_grad_());
    } else if (is_view(s.op)) {
      variables_.push_back(view_of(s, in[0]));
      if (s.op == Op::kDetach && s.i != 0) leaves_.push_back(variables_.back());
    } else if (is_new(s.op)) {
      variables_.push_back(result_of(s, in));
      note(variables_.back().to_vector<double>());
    } else if (is_in_place(s.op)) {
      write(s, in);
      note(in[0].to_vector<double>());
    } else {
      run_gradient(s, in);
    }
  }

  void run_gradient(const Statement& s, const Tensors& in) {
    const Tensor& y = in[0];
    if (s.op == Op::kReadGrad) {
      variables_.push_back(keep(y.grad(), y));
      return note(variables_.back().to_vector<double>());
    }
    const bool again = s.i != 0, last = line_ + 1 == program_.lines.size();
    const Tensor weights = filled(y.shape(), s.data);
    if (s.op == Op::kBackward) {
      y.backward({.gradient = weights, .retain_graph = !last, .create_graph = again});
      for (const Tensor& leaf : leaves_) note(or_zeros(leaf.grad(), leaf));
      return;
    }
    const Tensors inputs(in.begin() + 1, in.end());
    const Tensors gradients = grad({y}, inputs,
                                   {.grad_outputs = {weights},
                                    .retain_graph = !last,
                                    .create_graph = again,
                                    .allow_unused = true});
    for (size_t i = 0; i < inputs.size(); ++i) {
      note(or_zeros(gradients[i], inputs[i]));
      if (again) variables_.push_back(keep(gradients[i], inputs[i]));
    }
  }

  void note(const std::vector<double>& values) {
    log_.entries.push_back(values);
    log_.line.push_back(line_);
  }

  const Program& program_;
  size_t line_ = 0;
  Tensors variables_, leaves_;
  Log log_;
};

}  // namespace

Log run_lathe(const Program& program) { return Run(program).log(); }

}  // namespace lathe::programs
