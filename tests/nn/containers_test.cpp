// ListOf, ModuleDict, ParameterList; and the path of the layer in what it throws.
#include "lathe/nn/containers.h"

#include <doctest/doctest.h>

#include <string>
#include <type_traits>
#include <vector>

#include "lathe/nn/activation.h"
#include "lathe/nn/conv.h"
#include "lathe/nn/linear.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/reduce.h"

using namespace lathe;
using doctest::Contains;

namespace {

std::vector<std::string> names(const nn::Module& module) {
  std::vector<std::string> out;
  for (const auto& [name, p] : module.named_parameters()) out.push_back(name);
  return out;
}

/// A block whose call takes two tensors.
struct Gated : nn::Module {
  nn::Linear fc;
  explicit Gated(int64_t size) : fc(*this, "fc", size, size, {.bias = false}) {}
  Tensor operator()(const Tensor& x, const Tensor& gate) { return fc(x) * gate; }
};

struct Net : nn::Module {
  nn::ListOf<Gated> blocks{*this, "blocks"};
  nn::ModuleDict heads{*this, "heads"};
  nn::ParameterList scales{*this, "scales"};
  Net() {
    blocks.add(3);
    blocks.add(3);
    heads.add_named<nn::Linear>("colour", 3, 2);
    scales.add(ones({2}));
  }
  Tensor forward(const Tensor& x) override {
    Tensor y = x;
    for (Gated& block : blocks) y = block(y, x);
    return heads["colour"](y) * scales[0];
  }
};

// In parentheses each compiler would draw the layers' initial values in an order of its own.
template <class... Layers>
constexpr bool kMakesInParentheses = std::is_constructible_v<nn::Sequential, Layers...>;
static_assert(requires { nn::Sequential{nn::ReLU(), nn::Flatten()}; });
static_assert(kMakesInParentheses<nn::Sequential> && !kMakesInParentheses<nn::ReLU> &&
              !kMakesInParentheses<nn::ReLU, nn::Flatten>);
static_assert(kMakesInParentheses<nn::Module&, const char*> &&
              !kMakesInParentheses<nn::Module&, const char*, nn::ReLU, nn::Flatten>);

}  // namespace

TEST_CASE("Sequential: a single one is moved, in braces too, and one of several is nested") {
  const auto block = [] { return nn::Sequential{nn::Linear(2, 2), nn::ReLU()}; };
  const std::vector<std::string> plain = {"0.weight", "0.bias"};
  const nn::Sequential in_braces{block()}, in_parentheses(block());
  CHECK(names(in_braces) == plain);
  CHECK(names(in_parentheses) == plain);
  struct Holder : nn::Module {
    nn::Sequential body{*this, "body", {nn::Sequential{nn::Linear(2, 2), nn::ReLU()}}};
  } const holder;
  CHECK(names(holder) == std::vector<std::string>{"body.0.weight", "body.0.bias"});
  const nn::Sequential nested{block(), nn::ReLU()};
  CHECK(names(nested) == std::vector<std::string>{"0.0.weight", "0.0.bias"});
}

TEST_CASE("containers: a ListOf is called by any signature, a ModuleDict by name") {
  Net net;
  CHECK(names(net) == std::vector<std::string>{"blocks.0.fc.weight", "blocks.1.fc.weight",
                                               "heads.colour.weight", "heads.colour.bias",
                                               "scales.0"});
  CHECK(net(ones({4, 3})).shape() == Shape{4, 2});
  CHECK(net.blocks.size() == 2);
  CHECK(&net.blocks[1].fc.weight != &net.blocks[0].fc.weight);
  CHECK_THROWS_AS(net.blocks[2], IndexError);
  CHECK(net.heads.contains("colour"));
  CHECK_FALSE(net.heads.contains("shape"));
  CHECK_THROWS_WITH_AS(net.heads["shape"], Contains("(there are: colour)"), IndexError);
  CHECK_THROWS_AS(net.heads.add_named<nn::ReLU>("colour"), ValueError);
  CHECK_THROWS_AS(net.scales[1], IndexError);
}

TEST_CASE("containers: what is assigned to an element of a ParameterList reaches the module") {
  nn::ParameterList list;
  for (int i = 0; i < 20; ++i) list.add(full({1}, 1.0 * i));  // earlier places stay
  const Tensor other = full({1}, 100.0);
  list[3] = other;
  CHECK(list.parameters()[3].is_same(other));
  CHECK(other.requires_grad());
  sum(list[3] * list[4]).backward();
  CHECK(list[4].grad().item<float>() == 100);
  CHECK_THROWS_AS(list.add(zeros({1}, kI64)), DTypeError);
  CHECK(list.size() == 20);
}

TEST_CASE("module: an error begins with the path of the layer that threw") {
  struct Stage : nn::Module {
    nn::Sequential layers{*this, "layers"};
    Stage(nn::Module& parent, const std::string& name) {
      join(parent, name);
      layers.add<nn::ReLU>();
      layers.add<nn::Conv2d>(3, 4, nn::Conv2dOptions{.kernel = 3});
    }
    Tensor forward(const Tensor& x) override { return layers(x); }
  };
  struct Model : nn::Module {
    Stage stage{*this, "stage"};
    Tensor forward(const Tensor& x) override { return stage(x); }
  } model;
  CHECK(model.stage.layers[1].path() == "Model.stage.layers.1");
  CHECK_THROWS_WITH_AS(model(zeros({1, 2, 5, 5})), Contains("Model.stage.layers.1: conv2d: "),
                       ShapeError);
  try {
    model(zeros({1, 2, 5, 5}));
    FAIL("nothing thrown");
  } catch (const ShapeError& error) {  // once, also in message(); the place stays at the end
    const std::string what = error.what(), message = error.message();
    CHECK(message.rfind("Model.stage.layers.1: ", 0) == 0);
    CHECK(message.find("Model", 1) == std::string::npos);
    CHECK(what.rfind(message, 0) == 0);
    CHECK(what.find("\n  at ") == message.size());
  }
  // What is thrown outside of any layer has no path.
  CHECK_THROWS_WITH_AS(add(zeros({2}), zeros({3})), Contains("add: "), ShapeError);
}
