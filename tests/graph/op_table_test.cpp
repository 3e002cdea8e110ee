// The table of ops: a graph that calls every op of it is run under the tracer, and the trace is the
// same graph. So each op hands over its arguments, and each is called with them.
#include "lathe/graph/op_table.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "lathe/autograd/autocast.h"
#include "lathe/autograd/grad_mode.h"
#include "lathe/core/error.h"
#include "lathe/core/format.h"
#include "lathe/core/random/generator.h"
#include "lathe/graph/trace.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/isclose.h"
#include "lathe/ops/random.h"
#include "lathe/tests/graph/every_op.h"

using namespace lathe;

namespace {

const std::string kX = "f32[2,3,4,4]";

/// A program that grows line by line.
struct Program {
  std::string lines = "const @c0: f32[] = 2.0\n";
  int count = 0;

  /// Adds a call of this result.  → its name
  std::string operator()(const std::string& type, const std::string& call) {
    const std::string name = concat("%", count++);
    lines += concat(name, ": ", type, " = ", call, "\n");
    return name;
  }
  /// Ops of x0, or of x0 and x1, with results of their shape.
  void all(const std::string& type, const std::string& operands,
           const std::vector<const char*>& names) {
    for (const char* const name : names) (*this)(type, concat(name, "(", operands, ")"));
  }
};

void add_pointwise(Program& p) {
  p.all(kX, "%x0", {"neg",   "abs",   "square",   "sign",        "floor",   "ceil",      "round",
                    "trunc", "exp",   "expm1",    "exp2",        "log",     "log1p",     "log2",
                    "log10", "sqrt",  "rsqrt",    "reciprocal",  "sin",     "cos",       "tan",
                    "asin",  "acos",  "atan",     "sinh",        "cosh",    "tanh",      "erf",
                    "relu",  "silu",  "relu6",    "hardsigmoid", "sigmoid", "hardswish", "mish",
                    "selu",  "clone", "softsign", "logsigmoid",  "lgamma",  "digamma",   "erfinv"});
  p.all(kX, "%x0, %x1",
        {"add", "sub", "mul", "div", "pow", "maximum", "minimum", "fmod", "remainder", "hypot",
         "atan2", "relu_grad", "tanh_grad", "sigmoid_grad", "gelu_grad", "gelu_tanh_grad"});
  p.all("bool[2,3,4,4]", "%x0", {"isnan", "isinf", "isfinite", "logical_not"});
  p.all("bool[2,3,4,4]", "%x0, %x1",
        {"eq", "ne", "lt", "le", "gt", "logical_and", "logical_or", "logical_xor"});
  const std::string mask = p("bool[2,3,4,4]", "ge(%x0, %x1)");
  p(kX, "prelu(%x0, %x2)");
  p(kX, "div(%x0, %x1, rounding_mode=\"floor\")");
  p(kX, "leaky_relu(%x0, slope=0.1)");
  p(kX, "polygamma(%x0, n=2)");
  p(kX, "elu(%x0, alpha=1.5)");
  p(kX, "gelu(%x0, tanh_approximation=true)");
  p(kX, "softplus(%x0, beta=2.0, threshold=20.0)");
  p(kX, "clamp(%x0, low=0.25, high=1)");
  p(kX, "hardtanh(%x0, low=-0.5, high=0.5)");
  p("f32[2,3,4,2]", "glu(%x0, dim=-1)");
  p(kX, "where(" + mask + ", %x0, %x1)");
  p(kX, "masked_fill(%x0, " + mask + ", value=0.5)");
  p(kX, "masked_fill(%x0, " + mask + ", @c0)");
  p("bool[3,4,4]", "any(" + mask + ", dims=[0], keepdim=false)");
  p("bool[1,3,4,4]", "all(" + mask + ", dims=[0], keepdim=true)");
}

void add_bits(Program& p) {
  constexpr const char* kBits = "i32[2,3,4,4]";
  const std::string bits = p(kBits, "cast(%x0, dtype=\"i32\")");
  p(kBits, "bitwise_not(" + bits + ")");
  p.all(kBits, bits + ", " + bits,
        {"bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift"});
}

void add_views(Program& p) {
  p("f32[6,16]", "view(%x0, shape=[6,16])");
  p("f32[2,48]", "reshape(%x0, shape=[2,-1])");
  p("f32[2,3,16]", "flatten(%x0, first=2, last=-1)");
  const std::string one = p("f32[1,2,3,4,4]", "unsqueeze(%x0, dim=0)");
  p(kX, "squeeze(" + one + ")");
  p(kX, "squeeze(" + one + ", dim=0)");
  p("f32[5,2,3,4,4]", "expand(" + one + ", shape=[5,2,3,4,4])");
  p("f32[2,4,3,4]", "transpose(%x0, a=1, b=2)");
  const std::string moved = p("f32[2,4,4,3]", "permute(%x0, order=[0,2,3,1])");
  p("f32[2,4,4,3]", "contiguous(" + moved + ", format=\"contiguous\")");
  p("f32[2,2,4,4]", "narrow(%x0, dim=1, start=1, length=2)");
  p("f32[2,3,2,4]", "slice(%x0, dim=2, start=0, stop=4, step=2)");
  p("f32[2,6,4,4]", "cat(%x0, %x1, dim=1)");
  p("f32[2,2,3,4,4]", "stack(%x0, %x1, dim=0)");
  p("f32[2,3,4,6]", "pad(%x0, amounts=[1,1], value=0)");
  p("f32[2,3,4,6]", "pad(%x0, amounts=[1,1], mode=\"reflect\")");
  p(kX, "tril(%x0, diagonal=0)");
  p(kX, "triu(%x0, diagonal=1)");
  p("f64[2,3,4,4]", "cast(%x0, dtype=\"f64\")");
}

void add_sums(Program& p) {
  for (const char* const op : {"sum", "mean", "prod", "norm", "logsumexp", "amax", "amin"}) {
    p("f32[2,1,4,1]", concat(op, "(%x0, dims=[1,3], keepdim=true)"));
  }
  p("f32[]", "max(%x0, dims=[], keepdim=false)");
  p("f32[]", "min(%x0, dims=[], keepdim=false)");
  p("f32[2,4,4]", "var(%x0, dims=[1], unbiased=true, keepdim=false, correction=\"none\")");
  p("f32[2,4,4]", "std(%x0, dims=[1], unbiased=false, keepdim=false, correction=2)");
  for (const char* const op : {"cumsum", "softmax", "log_softmax"}) {
    p(kX, concat(op, "(%x0, dim=1)"));
  }
}

void add_quantized(Program& p) {
  const std::string q = p("u8[2,3,4,4]", "quantize(%x0, scale=0.1, dtype=\"u8\")");
  const std::string w = p("i8[4,3,3,3]", "quantize(%x5, scale=0.1, dtype=\"i8\")");
  const std::string w_scale = p("f32[4]", "select(%x3, dim=0, index=0)");
  const std::string conv = "stride=[1,1], pad=[1,1], dilation=[1,1], groups=1, ";
  const std::string y = p(
      "i8[2,4,4,4]", concat("quantized_conv2d(", q, ", ", w, ", ", w_scale, ", none, none, ", conv,
                            "x_scale=0.1, residual_scale=1.0, y_scale=0.25, dtype=\"i8\", "
                            "relu=false)"));
  p("f32[2,4,4,4]",
    concat("quantized_conv2d(", q, ", ", w, ", ", w_scale, ", ", w_scale, ", ", y, ", ", conv,
           "x_scale=0.1, residual_scale=0.25, y_scale=1.0, "
           "dtype=\"f32\", relu=true)"));
  const std::string lw = p("i8[5,4]", "quantize(%x3, scale=0.1, dtype=\"i8\")");
  const std::string ones = p("f32[5]", "select(%x3, dim=1, index=0)");
  p("u8[2,3,4,5]",
    concat("quantized_linear(", q, ", ", lw, ", ", ones,
           ", none, none, "
           "x_scale=0.1, residual_scale=1.0, y_scale=0.5, dtype=\"u8\", relu=true)"));
  const std::string pooled = p("u8[2,3,2,2]", "quantized_max_pool2d(" + q +
                                                  ", kernel=[2,2], stride=[0,0], pad=[0,0], "
                                                  "dilation=[1,1], ceil_mode=false)");
  p("f32[2,3,2,2]", "dequantize(" + pooled + ", scale=0.1)");
}

void add_layers(Program& p) {
  const std::string geometry = "stride=[1,1], pad=[1,1], dilation=[1,1], groups=1)";
  p(kX, "matmul(%x0, %x1)");
  const std::string left = p("f32[3,4,4]", "select(%x0, dim=0, index=0)");
  p("f32[3,4,4]", "bmm(" + left + ", " + left + ")");
  p("f32[2,3,4,5]", "linear(%x0, %x3, none)");
  p("f32[2,3,4,5]", "linear(%x0, %x3, none, activation=\"gelu\", activate_last=true)");
  p("f32[2,3,4,5]", "mlp(%x0, %x3, none, activation=\"relu\", activate_last=false)");
  p("f32[3,4]", "embedding(%x3, %x4, padding_index=1)");
  p("f32[2,3,3,4]", "index_select(%x0, %x4, dim=2)");
  const std::string places = p("i64[2,3,4,4]", "cast(%x0, dtype=\"i64\")");
  p(kX, "gather(%x0, " + places + ", dim=1)");
  const std::string conv = p("f32[2,4,4,4]", "conv2d(%x0, %x5, none, " + geometry);
  p("f32[2,4,4,4]", "fused_conv2d(%x0, %x5, none, " + conv +
                        ", stride=[1,1], pad=[1,1], dilation=[1,1], groups=1, "
                        "constant_filters=false, relu=true)");
  add_quantized(p);
  const std::string line = p("f32[2,3,4]", "select(%x0, dim=3, index=1)");
  const std::string taps = p("f32[4,3,3]", "select(%x5, dim=3, index=1)");
  p("f32[2,4,4]",
    concat("conv1d(", line, ", ", taps, ", none, stride=1, pad=1, dilation=1, groups=1)"));
  const std::string turned = p("f32[3,4,3,3]", "transpose(%x5, a=0, b=1)");
  p("f32[2,4,4,4]", "conv_transpose2d(%x0, " + turned +
                        ", none, stride=[1,1], pad=[1,1], output_pad=[0,0], dilation=[1,1], "
                        "groups=1)");
  const std::string window = "kernel=[2,2], stride=[0,0], pad=[0,0], ";
  p("f32[2,3,2,2]", "max_pool2d(%x0, " + window + "dilation=[1,1], ceil_mode=false)");
  p("f32[2,3,2,2]", "avg_pool2d(%x0, " + window +
                        "ceil_mode=true, count_include_pad=false, divisor_override=\"none\")");
  p("f32[2,3,1,2]", "adaptive_avg_pool2d(%x0, size=[1,2])");
  p("f32[2,3,8,8]",
    "upsample(%x0, size=[0,0], scale_rows=2.0, scale_columns=2.0, mode=\"bilinear\", "
    "align_corners=true)");
  const std::string norm = "%x2, %x2, %x2, %x2, training=false, eps=0.001)";
  p(kX, "batch_norm(%x0, " + norm);
  p(kX, "batch_norm_relu(%x0, " + norm);
  p(kX, "batch_norm_add_relu(%x0, %x1, " + norm);
  const std::string few = p("f32[2,1,4,4]", "narrow(%x1, dim=1, start=0, length=1)");
  const std::string seen = p("bool[2,3,4,4]", "gt(%x0, %x1)");
  p(kX, "scaled_dot_product_attention(%x0, %x1, %x0, none, causal=true, scale=0.5, grouped=false)");
  p(kX, concat("scaled_dot_product_attention(%x0, ", few, ", ", few, ", ", seen,
               ", causal=false, scale=0.25, grouped=true)"));
  p(kX, concat("scaled_dot_product_attention(%x0, %x0, %x1, ", left,
               ", causal=false, scale=0.5, grouped=false)"));
  p(kX, "layer_norm(%x0, none, none, normalized=[4], eps=1e-06)");
  p(kX, "group_norm(%x0, %x2, none, groups=3, eps=1e-05)");
  p("f32[]",
    "cross_entropy(%x0, %x1, %x2, ignore_index=-100, label_smoothing=0.1, reduction=\"mean\")");
  const std::string rows = p("f32[3,4]", "index_select(%x3, %x4, dim=0)");
  p("f32[3]", "nll_loss(" + rows + ", %x4, none, ignore_index=1, reduction=\"none\")");
}

}  // namespace

namespace lathe::testing {

std::string every_op_text(bool all) {
  Program program;
  add_pointwise(program);
  add_bits(program);
  add_views(program);
  add_sums(program);
  add_layers(program);
  std::string outputs;
  for (int i = all ? 0 : program.count - 1; i < program.count; ++i) {
    outputs += concat(outputs.empty() ? "" : ", ", "%", i);
  }
  return "lathe graph 1\n"
         "input %x0: f32[2,3,4,4]\n"
         "input %x1: f32[2,3,4,4]\n"
         "input %x2: f32[3]\n"
         "input %x3: f32[5,4]\n"
         "input %x4: i64[3]\n"
         "input %x5: f32[4,3,3,3]\n" +
         program.lines + "output " + outputs + "\n";
}

Tensors every_op_inputs() {
  manual_seed(6);
  Tensors inputs = {rand({2, 3, 4, 4}), rand({2, 3, 4, 4}), rand({3}), rand({5, 4}), arange(3)};
  inputs.push_back(rand({4, 3, 3, 3}));
  return inputs;
}

}  // namespace lathe::testing

TEST_CASE("op table: the trace of a graph that calls every op is this graph") {
  const std::string text = testing::every_op_text(true);  // else most of them would not run
  for (const jit::Op& op : jit::all_ops()) {
    if (op.has_effects()) continue;  // compile_training_test.cpp
    CHECK_MESSAGE(text.find(concat(" = ", op.name, "(")) != std::string::npos, op.name);
  }
  const jit::Graph graph = jit::parse(text);
  const auto f = [&](const Tensors& x) { return graph.run(x); };
  const Tensors inputs = testing::every_op_inputs();
  const jit::Graph traced = jit::trace(f, inputs, {.dynamic_batch = false});
  CHECK(traced.text() == text);
  CHECK(equal(traced.run(inputs)[0], graph.run(inputs)[0]));
}

TEST_CASE("op table: each op's trace under Autocast has the op's bits") {
  const NoGrad off;
  const jit::Graph graph = jit::parse(testing::every_op_text(true));
  std::vector<Tensor> values(graph.values.size());
  const Tensors inputs = testing::every_op_inputs();
  for (size_t i = 0; i < inputs.size(); ++i) {
    values[static_cast<size_t>(graph.inputs[i])] = inputs[i];
  }
  for (const jit::Node& node : graph.nodes) {
    Tensors given, as_half;  // those that are defined
    std::vector<int> place;
    for (const int input : node.inputs) {
      const Tensor t = input < 0 ? Tensor() : graph.values[static_cast<size_t>(input)].tensor;
      const Tensor known = input < 0 || t.defined() ? t : values[static_cast<size_t>(input)];
      place.push_back(known.defined() ? static_cast<int>(given.size()) : -1);
      if (!known.defined()) continue;
      given.push_back(known);
      as_half.push_back(known.dtype() == kF32 && known.ndim() > 1 ? cast(known, kF16) : known);
    }
    const auto call = [&](const Tensors& t) {
      Tensors in;
      for (const int at : place) in.push_back(at < 0 ? Tensor() : t[static_cast<size_t>(at)]);
      return Tensors{node.op->call(in, node.attributes)};
    };
    const auto in_half = [&](const Tensors& t) {
      const Autocast half(kCPU, kF16);
      return call(t);
    };
    for (const bool is_half : {false, true}) {
      if (node.op->name == "contiguous") break;  // calls nothing where the order is right already
      const Tensors& t = is_half ? as_half : given;
      const std::string what = concat(node.op->name, is_half ? " of f16" : " of f32");
      CAPTURE(what);
      Tensor want;
      try {
        want = in_half(t)[0];
      } catch (const DTypeError&) {
        CHECK(is_half);  // which not every op takes beside f32
        continue;
      }
      const jit::TraceOptions fixed{.dynamic_batch = false};
      if (node.op->name == "fused_conv2d" && !is_half) {  // its residual stays f32, so does the sum
        CHECK_THROWS_WITH_AS(jit::trace(in_half, t, fixed), doctest::Contains("does not cast"),
                             jit::TraceError);
        continue;
      }
      const Tensor got = jit::trace(in_half, t, fixed).run(t)[0];
      CHECK(got.dtype() == want.dtype());
      CHECK(equal(got, want));
    }
    values[static_cast<size_t>(node.output)] = call(given)[0];
  }
}
