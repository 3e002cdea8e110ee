// ONNX operators that are layers: convolutions, pooling, products, normalisation, softmax; and what
// turns f32 into integers and back. Contract: onnx_import.h.
#include <algorithm>
#include <array>
#include <limits>

#include "lathe/core/format.h"
#include "lathe/graph/onnx/onnx_import.h"

namespace lathe::jit::onnx {

namespace {

/// Where the windows of a convolution or a pooling lie, per spatial dimension.
struct Windows {
  std::vector<int64_t> kernel, stride, dilation, before, after;
  bool ceil_mode = false;

  size_t count() const { return kernel.size(); }
  bool is_even() const { return before == after; }
  bool is_padded() const {
    const auto some = [](int64_t n) { return n != 0; };
    return std::any_of(before.begin(), before.end(), some) ||
           std::any_of(after.begin(), after.end(), some);
  }
};

std::vector<Size> sizes(const std::vector<int64_t>& values) {
  std::vector<Size> out;
  for (const int64_t value : values) out.push_back({0, value});
  return out;
}

/// An attribute with `count` numbers from `least` on; all `otherwise` if it is missing.
std::vector<int64_t> numbers(Call& c, const char* name, size_t count, int64_t otherwise,
                             int64_t least) {
  const auto given = c.list(name);
  if (!given) return std::vector<int64_t>(count, otherwise);
  constexpr int64_t kMost = (int64_t{1} << 31) - 1;
  const bool fits =
      given->size() == count &&
      std::all_of(given->begin(), given->end(), [&](auto n) { return n >= least && n <= kMost; });
  if (!fits) c.refuse(concat(name, " must be ", count, " numbers of at least ", least));
  return *given;
}

/// The windows' places over x [N,C,…], and the shape of the result with `channels` channels.
Windows windows(Call& c, const Type& x, const std::vector<int64_t>& kernel, Type& result) {
  Windows w{.kernel = kernel,
            .stride = numbers(c, "strides", kernel.size(), 1, 1),
            .dilation = numbers(c, "dilations", kernel.size(), 1, 1),
            .before = {},
            .after = {}};
  const size_t n = w.count();
  const std::string how = c.word("auto_pad", "NOTSET");
  const std::vector<int64_t> pads = numbers(c, "pads", 2 * n, 0, 0);
  w.ceil_mode = c.integer("ceil_mode", 0) != 0;
  const bool same_upper = how == "SAME_UPPER", same = same_upper || how == "SAME_LOWER";
  if (!same && how != "NOTSET" && how != "VALID") c.refuse("auto_pad has an unknown word");
  for (size_t i = 0; i < n; ++i) {
    const int64_t size = c.fixed(x, i + 2), span = w.dilation[i] * (w.kernel[i] - 1) + 1;
    const int64_t last = (size + w.stride[i] - 1) / w.stride[i] - 1;
    const int64_t more = same ? std::max<int64_t>(0, last * w.stride[i] + span - size) : 0;
    w.before.push_back(how == "NOTSET" ? pads[i] : same_upper ? more / 2 : more - more / 2);
    w.after.push_back(how == "NOTSET" ? pads[n + i] : more - w.before[i]);
    const int64_t room = size + w.before[i] + w.after[i] - span;
    if (room < 0) c.refuse(concat("its window does not fit into ", to_text(x)));
    int64_t places = room / w.stride[i] + 1;
    if (w.ceil_mode && room % w.stride[i] != 0) {  // it must begin inside
      places += places * w.stride[i] < size + w.before[i];
    }
    result.shape.push_back({0, places});
  }
  return w;
}

/// x with borders of `value`, for windows whose padding an op cannot express.
int padded(Call& c, Windows& w, double value) {
  Type x = c.type(0);
  std::vector<Size> amounts;  // from the last dimension on
  for (size_t i = w.count(); i-- > 0;) {
    amounts.push_back({0, w.before[i]});
    amounts.push_back({0, w.after[i]});
    x.shape[i + 2] = c.plus(x.shape[i + 2], {0, w.before[i] + w.after[i]});
  }
  w.before.assign(w.count(), 0);
  w.after = w.before;
  return c.add("pad", {c.in(0)}, x, {{"amounts", amounts}, {"value", value}});
}

/// x, with its borders if those of the two sides differ.
int evened(Call& c, Windows& w, double value) {
  return w.is_even() ? c.in(0) : padded(c, w, value);
}

void conv(Call& c) {
  const Type x = c.type(0), filters = c.type(1);
  const size_t ndim = x.shape.size();
  if ((ndim != 3 && ndim != 4) || filters.shape.size() != ndim) {
    c.refuse(concat("only convolutions in 1 or 2 dimensions have a counterpart here, not x ",
                    to_text(x), " with filters ", to_text(filters)));
  }
  std::vector<int64_t> kernel;
  for (size_t d = 2; d < ndim; ++d) kernel.push_back(c.fixed(filters, d));
  if (std::any_of(kernel.begin(), kernel.end(), [](int64_t n) { return n < 1 || n >> 31; }) ||
      numbers(c, "kernel_shape", kernel.size(), 1, 1).empty()) {
    c.refuse("its filters have no taps, or too many");
  }
  Type y{x.dtype, {x.shape[0], filters.shape[0]}};
  Windows w = windows(c, x, kernel, y);
  const int64_t groups = c.integer("group", 1);
  const int in = evened(c, w, 0), weight = c.in(1), bias = c.maybe(2);
  if (ndim == 3) {
    return c.result(c.add("conv1d", {in, weight, bias}, y,
                          {{"stride", of(w.stride[0])},
                           {"pad", of(w.before[0])},
                           {"dilation", of(w.dilation[0])},
                           {"groups", of(groups)}}));
  }
  c.result(c.add("conv2d", {in, weight, bias}, y,
                 {{"stride", sizes(w.stride)},
                  {"pad", sizes(w.before)},
                  {"dilation", sizes(w.dilation)},
                  {"groups", of(groups)}}));
}

void conv_transpose(Call& c) {
  const Type x = c.type(0), filters = c.type(1);
  if (x.shape.size() != 4 || filters.shape.size() != 4) {
    c.refuse(concat("only [N,C,H,W] has a counterpart here, not ", to_text(x)));
  }
  if (c.word("auto_pad", "NOTSET") != "NOTSET" || c.list("output_shape")) {
    c.refuse("auto_pad and output_shape have no counterpart here");
  }
  c.ignore("kernel_shape");
  const std::vector<int64_t> stride = numbers(c, "strides", 2, 1, 1),
                             dilation = numbers(c, "dilations", 2, 1, 1),
                             pads = numbers(c, "pads", 4, 0, 0),
                             more = numbers(c, "output_padding", 2, 0, 0);
  const int64_t groups = c.integer("group", 1);
  if (pads[0] != pads[2] || pads[1] != pads[3])
    c.refuse("pads at the two ends of an axis must be equal");
  Type y{x.dtype, {x.shape[0], c.times(filters.shape[1], {0, groups})}};
  for (size_t i = 0; i < 2; ++i) {
    const Size taps = c.times({0, c.fixed(filters, i + 2) - 1}, {0, dilation[i]});
    const Size steps = c.times({0, c.fixed(x, i + 2) - 1}, {0, stride[i]});
    y.shape.push_back(c.plus(c.plus(steps, taps), {0, more[i] + 1 - 2 * pads[i]}));
  }
  c.result(c.add("conv_transpose2d", {c.in(0), c.in(1), c.maybe(2)}, y,
                 {{"stride", sizes(stride)},
                  {"pad", sizes({pads[0], pads[1]})},
                  {"output_pad", sizes(more)},
                  {"dilation", sizes(dilation)},
                  {"groups", of(groups)}}));
}

/// The kernel of a pooling of planes.
std::vector<int64_t> pool_kernel(Call& c, const Type& x) {
  if (x.shape.size() != 4) {
    c.refuse(concat("only [N,C,H,W] has a counterpart here, not ", to_text(x)));
  }
  return numbers(c, "kernel_shape", 2, 1, 1);
}

/// The ops take padding up to half a kernel.
bool is_narrow(const Windows& w) {
  for (size_t i = 0; i < w.count(); ++i) {
    if (w.before[i] > w.kernel[i] / 2) return false;
  }
  return true;
}

void max_pool(Call& c) {
  const Type x = c.type(0);
  c.only("storage_order", 0);
  Type y{x.dtype,
         {x.shape.size() > 1 ? x.shape[0] : Size{}, x.shape.size() > 1 ? x.shape[1] : Size{}}};
  Windows w = windows(c, x, pool_kernel(c, x), y);
  const double lowest = -std::numeric_limits<double>::infinity();
  const bool fits = w.is_even() && is_narrow(w);
  if (w.ceil_mode && !fits) c.refuse("ceil_mode with such pads has no counterpart here");
  const bool quantized = x.dtype == kU8 || x.dtype == kI8;
  if (quantized && (!fits || x.shape.size() != 4))
    c.refuse("for integers, only [N,C,H,W] with equal pads at both ends has a counterpart here");
  const int in = fits ? c.in(0) : padded(c, w, lowest);
  c.result(c.add(quantized ? "quantized_max_pool2d" : "max_pool2d", {in}, y,
                 {{"kernel", sizes(w.kernel)},
                  {"stride", sizes(w.stride)},
                  {"pad", sizes(w.before)},
                  {"dilation", sizes(w.dilation)},
                  {"ceil_mode", w.ceil_mode}}));
}

void average_pool(Call& c) {
  const Type x = c.type(0);
  const bool counts = c.integer("count_include_pad", 0) != 0;
  Type y{x.dtype,
         {x.shape.size() > 1 ? x.shape[0] : Size{}, x.shape.size() > 1 ? x.shape[1] : Size{}}};
  Windows w = windows(c, x, pool_kernel(c, x), y);
  if (w.dilation != std::vector<int64_t>{1, 1}) c.refuse("dilations have no counterpart here");
  const bool fits = w.is_even() && is_narrow(w);
  if (!fits && (!counts || w.ceil_mode)) {
    c.refuse(
        "without count_include_pad, pads that differ, or are more than half of the kernel, have no "
        "counterpart here");
  }
  const int in = fits ? c.in(0) : padded(c, w, 0);
  c.result(c.add("avg_pool2d", {in}, y,
                 {{"kernel", sizes(w.kernel)},
                  {"stride", sizes(w.stride)},
                  {"pad", sizes(w.before)},
                  {"ceil_mode", w.ceil_mode},
                  {"count_include_pad", counts},
                  {"divisor_override", std::string("none")}}));
}

void global_pool(Call& c) {
  const Type x = c.type(0);
  Type y = x;
  std::vector<Size> dims;
  for (size_t d = 2; d < x.shape.size(); ++d) {
    y.shape[d] = {0, 1};
    dims.push_back({0, static_cast<int64_t>(d)});
  }
  if (dims.empty()) c.refuse(concat("there is nothing to pool in ", to_text(x)));
  const bool is_mean = c.op() == "GlobalAveragePool";
  if (is_mean && dims.size() == 2) {
    return c.result(c.add("adaptive_avg_pool2d", {c.in(0)}, y, {{"size", sizes({1, 1})}}));
  }
  c.result(c.add(is_mean ? "mean" : "amax", {c.in(0)}, y, {{"dims", dims}, {"keepdim", true}}));
}

// --- products ------------------------------------------------------------------------------------

void matmul(Call& c) {
  const Type a = c.type(0), b = c.type(1);
  if (a.dtype != b.dtype) c.refuse("its inputs must have one dtype");
  if (a.shape.empty() || b.shape.empty()) c.refuse("a number has no matrix product");
  const std::span<const Size> as(a.shape), bs(b.shape);
  const bool is_row = as.size() == 1, is_column = bs.size() == 1;
  const auto batch = [](std::span<const Size> s) {
    return std::vector<Size>(s.begin(), s.end() - std::min<ptrdiff_t>(2, std::ssize(s)));
  };
  if (as.back() != (is_column ? bs[0] : bs[bs.size() - 2])) {
    c.refuse(concat(to_text(a), " and ", to_text(b), " have no matrix product"));
  }
  Type y{a.dtype, c.broadcast(batch(as), batch(bs))};
  if (!is_row) y.shape.push_back(as[as.size() - 2]);
  if (!is_column) y.shape.push_back(bs.back());
  c.result(c.add("matmul", {c.in(0), c.in(1)}, y));
}

/// A matrix the other way round.
int turned(Call& c, int value) {
  Type type = c.type_of(value);
  std::swap(type.shape[0], type.shape[1]);
  return c.add("transpose", {value}, type, {{"a", Size{0, 0}}, {"b", Size{0, 1}}});
}

void gemm(Call& c) {  // alpha * a * b + beta * bias
  const bool turn_a = c.integer("transA", 0) != 0, turn_b = c.integer("transB", 0) != 0;
  const double alpha = c.real("alpha", 1), beta = c.real("beta", 1);
  const Type a = c.type(0), b = c.type(1);
  if (a.shape.size() != 2 || b.shape.size() != 2) c.refuse("its inputs must be matrices");
  if (a.shape[turn_a ? 0 : 1] != b.shape[turn_b ? 1 : 0]) {
    c.refuse(concat(to_text(a), " and ", to_text(b), " have no matrix product"));
  }
  const Type y{a.dtype, {a.shape[turn_a ? 1 : 0], b.shape[turn_b ? 0 : 1]}};
  const bool plain = alpha == 1 && beta == 1 && !turn_a && turn_b;
  const bool is_line = !c.has(2) || c.type(2).shape == std::vector<Size>{y.shape[1]};
  if (plain && is_line) {
    return c.result(c.add("linear", {c.in(0), c.in(1), c.maybe(2)}, y));
  }
  const int left = turn_a ? turned(c, c.in(0)) : c.in(0);
  const int right = turn_b ? turned(c, c.in(1)) : c.in(1);
  int value = c.add("matmul", {left, right}, y);
  if (alpha != 1) value = c.add("mul", {value, c.number(alpha, y.dtype)}, y);
  if (c.has(2) && beta != 0) {
    const Type bias = c.type(2);
    int moved = c.in(2);
    if (beta != 1) moved = c.add("mul", {moved, c.number(beta, y.dtype)}, bias);
    value = c.add("add", {value, moved}, {y.dtype, c.broadcast(y.shape, bias.shape)});
  }
  c.result(value);
}

// --- normalisation -------------------------------------------------------------------------------

void batch_norm(Call& c) {
  c.ignore("spatial");
  const double momentum = 1 - c.real("momentum", 0.9);  // ONNX weighs the old value
  if (c.for_training()) {
    c.ignore("training_mode");
    return c.result(
        c.add("batch_norm", {c.in(0), c.in(1), c.in(2), c.in(3), c.in(4), -1}, c.type(0),
              {{"training", true}, {"momentum", momentum}, {"eps", c.real("epsilon", 1e-5)}}));
  }
  c.only("training_mode", 0);
  c.result(c.add("batch_norm", {c.in(0), c.in(1), c.in(2), c.in(3), c.in(4)}, c.type(0),
                 {{"training", false}, {"eps", c.real("epsilon", 1e-5)}}));
}

void layer_norm(Call& c) {
  c.ignore("stash_type");
  const Type x = c.type(0);
  std::vector<Size> normalized;
  for (size_t d = c.axis(c.integer("axis", -1), x.shape.size()); d < x.shape.size(); ++d) {
    normalized.push_back({0, c.fixed(x, d)});
  }
  c.result(c.add("layer_norm", {c.in(0), c.in(1), c.maybe(2)}, x,
                 {{"normalized", normalized}, {"eps", c.real("epsilon", 1e-5)}}));
}

void group_norm(Call& c) {
  c.ignore("stash_type");
  const Type x = c.type(0);
  if (x.shape.size() < 3) c.refuse(concat("its input must be [N,C,…], not ", to_text(x)));
  const bool by_channel = c.op() == "InstanceNormalization";
  if (!by_channel && c.opset() < 21)
    c.refuse("before opset 21 it has one weight for each group, which has no counterpart here");
  const int64_t groups = by_channel ? c.fixed(x, 1) : c.integer("num_groups", 0);
  c.result(c.add("group_norm", {c.in(0), c.in(1), c.in(2)}, x,
                 {{"groups", of(groups)}, {"eps", c.real("epsilon", 1e-5)}}));
}

void softmax(Call& c) {
  const Type x = c.type(0);
  const bool old = c.opset() < 13;  // over all dimensions from the axis on
  const size_t axis = c.axis(c.integer("axis", old ? 1 : -1), x.shape.size());
  if (old && axis + 1 != x.shape.size()) {
    c.refuse("over several dimensions, as before opset 13, it has no counterpart here");
  }
  c.result(c.add(c.op() == "Softmax" ? "softmax" : "log_softmax", {c.in(0)}, x,
                 {{"dim", Size{0, static_cast<int64_t>(axis)}}}));
}

void dropout(Call& c) {
  c.ignore("seed");
  double p = c.real("ratio", 0.5);
  if (c.for_training()) {
    if (c.has(1)) {
      const auto ratio = c.constant(1);
      if (!ratio || ratio->numel() != 1)
        c.refuse("its ratio must be a constant number of the file");
      p = ratio->item<double>();
    }
    if (!(p >= 0 && p <= 1)) c.refuse(concat("its ratio must be from 0 to 1, not ", p));
    return c.result(c.add("dropout", {c.in(0)}, c.type(0), {{"p", p}}));
  }
  if (c.has(2)) {
    for (const int64_t training : c.integers(2, "training_mode")) {
      if (training != 0)
        c.refuse("training_mode is true, which only jit::load_onnx_module() reads");
    }
  }
  c.pass(0);
}

// --- quantisation --------------------------------------------------------------------------------

/// The scale and the zero point of QuantizeLinear and DequantizeLinear: inputs 1 and 2. Where they
/// are vectors, they lie along `axis`, in the shape in which they are broadcast.
int broadcast_along(Call& c, int value, const Type& x) {
  const Type type = c.type_of(value);
  if (type.shape.empty() || type.shape == std::vector<Size>{of(int64_t{1})})
    return c.reshaped(value, {});
  const size_t axis = c.axis(c.integer("axis", 1), x.shape.size());
  if (type.shape != std::vector<Size>{x.shape[axis]})
    c.refuse("its scale must be one number, or have one for each element of its axis");
  std::vector<Size> shape(x.shape.size(), of(int64_t{1}));
  shape[axis] = type.shape[0];
  return c.reshaped(value, shape);
}
/// Input 2 as f32, or -1 where it is all zeros.
int zero_point(Call& c) {
  if (!c.has(2)) return -1;
  if (const auto t = c.constant(2)) {
    const std::vector<double> values = t->to_vector<double>();
    if (std::all_of(values.begin(), values.end(), [](double v) { return v == 0; })) return -1;
  }
  return c.add("cast", {c.in(2)}, {kF32, c.type(2).shape}, {{"dtype", std::string("f32")}});
}

void dequantize_linear(Call& c) {
  const Type q = c.type(0);
  if (c.type(1).dtype != kF32) c.refuse("its scale must be of f32");
  c.only("block_size", 0), c.ignore("axis");  // says nothing of a scale that is one number
  const int64_t output = c.integer("output_dtype", 0);  // ONNX's numbers: 0 none, 1 f32
  if (output != 0 && output != 1) c.refuse("only f32 has a counterpart here");
  const Type x{kF32, q.shape};
  const auto scale = c.constant(1);
  const int zero = zero_point(c);
  if (zero < 0 && (q.dtype == kU8 || q.dtype == kI8) && scale && scale->numel() == 1) {
    return c.result(c.add("dequantize", {c.in(0)}, x, {{"scale", scale->item<double>()}}));
  }
  int value = c.add("cast", {c.in(0)}, x, {{"dtype", std::string("f32")}});
  if (zero >= 0) value = c.add("sub", {value, broadcast_along(c, zero, x)}, x);
  c.result(c.add("mul", {value, broadcast_along(c, c.in(1), x)}, x));
}

void quantize_linear(Call& c) {
  const Type x = c.type(0);
  const int64_t output = c.integer("output_dtype", 0);  // ONNX's numbers: 0 none, 2 u8, 3 i8
  if (output != 0 && output != 2 && output != 3) c.refuse("only u8 and i8 have a counterpart here");
  const DType asked = output == 3 ? kI8 : kU8, dtype = c.has(2) ? c.type(2).dtype : asked;
  if (output != 0 && dtype != asked) c.refuse("output_dtype is not that of its zero point");
  if (x.dtype != kF32 || c.type(1).dtype != kF32) c.refuse("only f32 has a counterpart here");
  if (dtype != kU8 && dtype != kI8) c.refuse("only u8 and i8 have a counterpart here");
  c.only("block_size", 0), c.ignore("saturate"), c.ignore("axis");
  const Type q{dtype, x.shape};
  const std::string word = dtype == kU8 ? "u8" : "i8";
  const auto scale = c.constant(1);
  const int zero = zero_point(c);
  if (zero < 0 && scale && scale->numel() == 1) {
    return c.result(
        c.add("quantize", {c.in(0)}, q, {{"scale", scale->item<double>()}, {"dtype", word}}));
  }
  int value = c.add("div", {c.in(0), broadcast_along(c, c.in(1), x)}, x);
  value = c.add("round", {value}, x);
  if (zero >= 0) value = c.add("add", {value, broadcast_along(c, zero, x)}, x);
  const double low = dtype == kU8 ? 0 : -128;
  value = c.add("clamp", {value}, x, {{"low", low}, {"high", low + 255}});
  c.result(c.add("cast", {value}, q, {{"dtype", word}}));
}

constexpr Operator kLayers[] = {
    {"AveragePool", average_pool},
    {"BatchNormalization", batch_norm},
    {"Conv", conv},
    {"ConvTranspose", conv_transpose},
    {"DequantizeLinear", dequantize_linear},
    {"Dropout", dropout},
    {"Gemm", gemm},
    {"GlobalAveragePool", global_pool},
    {"GlobalMaxPool", global_pool},
    {"GroupNormalization", group_norm},
    {"InstanceNormalization", group_norm},
    {"LayerNormalization", layer_norm},
    {"LogSoftmax", softmax},
    {"MatMul", matmul},
    {"MaxPool", max_pool},
    {"QuantizeLinear", quantize_linear},
    {"Softmax", softmax},
};

}  // namespace

std::span<const Operator> layer_operators() { return kLayers; }

}  // namespace lathe::jit::onnx
