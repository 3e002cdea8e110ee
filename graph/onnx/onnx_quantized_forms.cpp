// The ONNX forms of quantised ops: those in f32 between DequantizeLinear and QuantizeLinear, which
// runtimes put together again. onnx_layer_forms.cpp has the ops in f32. Contract: onnx_export.h.
#include <vector>

#include "lathe/core/format.h"
#include "lathe/graph/onnx/onnx_export.h"
#include "lathe/ops/creation.h"

namespace lathe::jit::onnx {

namespace {

/// x [N,…] with its scale → f32.
std::string real_form(Emission& e, size_t i, double scale) {
  return e.call("DequantizeLinear", {e.in(i), e.number(scale, kF32)});
}
/// Filters i8 with a scale for each of their first dimension → f32.
std::string real_filters(Emission& e) {
  return e.call("DequantizeLinear", {e.in(1), e.in(2)}, {{"axis", int64_t{0}}});
}
/// f32 → integers of the result's dtype.
std::string integer_form(Emission& e, const std::string& y, double scale) {
  return e.call("QuantizeLinear", {y, e.number(scale, kF32), e.number(0, e.type().dtype)});
}

/// What follows the sums of a layer. Input 4 is the residual.
std::string finished(Emission& e, std::string y) {
  if (e.has(4)) y = e.call("Add", {y, real_form(e, 4, e.real("residual_scale"))});
  if (e.flag("relu")) y = e.call("Relu", {y});
  return e.type().dtype == kF32 ? y : integer_form(e, y, e.real("y_scale"));
}

std::string quantize(Emission& e) {
  const std::string x = e.in(0, kF32);
  return integer_form(e, x, e.real("scale"));
}
std::string dequantize(Emission& e) { return real_form(e, 0, e.real("scale")); }

std::string quantized_conv2d(Emission& e) {
  std::vector<int64_t> pads = e.list("pad");
  pads.insert(pads.end(), {pads[0], pads[1]});
  const std::string x = real_form(e, 0, e.real("x_scale"));
  return finished(e, e.call("Conv", {x, real_filters(e), e.in(3)},
                            {{"strides", e.list("stride")},
                             {"pads", pads},
                             {"dilations", e.list("dilation")},
                             {"group", e.integer("groups")}}));
}

std::string quantized_linear(Emission& e) {
  const std::string x = real_form(e, 0, e.real("x_scale"));
  const std::string w =
      e.call("Transpose", {real_filters(e)}, {{"perm", std::vector<int64_t>{1, 0}}});
  std::string y = e.call("MatMul", {x, w});
  if (e.has(3)) y = e.call("Add", {y, e.in(3)});
  return finished(e, y);
}

constexpr Form kQuantizedForms[] = {
    {"dequantize", dequantize},
    {"quantize", quantize},
    {"quantized_conv2d", quantized_conv2d},
    {"quantized_linear", quantized_linear},
};

}  // namespace

std::span<const Form> quantized_forms() { return kQuantizedForms; }

}  // namespace lathe::jit::onnx
