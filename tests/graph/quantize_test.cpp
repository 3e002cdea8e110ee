// Quantisation after training: what the graph becomes, on text; that its results are those of
// integers, and close to f32's; ranges; layers that stay; calibration data that cannot be used.
#include "lathe/graph/quantize/quantize.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "lathe/autograd/grad_mode.h"
#include "lathe/core/format.h"
#include "lathe/core/random/generator.h"
#include "lathe/graph/file.h"
#include "lathe/graph/passes.h"
#include "lathe/graph/trace.h"
#include "lathe/nn/models.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/isclose.h"
#include "lathe/ops/quantized.h"
#include "lathe/ops/random.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"
#include "lathe/tests/data/files.h"

using namespace lathe;

namespace {

/// A graph of this text, whose tensors are random.
jit::Graph graph_of(const std::string& text) {
  jit::Graph graph = jit::parse("lathe graph 1\n" + text);
  StateDict state;
  for (const jit::Value& value : graph.values) {
    if (value.origin == jit::Origin::kInput || value.origin == jit::Origin::kNode) continue;
    Shape shape;
    for (const jit::Size& size : value.type.shape) shape.push_back(size.fixed);
    state.add(value.name, randn(shape) * 0.3);
  }
  graph.bind(state);
  return graph;
}

/// How far y is from `exact`, in dB.
double sqnr(const Tensor& y, const Tensor& exact) {
  const double signal = exact.to(kF64).square().sum().item<double>();
  const double noise = (y.to(kF64) - exact.to(kF64)).square().sum().item<double>();
  return 10 * std::log10(signal / noise);
}

const std::string kGeometry = "stride=[1,1], pad=[1,1], dilation=[1,1], groups=1";

/// Two convolutions with a pool between them, a residual, and a linear layer.
const std::string kBlock =
    "input %x: f32[N,4,8,8]\n"
    "param @w1: f32[8,4,3,3]\n"
    "param @w2: f32[8,8,3,3]\n"
    "param @b2: f32[8]\n"
    "param @w3: f32[8,8,3,3]\n"
    "param @w: f32[5,128]\n"
    "param @b: f32[5]\n"
    "%0: f32[N,8,8,8] = conv2d(%x, @w1, none, " +
    kGeometry +
    ")  # Net.first\n"
    "%1: f32[N,8,8,8] = relu(%0)\n"
    "%2: f32[N,8,4,4] = max_pool2d(%1, kernel=[2,2], stride=[0,0], pad=[0,0], dilation=[1,1], "
    "ceil_mode=false)\n"
    "%3: f32[N,8,4,4] = conv2d(%2, @w2, @b2, " +
    kGeometry +
    ")  # Net.second\n"
    "%4: f32[N,8,4,4] = relu(%3)\n"
    "%5: f32[N,8,4,4] = conv2d(%4, @w3, none, " +
    kGeometry +
    ")  # Net.third\n"
    "%6: f32[N,8,4,4] = add(%5, %2)\n"
    "%7: f32[N,8,4,4] = relu(%6)\n"
    "%8: f32[N,128] = flatten(%7, first=1, last=-1)\n"
    "%9: f32[N,5] = linear(%8, @w, @b)  # Net.fc\n"
    "output %9\n";

std::vector<Tensors> images(int64_t batches) {
  std::vector<Tensors> all;
  for (int64_t i = 0; i < batches; ++i) all.push_back({randn({6, 4, 8, 8})});
  return all;
}

/// The names of a graph's ops, in order.
std::string ops_of(const jit::Graph& graph) {
  std::string names, text = graph.text();
  for (const jit::Node& node : graph.nodes) {
    const std::string call = jit::to_text(graph.values[static_cast<size_t>(node.output)].type);
    const size_t at = text.find("%" + graph.values[static_cast<size_t>(node.output)].name + ": ");
    const size_t name = text.find(" = ", at) + 3;
    names += text.substr(name, text.find('(', name) - name) + " " + call.substr(0, call.find('[')) +
             "\n";
  }
  return names;
}

}  // namespace

TEST_CASE("quantize: integers from the first layer to the last") {
  manual_seed(1);
  jit::Graph graph = graph_of(kBlock);
  const jit::Graph before = graph;
  const std::vector<Tensors> calibration = images(2);
  const jit::QuantizationReport report = jit::quantize(graph, calibration);
  CHECK(ops_of(graph) ==
        "contiguous f32\n"
        "quantize i8\n"
        "quantized_conv2d u8\n"
        "quantized_max_pool2d u8\n"
        "quantized_conv2d u8\n"
        "quantized_conv2d u8\n"
        "flatten u8\n"
        "quantized_linear f32\n");
  REQUIRE(report.layers.size() == 4);
  const std::vector<std::string> names = {"Net.first", "Net.second", "Net.third", "Net.fc"};
  for (size_t i = 0; i < names.size(); ++i) {
    CHECK(report.layers[i].name == names[i]);
    CHECK(report.layers[i].quantized);
    CHECK(report.layers[i].dtype == (i == 0 ? kI8 : kU8));
    CHECK(report.layers[i].own_db > 25);
    CHECK(report.layers[i].sqnr_db > 25);
    CHECK(report.layers[i].scale > 0);
  }
  // The report's figures are those of the results.
  const Tensor exact = before.run(calibration[0])[0], y = graph.run(calibration[0])[0];
  CHECK(std::fabs(report.outputs_db[0] - sqnr(y, exact)) < 1e-3);
  CHECK(report.outputs_db[0] > 25);
  CHECK(report.text().find("Net.second  u8 0 .. ") != std::string::npos);
  // Other data, other batches.
  const Tensor more = randn({3, 4, 8, 8});
  CHECK(sqnr(graph(more), before(more)) > 20);
  CHECK(graph(randn({1, 4, 8, 8})).shape() == Shape{1, 5});
}

TEST_CASE("quantize: a layer with powers of two loses nothing") {
  jit::Graph graph = jit::parse(
      "lathe graph 1\ninput %x: f32[N,2]\nparam @w: f32[2,2]\nparam @b: f32[2]\n"
      "%0: f32[N,2] = linear(%x, @w, @b)\noutput %0\n");
  StateDict state;
  state.add("w", tensor({127.f, -64.f, 1.f, 127.f}).view({2, 2}));
  state.add("b", tensor({0.25f, -1.5f}));
  graph.bind(state);
  const jit::Graph before = graph;
  // 255 steps of 1.
  const Tensor x = tensor({0.f, 255.f, 17.f, 3.f}).view({2, 2});
  const auto report = jit::quantize(graph, {{x}}, {.range = jit::RangeRule::kMinMax});
  CHECK(report.layers[0].scale == 1);
  CHECK(report.layers[0].name == "0");
  CHECK(equal(graph(x), before(x)));
  CHECK(std::isinf(report.outputs_db[0]));
  // What lies beyond is cut.
  CHECK(
      equal(graph(tensor({-5.f, 999.f}).view({1, 2})), before(tensor({0.f, 255.f}).view({1, 2}))));
}

TEST_CASE("quantize: layers that stay in f32") {
  manual_seed(2);
  const jit::Graph before = graph_of(kBlock);
  const std::vector<Tensors> calibration = images(1);
  const auto kept = [&](const jit::QuantizeOptions& options) {
    jit::Graph graph = before;
    std::string names;
    for (const auto& layer : jit::quantize(graph, calibration, options).layers)
      names += layer.quantized ? "" : layer.name + " ";
    CHECK(sqnr(graph.run(calibration[0])[0], before.run(calibration[0])[0]) > 20);
    return names;
  };
  CHECK(kept({}) == "");
  CHECK(kept({.first = false}) == "Net.first ");
  CHECK(kept({.last = false}) == "Net.fc ");
  CHECK(kept({.first = false, .last = false, .keep = {"Net.third"}}) ==
        "Net.first Net.third Net.fc ");
  jit::Graph all = before;
  CHECK(jit::quantize(all, calibration, {.least_sqnr = 1000}).layers[1].quantized == false);
  jit::Graph optimised = before;
  jit::optimize_for_inference(optimised);
  CHECK(equal(all.run(calibration[0])[0], optimised.run(calibration[0])[0]));
  CHECK_THROWS_WITH_AS(kept({.keep = {"Net.fifth"}}),
                       doctest::Contains("no convolution or linear layer has the name Net.fifth; "
                                         "the layers are Net.first, Net.second, Net.third, Net.fc"),
                       ValueError);
}

TEST_CASE("quantize: what other ops read is in f32, and turned back once") {
  manual_seed(3);
  jit::Graph graph = graph_of(
      "input %x: f32[N,4,8,8]\n"
      "param @w1: f32[8,4,3,3]\n"
      "param @w2: f32[8,8,3,3]\n"
      "param @w: f32[5,8]\n"
      "%0: f32[N,8,8,8] = conv2d(%x, @w1, none, " +
      kGeometry +
      ")\n"
      "%1: f32[N,8,8,8] = silu(%0)\n"
      "%2: f32[N,8,8,8] = conv2d(%1, @w2, none, " +
      kGeometry +
      ")\n"
      "%3: f32[N,8,8,8] = conv2d(%2, @w2, none, " +
      kGeometry +
      ")\n"
      "%4: f32[N,8,8,8] = add(%3, %2)\n"
      "%5: f32[N,8,8,8] = silu(%2)\n"
      "%6: f32[N,8,8,8] = add(%4, %5)\n"
      "%7: f32[N,8] = mean(%6, dims=[2,3], keepdim=false)\n"
      "%8: f32[N,5] = linear(%7, @w, none, activation=\"gelu\", activate_last=true)\n"
      "output %8\n");
  const jit::Graph before = graph;
  const std::vector<Tensors> calibration = images(1);
  const auto report = jit::quantize(graph, calibration);
  CHECK(ops_of(graph) ==
        "contiguous f32\n"
        "quantize i8\n"
        "quantized_conv2d f32\n"
        "silu f32\n"
        "quantize i8\n"
        "quantized_conv2d i8\n"
        "quantized_conv2d f32\n"
        "dequantize f32\n"
        "silu f32\n"
        "add f32\n"
        "mean f32\n"
        "quantize i8\n"
        "quantized_linear f32\n"
        "gelu f32\n");
  CHECK(report.layers.back().own_db > 25);
  CHECK(sqnr(graph.run(calibration[0])[0], before.run(calibration[0])[0]) > 20);
}

TEST_CASE("quantize: a view behind a layer takes its NHWC") {
  manual_seed(10);
  const std::string conv = "stride=[1,1], pad=[0,0], dilation=[1,1], groups=1";
  jit::Graph graph = graph_of(
      "input %x: f32[N,12]\n"
      "param @w1: f32[4,3,1,1]\n"
      "param @w2: f32[5,16]\n"
      "param @w3: f32[4,5,1,1]\n"
      "%0: f32[N,3,2,2] = view(%x, shape=[N,3,2,2])\n"
      "%1: f32[N,4,2,2] = conv2d(%0, @w1, none, " +
      conv +
      ")\n"
      "%2: f32[N,16] = view(%1, shape=[N,16])\n"
      "%3: f32[N,5] = linear(%2, @w2, none)\n"
      "%4: f32[N,5,1,1] = view(%3, shape=[N,5,1,1])\n"
      "%5: f32[N,4,1,1] = conv2d(%4, @w3, none, " +
      conv +
      ")\n"
      "%6: f32[N,4] = view(%5, shape=[N,4])\n"
      "output %6\n");
  const jit::Graph before = graph;
  const std::vector<Tensors> calibration = {{randn({6, 12})}};
  jit::quantize(graph, calibration);
  CHECK(graph.text().find("= view(") == std::string::npos);
  CHECK(sqnr(graph.run(calibration[0])[0], before.run(calibration[0])[0]) > 20);
}

TEST_CASE("quantize: a shortcut of every other pixel and of zeros is of integers") {
  manual_seed(9);
  jit::Graph graph = graph_of(
      "input %x: f32[N,4,8,8]\n"
      "param @w1: f32[4,4,3,3]\n"
      "param @w2: f32[8,4,3,3]\n"
      "param @w3: f32[8,8,3,3]\n"
      "%0: f32[N,4,8,8] = conv2d(%x, @w1, none, " +
      kGeometry +
      ")\n"
      "%1: f32[N,4,8,8] = relu(%0)\n"
      "%2: f32[N,8,8,8] = conv2d(%1, @w2, none, " +
      kGeometry +
      ")\n"
      "%3: f32[N,4,4,8] = slice(%1, dim=2, start=0, stop=8, step=2)\n"
      "%4: f32[N,8,4,8] = pad(%3, amounts=[0,0,0,0,2,2], value=0.0)\n"
      "%5: f32[N,8,4,8] = slice(%2, dim=2, start=0, stop=8, step=2)\n"
      "%6: f32[N,8,4,8] = conv2d(%5, @w3, none, " +
      kGeometry +
      ")\n"
      "%7: f32[N,8,4,8] = add(%6, %4)\n"
      "output %7\n");
  const jit::Graph before = graph;
  const std::vector<Tensors> calibration = images(1);
  jit::quantize(graph, calibration);
  CHECK(ops_of(graph) ==
        "contiguous f32\n"
        "quantize i8\n"
        "quantized_conv2d u8\n"
        "quantized_conv2d i8\n"
        "slice u8\n"
        "pad u8\n"
        "slice i8\n"
        "contiguous i8\n"
        "contiguous u8\n"
        "quantized_conv2d f32\n");
  CHECK(sqnr(graph.run(calibration[0])[0], before.run(calibration[0])[0]) > 20);
}

TEST_CASE("quantize: what cuts a layer's result off is part of the layer") {
  manual_seed(10);
  const std::string convolutions =
      "input %x: f32[N,4,8,8]\n"
      "param @w1: f32[8,4,3,3]\n"
      "param @w2: f32[8,8,3,3]\n"
      "param @w3: f32[8,8,3,3]\n"
      "%0: f32[N,8,8,8] = conv2d(%x, @w1, none, " +
      kGeometry +
      ")\n"
      "%1: f32[N,8,8,8] = relu6(%0)\n"
      "%2: f32[N,8,8,8] = conv2d(%1, @w2, none, " +
      kGeometry +
      ")\n"
      "%3: f32[N,8,8,8] = clamp(%2, low=0, high=0.5)\n"
      "%4: f32[N,8,8,8] = conv2d(%3, @w3, none, " +
      kGeometry +
      ")\n"
      "%5: f32[N,8,8,8] = relu6(%4)\n";
  jit::Graph graph = graph_of(convolutions + "output %5\n");
  const jit::Graph before = graph;
  const std::vector<Tensors> calibration = images(1);
  const auto report = jit::quantize(graph, calibration);
  CHECK(ops_of(graph) ==
        "contiguous f32\n"
        "quantize i8\n"
        "quantized_conv2d u8\n"
        "quantized_conv2d u8\n"
        "quantized_conv2d f32\n"
        "relu6 f32\n");
  CHECK(report.layers[2].scale <= 0.5 / 255);
  for (const auto& layer : report.layers) CHECK_MESSAGE(layer.sqnr_db > 20, report.text());
  CHECK(sqnr(graph.run(calibration[0])[0], before.run(calibration[0])[0]) > 20);
  // Another reader of the layer needs what is beyond.
  graph = graph_of(convolutions + "%6: f32[N,8,8,8] = add(%2, %5)\noutput %6\n");
  jit::quantize(graph, calibration);
  CHECK(ops_of(graph).find("quantized_conv2d u8\nquantized_conv2d f32\nclamp f32\nquantize u8") !=
        std::string::npos);
}

TEST_CASE("quantize: values, filters and channels of zeros; large ones") {
  manual_seed(4);
  for (const double factor : {0.0, 1.0, 1e-30, 1e15}) {
    CAPTURE(factor);
    jit::Graph graph = graph_of(kBlock);
    StateDict state = graph.state();
    Tensor w = randn({8, 4, 3, 3}) * factor;
    const NoGrad off;
    w.narrow(0, 3, 1).fill_(0);
    state.at("w1").copy_(w);
    state.at("w2").narrow(0, 1, 2).fill_(0);
    const jit::Graph before = graph;
    const std::vector<Tensors> calibration = images(1);
    jit::quantize(graph, calibration);
    const Tensor y = graph.run(calibration[0])[0], exact = before.run(calibration[0])[0];
    CHECK(allclose(y, exact, {.rtol = 0, .atol = 0.1 * exact.abs().max().item<double>()}));
  }
  jit::Graph graph = graph_of(kBlock);
  jit::quantize(graph, {{zeros({2, 4, 8, 8})}});
  CHECK(isfinite(graph(randn({2, 4, 8, 8}))).all().item<bool>());
}

TEST_CASE("quantize: calibration data that cannot be used; the graph is unchanged") {
  manual_seed(5);
  jit::Graph graph = graph_of(kBlock);
  const std::string text = graph.text();
  const auto refuse = [&](const std::vector<Tensors>& calibration, const char* why) {
    CHECK_THROWS_WITH_AS(jit::quantize(graph, calibration), doctest::Contains(why), ValueError);
    CHECK(graph.text() == text);
  };
  refuse({}, "there are no calibration data");
  refuse({{zeros({0, 4, 8, 8})}}, "there are no calibration data (1 batches)");
  Tensor bad = randn({2, 4, 8, 8});
  bad[1][2][3].narrow(0, 4, 1).fill_(INFINITY);
  refuse({{randn({2, 4, 8, 8})}, {bad}}, "is inf for calibration data");
  bad[1][2][3].narrow(0, 4, 1).fill_(NAN);
  refuse({{bad}}, "is nan for calibration data");
  const NoGrad off;
  graph.state().at("w2")[0][0][0].fill_(NAN);
  graph.state().at("b").fill_(0);
  CHECK_THROWS_AS(jit::quantize(graph, images(1)), ValueError);
  CHECK_THROWS_AS(jit::quantize(graph, {{randn({2, 4, 8, 7})}}), ShapeError);
  for (const double percentile : {0.0, 101.0, std::nan("")}) {
    CHECK_THROWS_WITH_AS(jit::quantize(graph, images(1), {.percentile = percentile}),
                         doctest::Contains("percentile must be above 0 and at most 100"),
                         ValueError);
  }
}

TEST_CASE("quantize: one outlier does not take all the range, unless it is asked for") {
  manual_seed(6);
  Tensor x = rand({1000, 8});
  x[7].narrow(0, 3, 1).fill_(100);
  const auto scale = [&](const jit::QuantizeOptions& options) {
    jit::Graph graph = graph_of(
        "input %x: f32[N,8]\nparam @w: f32[4,8]\n%0: f32[N,4] = linear(%x, @w, none)\noutput %0\n");
    return jit::quantize(graph, {{x}}, options).layers[0].scale;
  };
  CHECK(scale({.range = jit::RangeRule::kMinMax}) == doctest::Approx(100.0 / 255));
  // 99 % of 8000 elements: to the bin of 1/2048 of the largest in which the limit falls.
  CHECK(scale({.range = jit::RangeRule::kPercentile, .percentile = 99}) * 255 ==
        doctest::Approx(1).epsilon(0.06));
  // Cutting one of 8000 at c costs (100 - c)^2; the steps of the others cost 8000 * (c/255)^2 / 12.
  // Least at c = 100 / (1 + 8000 / (12 * 255^2)) = 99.0.
  CHECK(scale({}) * 255 == doctest::Approx(99.0));
}

TEST_CASE("quantize: a graph without layers, and layers without tensors of their own") {
  jit::Graph none =
      jit::parse("lathe graph 1\ninput %x: f32[N,3]\n%0: f32[N,3] = relu(%x)\noutput %0\n");
  CHECK(jit::quantize(none, {{randn({2, 3})}}).layers.empty());
  CHECK(none(tensor({-1.f, 0.f, 2.f}).view({1, 3})).shape() == Shape{1, 3});
  jit::Graph product = jit::parse(
      "lathe graph 1\ninput %x: f32[N,3]\ninput %w: f32[4,3]\n"
      "%0: f32[N,4] = linear(%x, %w, none)\noutput %0\n");
  CHECK(jit::quantize(product, {{randn({2, 3}), randn({4, 3})}}).layers.empty());
}

TEST_CASE("quantize: saved, loaded and quantised graphs are the same") {
  manual_seed(7);
  jit::Graph graph = graph_of(kBlock);
  jit::quantize(graph, images(1));
  const data::testing::TempDir folder;
  const std::string path = (folder / "int8.lathe").string();
  jit::save(graph, path);
  jit::Graph loaded = jit::load(path);
  CHECK(loaded.text() == graph.text());
  const Tensor x = randn({3, 4, 8, 8});
  CHECK(equal(loaded(x), graph(x)));
  jit::optimize_for_inference(loaded);
  CHECK(equal(loaded(x), graph(x)));
  CHECK(jit::quantize(loaded, {{x}}).layers.empty());  // nothing is left to do
  CHECK(equal(loaded(x), graph(x)));
}

TEST_CASE("quantize: ResNet-20 keeps its answers") {
  manual_seed(8);
  const auto model = nn::make_model("resnet20", {.classes = 10});
  model->eval();
  const NoGrad off;
  jit::Graph graph = jit::trace(*model, randn({2, 3, 32, 32}));
  const Tensor x = randn({4, 3, 32, 32}), exact = model->forward(x);
  const jit::QuantizationReport report = jit::quantize(graph, {{x}});
  CHECK(report.layers.size() == 20);
  CHECK(sqnr(graph(x), exact) > 20);
  for (const auto& layer : report.layers) CHECK_MESSAGE(layer.own_db > 20, report.text());
}
