// Hostile and unusual .pt2 files: names, sizes and sub-graphs that a file may make up.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <random>
#include <string>

#include "lathe/core/json.h"
#include "lathe/graph/pt2/program.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/isclose.h"
#include "lathe/tests/data/files.h"
#include "lathe/tests/graph/pt2_files.h"

using namespace lathe;
using data::testing::message_of;
using testing::pt2_archive;
using testing::pt2_argument;
using testing::pt2_file;
using testing::pt2_node;
using testing::pt2_program;
using testing::pt2_tensor;
using testing::Pt2Weight;

namespace {

jit::Program loaded(const std::string& file) {
  return jit::load_program(std::as_bytes(std::span(file)), "m.pt2");
}

/// What of `part` is missing in the error of a file; "" if nothing is.
std::string refused(const std::string& file, const std::string& part) {
  const std::string message = message_of<DataError>([&] { loaded(file); });
  return message.find(part) == std::string::npos ? concat(part, " is not in: ", message) : "";
}

/// y = relu(x), called by a module of this path.
std::string in_module(const std::string& path, const std::string& from, const std::string& to) {
  return pt2_node("aten.relu.default", pt2_tensor("self", from), to,
                  concat(R"({"nn_module_stack":"L__self__)", path, ",", path, R"(,n.B"})"));
}

/// A node that runs a sub-graph of one node: to = relu(from).
std::string under_autocast(const std::string& inner_target, const std::string& operand,
                           const std::string& dtype, const std::string& enabled) {
  const std::string graph =
      concat(R"({"as_graph":{"name":"g","graph":{"inputs":[{"as_tensor":{"name":"a"}}],)",
             R"("outputs":[{"as_tensor":{"name":"b"}}],"nodes":[)",
             pt2_node(inner_target, pt2_tensor("self", "a"), "b"), "]}}}");
  return pt2_node("higher_order.wrap_with_autocast",
                  concat(pt2_argument("", R"({"as_string":"cuda"})"), ",",
                         pt2_argument("", concat(R"({"as_scalar_type":)", dtype, "}")), ",",
                         pt2_argument("", concat(R"({"as_bool":)", enabled, "}")), ",",
                         pt2_argument("", R"({"as_bool":true})"), ",", pt2_argument("", graph), ",",
                         pt2_argument("", operand)),
                  "y");
}

const std::string kX = R"({"as_tensor":{"name":"x"}})";

}  // namespace

TEST_CASE("pt2: autocast to f32 turns autocast off in its part") {
  jit::Program model =
      loaded(pt2_file(pt2_program(under_autocast("aten.relu.default", kX, "7", "true"), "y")));
  CHECK(equal(model(tensor({{-1.f, 2.f}})), tensor({{0.f, 2.f}})));
}

TEST_CASE("pt2: a sub-graph is checked, and its unknown operators are named") {
  const auto of = [](const std::string& node) { return pt2_file(pt2_program(node, "y")); };
  CHECK(refused(of(under_autocast("aten.fft_fft.default", kX, "13", "true")),
                "1 operator of this program (1 call) has no counterpart here; the first call of "
                "each:\n  \"torch.ops.aten.fft_fft.default\"") == "");
  CHECK(refused(of(under_autocast("aten.relu.default", R"({"as_int":1})", "13", "true")),
                "has an operand that is neither a tensor nor a symbolic size") == "");
  CHECK(refused(of(under_autocast("aten.relu.default", kX, "13", "1")), "neither true nor false") ==
        "");
  std::string plain = under_autocast("aten.relu.default", kX, "13", "true");
  const std::string target = "higher_order.wrap_with_autocast";
  plain.replace(plain.find(target), target.size(), "aten.relu.default");
  CHECK(refused(of(plain), "takes a sub-graph") == "");
  plain.replace(plain.find("aten.relu.default"), 17, "higher_order.wrap_with_set_grad_enabled");
  CHECK(refused(of(plain), "has arguments of the wrong types") == "");
}

TEST_CASE("pt2: an embedding that divides gradients by counts is refused") {
  const std::string arguments =
      concat(pt2_tensor("weight", "p_w"), ",", pt2_tensor("indices", "at"), ",",
             pt2_argument("scale_grad_by_freq", R"({"as_bool":true})"));
  const std::string cast = pt2_node(
      "aten.to.dtype",
      pt2_tensor("self", "x") + "," + pt2_argument("dtype", R"({"as_scalar_type":5})"), "at");
  jit::Program model = loaded(pt2_file(
      pt2_program(concat(cast, ",", pt2_node("aten.embedding.default", arguments, "y")), "y")));
  CHECK_THROWS_WITH_AS(model(zeros({2, 2})), doctest::Contains("divides gradients by how often"),
                       DataError);
}

TEST_CASE("pt2: modules nest 64 deep at most, however they come about") {
  std::string path = "a", nodes = in_module("a", "x", "y0");
  for (int i = 1; i < 80; ++i) {
    path += ".a";
    nodes += "," + in_module(path, concat("y", i - 1), concat("y", i));
  }
  CHECK(refused(pt2_file(pt2_program(nodes, "y79")), "lies in more than 64 modules") == "");
}

TEST_CASE("pt2: the name of a module has 1,000 bytes at most") {
  const std::string program = pt2_program(in_module(std::string(1001, 'a'), "x", "y"), "y");
  CHECK(refused(pt2_file(program), "m.pt2: the name of a module has 1001 bytes, more than 1000") ==
        "");
}

TEST_CASE("pt2: a module has 10,000 names at most") {
  std::string nodes;
  for (int i = 0; i < 10001; ++i) {
    nodes += (i == 0 ? "" : ",") + in_module(concat("m", i), "x", concat("y", i));
  }
  CHECK(refused(pt2_file(pt2_program(nodes, "y0")),
                "lies in a module of more than 10000 tensors and modules") == "");
}

// What copies or writes such a value calls itself for each level.
TEST_CASE("pt2: JSON is nested 200 deep at most, wherever it stands") {
  const auto nested = [](int levels) {
    const auto n = static_cast<size_t>(levels);
    return std::string(n, '[') + std::string(n, ']');
  };
  const auto in_type = [&](const std::string& junk) {
    std::string program = testing::pt2_small_program();
    program.insert(program.find(R"("layout":7)"), concat(R"("junk":)", junk, ","));
    return pt2_file(program);
  };
  CHECK(refused(in_type(nested(100'000)), "nested more than 200 deep") == "");
  CHECK(loaded(in_type(nested(150))).architecture() != "");
  CHECK(loaded(in_type(concat("\"", std::string(300, '['), R"(\"[")"))).architecture() != "");
  const auto in_keys = [&](const std::string& keys) {
    std::string program = testing::pt2_small_program();
    std::string spec = R"([1,{"type":"dict","context":"KEYS","children_spec":[1]}])";
    spec.replace(spec.find("KEYS"), 4, keys);
    const std::string calls = concat(R"("module_call_graph":[{"signature":{"out_spec":)",
                                     nlohmann::json(spec).dump(), "}}],");
    program.insert(program.find(R"("signature")"), calls);
    return pt2_file(program);
  };
  CHECK(refused(in_keys("[null," + nested(100'000) + "]"), "nested more than 200 deep") == "");
}

// Each write used to look at every view of the same memory.
TEST_CASE("pt2: the time to load grows with the file, whatever writes into what") {
  const auto seconds = [](int views) {
    std::string nodes;
    for (int i = 0; i < views; ++i) {
      nodes += concat(
          i == 0 ? "" : ",",
          pt2_node("aten.alias.default", pt2_tensor("self", "x"), concat("v", i)), ",",
          pt2_node("aten.relu_.default", pt2_tensor("self", concat("v", i)), concat("w", i)));
    }
    const std::string file = pt2_file(pt2_program(nodes, "w0"));
    const std::clock_t began = std::clock();
    loaded(file);
    return static_cast<double>(std::clock() - began) / CLOCKS_PER_SEC;
  };
  double few = INFINITY, many = INFINITY;  // the least of three: others slow single runs down
  for (int i = 0; i < 3; ++i) {
    few = std::min(few, seconds(2000));
    many = std::min(many, seconds(32000));
  }
  CHECK_MESSAGE(many < 32 * few, few, " s for 2000 views, ", many, " s for 32000");
}

TEST_CASE("pt2: a weight has the program's shape, and a buffer over it is a tensor of its own") {
  const std::string program = testing::pt2_small_program();
  CHECK(refused(pt2_file(program, {Pt2Weight{.sizes = "1,2"}}),
                "\"w\" has the shape [1,2] in the file, but [2,2] in the program") == "");
  CHECK(refused(pt2_file(program, {Pt2Weight{.sizes = "4", .strides = "1"}}),
                "\"w\" has the shape [4] in the file, but [2,2] in the program") == "");
  const std::string shared = pt2_program(
      pt2_node("aten.matmul.default", pt2_tensor("self", "x") + "," + pt2_tensor("other", "p_w"),
               "y"),
      "y", "8", testing::pt2_buffer_spec("copy"), testing::pt2_buffer_type("copy", "2,2"));
  jit::Program model = loaded(pt2_file(shared, {Pt2Weight{}, Pt2Weight{.name = "copy"}}));
  CHECK(model.named_parameters().size() == 1);
  CHECK(model.named_parameters()[0].first == "w");
  CHECK(model.named_parameters()[0].second.requires_grad());
  CHECK(!model.named_buffers()[0].second.requires_grad());
  CHECK(model.named_buffers()[0].second.shares_storage(model.named_parameters()[0].second));
}

TEST_CASE("pt2: views of one storage count what they hold, not the storage") {
  const Tensor storage = zeros({1 << 20});  // 4 MiB
  std::string program = testing::pt2_small_program();
  const std::string size = testing::pt2_type("2,2");
  program.replace(program.find(size), size.size(), testing::pt2_type("5000,5000"));
  const std::string file = pt2_file(program, {{.sizes = "5000,5000", .strides = "5000,1"}});
  StateDict weights;
  weights.add("w", storage.slice(0, 0, 4).view({2, 2}));
  const std::string message = message_of<DataError>(
      [&] { jit::load_program(std::as_bytes(std::span(file)), "m.pt2", weights); });
  CHECK_MESSAGE(message.find("m.pt2: \"w\"") != std::string::npos, message);
}

TEST_CASE("pt2: a compressed archive is read; what it may inflate to is bounded") {
  const std::string program = testing::pt2_small_program();
  if (!deflate_available()) return;
  std::string noise;  // makes the archive larger than its program
  std::minstd_rand random(1);
  for (int i = 0; i < 8192; ++i) noise += static_cast<char>(random() >> 8);
  const auto archive = [&](const std::string& text, const Pt2Weight& weight,
                           const std::string& values) {
    return pt2_archive({{"models/model.json", text},
                        {"data/weights/model_weights_config.json", testing::pt2_weights({weight})},
                        {"data/weights/weight_0", values},
                        {"data/constants/model_constants_config.json", R"({"config":{}})"},
                        {"noise", noise}},
                       zip::Method::kDeflated);
  };
  jit::Program model = loaded(archive(program, {}, testing::pt2_values()));
  const Tensor x = ones({1, 2});
  CHECK(equal(model(x), loaded(pt2_file(program))(x)));
  CHECK(refused(archive(program + std::string(100000, ' '), {}, testing::pt2_values()),
                "more than the limit of") == "");
  // The storage alone may have this size, and the tensor alone, too.
  CHECK(
      refused(archive(program, {.sizes = "15000000", .strides = "0"}, std::string(60000000, '\0')),
              "the tensors and their storages have 120000000 bytes") == "");
}
