// Convolution layers: checks of the sizes, initial values, and the multiply-adds of one forward.
#include "lathe/nn/conv.h"

#include "lathe/nn/init.h"
#include "lathe/nn/lora_layer.h"
#include "lathe/ops/conv1d.h"
#include "lathe/ops/conv2d.h"
#include "lathe/ops/conv_transpose2d.h"

namespace lathe::nn {

namespace {

void check_layer(const char* layer, int64_t in, int64_t out, const Pair& kernel, int64_t groups) {
  LATHE_CHECK(ValueError, in > 0 && out > 0, layer, ": channels must be positive, got ", in,
              " and ", out);
  LATHE_CHECK(ValueError, kernel > 0, layer, ": kernel must be set and positive, got ", kernel);
  LATHE_CHECK(ValueError, groups > 0 && in % groups == 0 && out % groups == 0, layer, ": ", groups,
              " groups do not divide ", in, " input and ", out, " output channels");
}

int64_t taps_per_channel(const Tensor& weight) { return weight.numel() / weight.dim(0); }

}  // namespace

Conv2d::Conv2d(int64_t in, int64_t out, const Conv2dOptions& o) : options_(o) {
  check_layer("Conv2d", in, out, o.kernel, o.groups);
  const Shape shape{out, in / o.groups, o.kernel.rows, o.kernel.cols};
  const int64_t fan_in = init::fans_of(shape).in;
  weight =
      parameter("weight", o.init ? init::uniform_fan_in(shape, fan_in) : init::left_open(shape));
  if (o.bias) bias = parameter("bias", init::uniform_fan_in({out}, fan_in));
}

lathe::Conv2dOptions Conv2d::op_options() const {
  return {.bias = bias,
          .stride = options_.stride,
          .pad = options_.pad,
          .dilation = options_.dilation,
          .groups = options_.groups};
}

Tensor Conv2d::forward(const Tensor& x) { return conv2d(x, weight, op_options()); }

Tensor Conv2d::operator()(NormRelu&& x) {
  if (has_hooks() || !x.waits()) return (*this)(Tensor(x));
  Tensor y;
  call([&] { y = x.into_conv2d(weight, op_options()); });
  return y;
}

int64_t Conv2d::macs(const Shape&, const Shape& y) const {
  return numel_of(y) * taps_per_channel(weight);
}

// In a convolution of groups B A mixes them, which its weight cannot.
std::optional<LoraLayer> Conv2d::lora_layer() const {
  if (options_.groups != 1) return {};
  LoraLayer out{.kind = LoraLayer::Kind::kConv2d, .weight = weight, .conv = op_options()};
  out.conv.bias = {};
  return out;
}

Conv1d::Conv1d(int64_t in, int64_t out, const Conv1dOptions& o) : options_(o) {
  check_layer("Conv1d", in, out, o.kernel, o.groups);
  const Shape shape{out, in / o.groups, o.kernel};
  const int64_t fan_in = init::fans_of(shape).in;
  weight = parameter("weight", init::uniform_fan_in(shape, fan_in));
  if (o.bias) bias = parameter("bias", init::uniform_fan_in({out}, fan_in));
}

Tensor Conv1d::forward(const Tensor& x) {
  return conv1d(x, weight,
                {.bias = bias,
                 .stride = options_.stride,
                 .pad = options_.pad,
                 .dilation = options_.dilation,
                 .groups = options_.groups});
}

int64_t Conv1d::macs(const Shape&, const Shape& y) const {
  return numel_of(y) * taps_per_channel(weight);
}

ConvTranspose2d::ConvTranspose2d(int64_t in, int64_t out, const ConvTranspose2dOptions& o)
    : options_(o) {
  check_layer("ConvTranspose2d", in, out, o.kernel, o.groups);
  const Shape shape{in, out / o.groups, o.kernel.rows, o.kernel.cols};
  const int64_t fan_in = init::fans_of(shape).in;
  weight = parameter("weight", init::uniform_fan_in(shape, fan_in));
  if (o.bias) bias = parameter("bias", init::uniform_fan_in({out}, fan_in));
}

Tensor ConvTranspose2d::forward(const Tensor& x) {
  return conv_transpose2d(x, weight,
                          {.bias = bias,
                           .stride = options_.stride,
                           .pad = options_.pad,
                           .output_pad = options_.output_pad,
                           .dilation = options_.dilation,
                           .groups = options_.groups});
}

int64_t ConvTranspose2d::macs(const Shape& x, const Shape&) const {
  return numel_of(x) * taps_per_channel(weight);
}

}  // namespace lathe::nn
