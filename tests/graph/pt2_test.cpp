// Programs that PyTorch exported: make_pt2_golden.py made the files in golden_pt2/ and says what is
// in them. What is damaged or has no counterpart is refused by name.
#include <doctest/doctest.h>

#include <filesystem>
#include <set>
#include <string>
#include <tuple>

#include "lathe/autograd/engine.h"
#include "lathe/autograd/grad_mode.h"
#include "lathe/core/formats/safetensors.h"
#include "lathe/core/random/generator.h"
#include "lathe/graph/compile.h"
#include "lathe/graph/pt2/program.h"
#include "lathe/graph/pt2/pt2_call.h"
#include "lathe/graph/trace.h"
#include "lathe/nn/functional_call.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/isclose.h"
#include "lathe/ops/join.h"
#include "lathe/ops/matmul.h"
#include "lathe/ops/random.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"
#include "lathe/tests/data/files.h"
#include "lathe/tests/graph/pt2_files.h"

using namespace lathe;
using data::testing::message_of;
using doctest::Contains;
using testing::pt2_argument;
using testing::pt2_file;
using testing::pt2_node;
using testing::pt2_program;
using testing::pt2_tensor;
using testing::Pt2Weight;

namespace {

const std::filesystem::path kGolden = LATHE_GOLDEN_PT2;

std::vector<std::string> golden_names() {
  std::vector<std::string> names;
  for (const std::string& name : data::testing::names_in(kGolden)) {
    if (name.ends_with(".pt2")) names.push_back(name.substr(0, name.size() - 4));
  }
  return names;
}

/// The largest |a - b| / (max |b| + 1e-3 of it): relative to the tensor, so that single values near
/// 0 do not count.
double distance(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape()) return 1e300;
  if (a.numel() == 0) return 0;
  const Tensor wide = a.cpu().to(kF64), want = b.to(kF64);
  const double scale = want.abs().max().item<double>() + 1e-3;
  return (wide - want).abs().max().item<double>() / scale;
}

struct Golden {
  explicit Golden(const std::string& name)
      : path((kGolden / (name + ".pt2")).string()),
        want(safetensors::read((kGolden / (name + ".golden")).string()).tensors) {}

  /// The inputs; floating ones in `dtype`.
  Tensors inputs(DType dtype, Device device) const {
    Tensors out;
    for (size_t i = 0; want.contains(concat("in.", i)); ++i) {
      const Tensor& x = want[concat("in.", i)];
      out.push_back(x.to(device, is_floating(x.dtype()) ? dtype : x.dtype()));
    }
    return out;
  }

  std::string path;
  StateDict want;
};

/// What compared worst, beyond `tolerance`: "train.grad.fc.weight 0.1"; "" if nothing did.
class Worst {
 public:
  explicit Worst(double tolerance) : tolerance_(tolerance) {}

  void add(const StateDict& want, const std::string& name, const Tensor& got) {
    const Tensor* const other = want.find(name);
    const double d = other == nullptr || !got.defined() ? 1e300 : distance(got, *other);
    if (!(d <= tolerance_)) text += concat(name, " ", d, "; ");
  }

  std::string text;

 private:
  double tolerance_;
};

std::string wrong_in_evaluation(const Golden& g, DType dtype, Device device, double tolerance) {
  jit::Program model = jit::load_program(g.path);
  model.to(dtype).to(device).eval();
  const NoGrad off;
  const Tensors results = model.run(g.inputs(dtype, device));
  Worst worst(tolerance);
  for (size_t i = 0; i < results.size(); ++i) {
    const bool keyed = g.want.contains("eval.out." + model.output_names()[i]);
    worst.add(g.want, concat("eval.out.", keyed ? model.output_names()[i] : std::to_string(i)),
              results[i]);
  }
  return worst.text;
}

std::string wrong_in_training(const Golden& g, DType dtype, Device device, double tolerance) {
  if (!g.want.contains("train.loss")) return "";
  jit::Program model = jit::load_program(g.path);
  model.to(dtype).to(device).train();
  const Tensors results = model.run(g.inputs(dtype, device));
  Worst worst(tolerance);
  Tensor loss = zeros({}, {.dtype = dtype, .device = device});
  for (size_t i = 0; i < results.size(); ++i) {
    const bool keyed = g.want.contains("train.out." + model.output_names()[i]);
    worst.add(g.want, concat("train.out.", keyed ? model.output_names()[i] : std::to_string(i)),
              results[i]);
    if (is_floating(results[i].dtype())) {
      loss = loss + results[i].square().mean() + results[i].mean();
    }
  }
  worst.add(g.want, "train.loss", loss);
  loss.backward();
  size_t gradients = 0;
  for (const auto& [name, p] : model.named_parameters()) {
    if (!p.grad().defined()) continue;
    worst.add(g.want, "train.grad." + name, p.grad());
    ++gradients;
  }
  if (gradients != g.want.section("train.grad.").size()) worst.text += "a gradient is missing";
  for (const auto& [name, b] : model.named_buffers()) {
    worst.add(g.want, "train.buffer." + name, b);
  }
  return worst.text;
}

jit::Program small() {
  const std::string file = pt2_file(testing::pt2_small_program());
  return jit::load_program(std::as_bytes(std::span(file)), "m.pt2");
}

std::string error_of(const std::string& file) {
  return message_of<DataError>([&] { jit::load_program(std::as_bytes(std::span(file)), "m.pt2"); });
}

/// The error of a program with this node before its end.
std::string error_of_node(const std::string& node) {
  return error_of(pt2_file(pt2_program(node, "y")));
}

/// A node and a comma: `to` is `from` in these sizes.
std::string viewed(const char* from, const char* sizes, const char* to) {
  const std::string size = pt2_argument("size", concat(R"({"as_ints":[)", sizes, "]}"));
  return concat(pt2_node("aten.view.default", concat(pt2_tensor("self", from), ",", size), to),
                ",");
}

/// The square of a channel shuffle of x [2,6,4,2]. `writes`: nodes that may write into "copy".
std::string shuffle(const std::string& writes) {
  std::string program = pt2_program(
      concat(viewed("x", "2,2,3,4,2", "groups"),
             pt2_node(
                 "aten.transpose.int",
                 concat(pt2_tensor("self", "groups"), ",", pt2_argument("dim0", R"({"as_int":1})"),
                        ",", pt2_argument("dim1", R"({"as_int":2})")),
                 "turned"),
             ",", pt2_node("aten.contiguous.default", pt2_tensor("self", "turned"), "copy"), ",",
             writes, viewed("copy", "2,6,4,2", "shuffled"),
             pt2_node("aten.mul.Tensor",
                      concat(pt2_tensor("self", "shuffled"), ",", pt2_tensor("other", "shuffled")),
                      "y")),
      "y");
  const std::string type = testing::pt2_type("s0,2");  // of x
  program.replace(program.find(type), type.size(), testing::pt2_type("2,6,4,2"));
  return pt2_file(program);
}

}  // namespace

// f64: sums in another order than PyTorch's. f32: the same, 2^29 times as large.
TEST_CASE("pt2: every operator and its gradient agree with PyTorch, in training and evaluation") {
  const std::vector<std::string> names = golden_names();
  REQUIRE(names.size() >= 11);
  for (const std::string& name : names) {
    CAPTURE(name);
    const Golden g(name);
    CHECK(wrong_in_training(g, kF64, kCPU, 1e-10) == "");
    CHECK(wrong_in_evaluation(g, kF64, kCPU, 1e-10) == "");
    CHECK(wrong_in_training(g, kF32, kCPU, 1e-4) == "");
    CHECK(wrong_in_evaluation(g, kF32, kCPU, 1e-4) == "");
  }
}

// What no golden file calls: operators that draw, checks that do not run here, and arithmetic of
// sizes that an export resolves by itself.
TEST_CASE("pt2: every operator of the tables is called by a golden file") {
  const std::set<std::string_view> elsewhere{"aten.bernoulli.default",
                                             "aten.rand.default",
                                             "aten.rand_like.default",
                                             "aten.randn.default",
                                             "aten.randn_like.default",
                                             "aten._assert_async.msg",
                                             "aten._assert_scalar.default",
                                             "aten.sym_constrain_range.default",
                                             "aten.sym_constrain_range_for_size.default",
                                             "_operator.eq",
                                             "_operator.floordiv",
                                             "_operator.ge",
                                             "_operator.gt",
                                             "_operator.le",
                                             "_operator.lt",
                                             "_operator.ne",
                                             "torch.sym_float",
                                             "torch.sym_max",
                                             "torch.sym_min"};
  std::string programs;
  for (const std::string& name : golden_names()) {
    const std::string path = (kGolden / (name + ".pt2")).string();
    programs += data::testing::read_file(path);
  }
  const std::string samples = data::testing::read_file(LATHE_TORCH_SAMPLES);
  std::set<std::string_view> missing;
  for (const auto targets :
       {jit::pt2::pointwise_targets(), jit::pt2::shape_targets(), jit::pt2::layer_targets(),
        jit::pt2::product_targets(), jit::pt2::linalg_targets(), jit::pt2::reduction_targets(),
        jit::pt2::loss_targets()}) {
    for (const jit::pt2::Target& target : targets) {
      const bool called = programs.find(concat(target.name, "\"")) != std::string::npos ||
                          samples.find(concat(" ", target.name, " ")) != std::string::npos;
      if (!called) missing.insert(target.name);
    }
  }
  CHECK(missing == elsewhere);
}

TEST_CASE("pt2: operators that draw give numbers of their distribution") {
  for (const auto& [target, mean, deviation] :
       {std::tuple("rand_like", 0.5, 0.2887), std::tuple("randn_like", 0.0, 1.0)}) {
    CAPTURE(target);
    const std::string file = pt2_file(pt2_program(
        pt2_node(concat("aten.", target, ".default"), pt2_tensor("self", "x"), "y"), "y"));
    jit::Program model = jit::load_program(std::as_bytes(std::span(file)), "m.pt2");
    manual_seed(3);
    Tensors drawn;  // the program takes 64 rows at most
    for (int i = 0; i < 40; ++i) drawn.push_back(model.run({zeros({64, 2})})[0]);
    const Tensor y = cat(drawn);
    CHECK(y.mean().item<float>() == doctest::Approx(mean).epsilon(0.05).scale(1));
    CHECK(y.std().item<float>() == doctest::Approx(deviation).epsilon(0.05).scale(1));
  }
}

TEST_CASE("pt2: a program has PyTorch's names, types and modes") {
  jit::Program model = jit::load_program((kGolden / "tied.pt2").string());
  std::vector<std::string> names;
  for (const auto& [name, p] : model.named_parameters()) names.push_back(name);
  CHECK(names == std::vector<std::string>{"token.weight", "fc.weight", "fc.bias"});
  CHECK(model.state_dict().size() == 3);  // head.weight is token.weight
  CHECK(!model.state_dict()["fc.bias"].requires_grad());
  CHECK(!model.named_parameters()[2].second.requires_grad());  // as it was frozen
  StateDict state = model.state_dict().clone();
  CHECK(model.load_state_dict(state).missing.empty());

  jit::Program net = jit::load_program((kGolden / "conv_net.pt2").string());
  CHECK(net.is_training());
  CHECK(net.input_names() == std::vector<std::string>{"x"});
  net.half();
  CHECK(net.state_dict()["stem.weight"].dtype() == kF16);
  CHECK(net.state_dict()["norm.running_mean"].dtype() == kF32);
  CHECK(net(zeros({2, 3, 9, 12}, {.dtype = kF16})).dtype() == kF16);
  CHECK(!jit::load_program((kGolden / "conv_net_eval.pt2").string()).is_training());
}

TEST_CASE("pt2: inputs go by position and by name, in batches of any size") {
  jit::Program model = jit::load_program((kGolden / "scopes.pt2").string());
  CHECK(model.input_names() == std::vector<std::string>{"x", "other"});
  CHECK(model.output_names() == std::vector<std::string>{"y", "z", "n"});
  for (const int64_t n : {1, 2, 7}) {
    const Tensor x = ones({n, 4}), other = zeros({n, 4});
    const Tensors a = model.run({x, other});
    const Tensors b = model.run({{"other", other}, {"x", x}});
    CHECK(equal(a[0], b[0]));
    CHECK(a[2].shape() == Shape{2 * n, 2});
  }
  CHECK_THROWS_WITH_AS(model.run({{"x", ones({2, 4})}, {"y", ones({2, 4})}}),
                       Contains("has no input \"y\""), ValueError);
  CHECK_THROWS_WITH_AS(model.run({ones({2, 4})}), Contains("takes 2 inputs, got 1"), ValueError);
  CHECK_THROWS_WITH_AS(model.run({ones({2, 4}), ones({3, 4})}),
                       Contains("a size of 3 in dimension 0, but 2 where the export requires"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(model.run({ones({2, 5}), ones({2, 4})}),
                       Contains("was exported with a size of 4 in dimension 1, got 5"), ShapeError);
  CHECK_THROWS_WITH_AS(model.run({ones({2, 4}, {.dtype = kI64}), ones({2, 4})}),
                       Contains("input \"x\" must be f32"), DTypeError);
}

TEST_CASE("pt2: a module of the program can be in another mode than the rest") {
  const Golden g("conv_net");
  jit::Program model = jit::load_program(g.path);
  for (auto& [name, module] : model.named_modules()) {
    if (name == "norm") module->eval();
  }
  model.run(g.inputs(kF32, kCPU));
  const jit::Program fresh = jit::load_program(g.path);
  const auto moved = [&](const char* name) {
    return !equal(model.state_dict()[name], fresh.state_dict()[name]);
  };
  CHECK(!moved("norm.running_mean"));
  CHECK(!moved("norm.num_batches_tracked"));
  CHECK(moved("norm2.running_mean"));
  CHECK(moved("norm2.num_batches_tracked"));
}

TEST_CASE("pt2: stochastic depth draws in training, and keeps everything in evaluation") {
  const Golden g("depth");
  jit::Program model = jit::load_program(g.path);
  const Tensors inputs = g.inputs(kF32, kCPU);
  model.train();
  manual_seed(1);
  const Tensor a = model.run(inputs)[0];
  const Tensor b = model.run(inputs)[0];
  CHECK(!equal(a, b));
  manual_seed(1);
  CHECK(equal(model.run(inputs)[0], a));
}

TEST_CASE("pt2: functional_call and compile() take a program") {
  jit::Program model = small();
  const Tensor x = tensor({{1.f, -1.f}, {2.f, 0.5f}});
  const Tensor w = tensor({{1.f, 0.f}, {0.f, 1.f}});
  CHECK(allclose(nn::functional_call(model, {{"w", w}}, x), relu(x) + x * 0.5));
  const auto run = jit::compile([&](const Tensors& t) { return model.run(t); }, &model);
  const Tensor y = run({x})[0];
  CHECK(equal(y, model(x)));
  CHECK_MESSAGE(run.explain().find("relu") != std::string::npos, run.explain());
}

TEST_CASE("pt2: trace() makes a graph of a program in evaluation, for any batch") {
  const auto check = [](jit::Program& model, const Tensor& x) {
    model.eval();
    const jit::Graph graph = jit::trace(model, x);
    const NoGrad off;
    CHECK(equal(graph(x), model(x)));
    CHECK(equal(graph(narrow(x, 0, 0, 1)), model(narrow(x, 0, 0, 1))));
    return graph;
  };
  for (const char* name : {"conv_net", "under", "depth", "tied"}) {  // depth: stochastic depth
    CAPTURE(name);
    const Golden g(name);
    jit::Program model = jit::load_program(g.path);
    const jit::Graph graph = check(model, g.inputs(kF32, kCPU)[0]);
    for (const auto& [entry, t] : model.state_dict()) {
      if (is_floating(t.dtype())) CHECK(graph.state().contains(entry));
    }
  }
  const std::string product =
      pt2_file(pt2_program(pt2_node("aten.addmm.default",
                                    concat(pt2_tensor("self", "x"), ",", pt2_tensor("mat1", "x"),
                                           ",", pt2_tensor("mat2", "p_w")),
                                    "y"),
                           "y"));
  jit::Program model = jit::load_program(std::as_bytes(std::span(product)), "m.pt2");
  const Tensor x = tensor({{1.f, -1.f}, {2.f, 0.5f}, {0.f, 3.f}});
  check(model, x);
  CHECK(allclose(model(x), x + matmul(x, tensor({{1.f, 2.f}, {3.f, 4.f}}))));
}

TEST_CASE("pt2: a channel shuffle of NHWC images leaves them and their gradient NHWC") {
  const std::string file = shuffle("");
  jit::Program model = jit::load_program(std::as_bytes(std::span(file)), "m.pt2");
  manual_seed(3);
  const Tensor same = randn({2, 6, 4, 2}).requires_grad_();
  const Tensor x = same.detach().contiguous(kChannelsLast).requires_grad_();
  const Tensor y = model(x);
  CHECK(y.is_contiguous(kChannelsLast));
  const Tensor turned = transpose(view(same, {2, 2, 3, 4, 2}), 1, 2).contiguous();
  const Tensor want = square(view(turned, {2, 6, 4, 2}));
  CHECK(equal(y, want));
  const Tensor dy = randn({2, 6, 4, 2});
  const Tensor dx = grad({sum(y * dy.contiguous(kChannelsLast))}, {x})[0];
  CHECK(dx.is_contiguous(kChannelsLast));
  CHECK(equal(dx, grad({sum(want * dy)}, {same})[0]));
  CHECK(grad({sum(model(x))}, {x}, {.create_graph = true})[0].requires_grad());
}

TEST_CASE("pt2: what is written into the middle of a channel shuffle is seen by all of its views") {
  const std::string file =
      shuffle(concat(viewed("copy", "2,3,16", "flat"),
                     pt2_node("aten.relu_.default", pt2_tensor("self", "flat"), "written"), ","));
  jit::Program model = jit::load_program(std::as_bytes(std::span(file)), "m.pt2");
  const Tensor x = randn({2, 6, 4, 2});
  const Tensor turned = transpose(view(x, {2, 2, 3, 4, 2}), 1, 2).contiguous();
  CHECK(equal(model(x.contiguous(kChannelsLast)), square(relu(view(turned, {2, 6, 4, 2})))));
}

TEST_CASE("pt2: an error of an op names the module and the line of Python") {
  const std::string place =
      R"({"nn_module_stack":"L__self__,,net.Net;L__self__a.b,a.b,torch.nn.Linear",)"
      R"("stack_trace":"File \"/x/net.py\", line 7, in forward\n    return y"})";
  const std::string file = pt2_file(pt2_program(
      pt2_node("aten.reshape.default",
               pt2_tensor("self", "x") + "," + pt2_argument("shape", R"({"as_ints":[5]})"), "y",
               place),
      "y"));
  jit::Program model = jit::load_program(std::as_bytes(std::span(file)), "m.pt2");
  CHECK_THROWS_WITH_AS(model(ones({3, 2})), Contains("a.b at net.py, line 7, in forward"),
                       ShapeError);
}

TEST_CASE("pt2: all operators without a counterpart are named at once") {
  const std::string place = R"({"nn_module_stack":"L__self__a,a,net.A","stack_trace":)"
                            R"j("File \"/x/net.py\", line 3, in forward\n    q()"})j";
  const std::string message = error_of(pt2_file(
      pt2_program(concat(pt2_node("aten.fft_fft.default", pt2_tensor("self", "x"), "a", place), ",",
                         pt2_node("mine.op.default", pt2_tensor("self", "a"), "b"), ",",
                         pt2_node("aten.fft_fft.default", pt2_tensor("self", "b"), "y")),
                  "y")));
  CHECK_MESSAGE(message.find("2 operators of this program (3 calls)") != std::string::npos,
                message);
  CHECK_MESSAGE(message.find("\"torch.ops.aten.fft_fft.default\": node \"a\", a at net.py, line 3, "
                             "in forward") != std::string::npos,
                message);
  CHECK_MESSAGE(message.find("\"torch.ops.mine.op.default\": node \"b\", the model at an unknown "
                             "line") != std::string::npos,
                message);
}

TEST_CASE("pt2: what is damaged or hostile is refused with its values") {
  const auto refused = [](const std::string& message, const char* part) {
    CHECK_MESSAGE(message.find(part) != std::string::npos, message);
  };
  const std::string program = testing::pt2_small_program();
  refused(error_of(pt2_file(pt2_program("", "x", "9"))), "has schema 9 (PyTorch \"2.15.0\")");
  refused(error_of(pt2_file("[1]")), "is no JSON object");
  refused(error_of(pt2_file("{")), "damaged JSON");
  refused(error_of(pt2_file(program, {})), "\"w\" is used, but has no values in the file");
  refused(error_of(pt2_file(program, {Pt2Weight{.strides = "3,1"}})),
          "f32[2,2] with strides [3,1] from element 0 lies outside its storage of 4 elements");
  refused(error_of(pt2_file(program, {Pt2Weight{.strides = "-1,1"}})), "negative number");
  refused(error_of(pt2_file(program, {Pt2Weight{.offset = 1}})), "lies outside its storage");
  refused(error_of(pt2_file(program, {Pt2Weight{.sizes = "4611686018427387904,4"}})), "overflows");
  refused(error_of(pt2_file(program, {Pt2Weight{.sizes = "100000,100000", .strides = "0,0"}})),
          "40000000000 bytes; from a file of");
  refused(error_of(pt2_file(program, {Pt2Weight{.dtype = 9}})), "PyTorch's dtype 9");
  refused(error_of(pt2_file(program, {Pt2Weight{.dtype = 8}})), "lies outside its storage of 2");
  refused(error_of(pt2_file(program, {Pt2Weight{.sizes = "1,2", .dtype = 8}})),
          "\"w\" is f64 in the file, but f32 in the program");
  refused(error_of(pt2_file(program, {Pt2Weight{.entry = "weight_7"}})), "has no entry");
  refused(error_of(pt2_file(program, {Pt2Weight{.sizes = "1,1,1,1,1,1,1,2,2"}})),
          "has 9 dimensions, more than 8");
  refused(error_of_node(pt2_node("aten.relu.default", pt2_tensor("self", "later"), "y")),
          "uses \"later\", which is not made before it");
  refused(error_of_node(pt2_node("aten.relu.default", pt2_tensor("self", "x"), "x")),
          "makes \"x\", which is there already");
  refused(error_of_node(pt2_node("aten.relu.default",
                                 pt2_argument("self", R"({"as_custom_obj":{"name":"x"}})"), "y")),
          "is of the kind \"as_custom_obj\", which has no counterpart here");
  refused(
      error_of_node(pt2_node("aten.relu_.default", pt2_argument("self", R"({"as_int":1})"), "y")),
      "must write into one tensor");
  std::string silent = pt2_node("aten.relu_.default", pt2_tensor("self", "x"), "y");
  const std::string named = R"({"as_tensor":{"name":"y"}})";
  REQUIRE(silent.find(named) != std::string::npos);
  silent.replace(silent.find(named), named.size(), R"({"as_none":true})");
  refused(error_of(pt2_file(pt2_program(silent, "x"))), "must write into one tensor");
  std::string nested = R"({"as_none":true})";
  for (int i = 0; i < 20; ++i) {
    nested = concat(R"({"as_graph":{"graph":{"inputs":[],"outputs":[],"nodes":[)",
                    pt2_node("aten.relu.default", pt2_argument("a", nested), "y"), "]}}}");
  }
  refused(error_of_node(pt2_node("aten.relu.default", pt2_argument("self", nested), "y")),
          "sub-graphs in sub-graphs without end");
  refused(error_of(testing::pt2_archive({{"serialized_exported_program.json", "{}"}})),
          "was exported by PyTorch before 2.8");
  refused(error_of(testing::pt2_archive({{"data/aotinductor/model/a.so", "x"}})),
          "AOTInductor compiled");
  refused(error_of(testing::pt2_archive({{"a", "x"}})), "without a program");
  refused(error_of("no zip"), "zip");
}

TEST_CASE("pt2: an argument of another kind is refused where it is used") {
  const std::string file = pt2_file(pt2_program(
      pt2_node("aten.relu.default", pt2_argument("self", R"({"as_string":"x"})"), "y"), "y"));
  jit::Program model = jit::load_program(std::as_bytes(std::span(file)), "m.pt2");
  CHECK_THROWS_WITH_AS(model(ones({3, 2})), Contains("argument \"self\" is no tensor"), DataError);
  const std::string other =
      pt2_file(pt2_program(pt2_node("aten.relu.default", pt2_tensor("input", "x"), "y"), "y"));
  jit::Program second = jit::load_program(std::as_bytes(std::span(other)), "m.pt2");
  CHECK_THROWS_WITH_AS(second(ones({3, 2})), Contains("argument \"self\" is missing"), DataError);
  CHECK_THROWS_WITH_AS(small()(ones({65, 2})), Contains("but the export allows 2 to 64"),
                       ShapeError);
}
