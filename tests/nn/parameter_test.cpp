// Parameter: what is assigned to a layer's weight reaches the module. Tied weights; modules that
// nobody registered; Dropout2d.
#include "lathe/nn/parameter.h"

#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <vector>

#include "lathe/core/formats/safetensors.h"
#include "lathe/core/log.h"
#include "lathe/core/random/generator.h"
#include "lathe/nn/dropout.h"
#include "lathe/nn/embedding.h"
#include "lathe/nn/init.h"
#include "lathe/nn/linear.h"
#include "lathe/nn/weights.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/random.h"
#include "lathe/ops/reduce.h"
#include "lathe/tests/data/files.h"

using namespace lathe;
using lathe::data::testing::TempDir;

namespace {

/// A language model's two ends.
struct Ends : nn::Module {
  nn::Embedding embedding{*this, "embedding", 5, 3};
  nn::Linear head{*this, "head", 3, 5, {.bias = false}};
  Tensor forward(const Tensor& x) override { return head(embedding(x)); }
};

/// The messages of f.
std::vector<std::string> warnings_of(const std::function<void()>& f) {
  std::vector<std::string> texts;
  const LogHandler before =
      set_log_handler([&](LogLevel, std::string_view text) { texts.emplace_back(text); });
  f();
  set_log_handler(before);
  return texts;
}

}  // namespace

TEST_CASE("parameter: tied weights are one entry, in the model, in its state and on disk") {
  const TempDir dir;
  Ends model;
  model.head.weight = model.embedding.weight;
  CHECK(model.parameters().size() == 1);
  CHECK(model.state_dict().size() == 1);
  CHECK(model.state_dict().contains("embedding.weight"));

  sum(model(tensor({1, 4}))).backward();
  CHECK(model.head.weight.grad().is_same(model.embedding.weight.grad()));
  model.to(kF64);
  CHECK(model.head.weight.is_same(model.embedding.weight));
  CHECK(model.head.weight.dtype() == kF64);

  const std::string path = dir / "tied.safetensors";
  nn::save(model, path);
  CHECK(safetensors::read(path).tensors.size() == 1);
  Ends other;
  other.head.weight = other.embedding.weight;
  other.to(kF64);
  nn::load(other, path);
  CHECK(other.head.weight.to_vector<double>() == model.embedding.weight.to_vector<double>());
}

TEST_CASE("parameter: a tied weight is read from any of its names") {
  Ends model, other;
  model.head.weight = model.embedding.weight;
  const Tensor table = randn({5, 3});
  StateDict both;  // as other programs write it
  both.add("embedding.weight", table);
  both.add("head.weight", table);
  model.load_state_dict(both);
  CHECK(model.head.weight.to_vector<float>() == table.to_vector<float>());
  StateDict second;
  second.add("head.weight", table + 1);
  model.load_state_dict(second);
  CHECK(model.embedding.weight.to_vector<float>() == (table + 1).to_vector<float>());
  CHECK_THROWS_AS(other.load_state_dict(second), ValueError);  // not tied: one is missing
}

TEST_CASE("parameter: what does not fit is refused, and nothing changes; a copy has no place") {
  Ends model;
  const Tensor before = model.head.weight;
  CHECK_THROWS_AS(model.head.weight = Tensor(), ValueError);
  CHECK_THROWS_AS(model.head.weight = zeros({5, 3}, kI64), DTypeError);
  CHECK_THROWS_AS(model.head.weight = model.embedding.weight * 2, StateError);
  CHECK(model.head.weight.is_same(before));
  CHECK(model.parameters()[1].is_same(before));

  nn::Parameter copy = model.head.weight;
  copy = zeros({5, 3});
  CHECK(model.head.weight.is_same(before));
  model.head.weight = zeros({5, 3});
  CHECK(model.parameters()[1].is_same(model.head.weight));
  CHECK(model.head.weight.requires_grad());
}

TEST_CASE("parameter: tied to a frozen one, it is frozen too") {
  Ends model;
  model.embedding.weight.requires_grad_(false);
  model.head.weight = model.embedding.weight;
  CHECK(!model.embedding.weight.requires_grad());
  CHECK(model.head.weight.is_same(model.embedding.weight));
  CHECK(model.parameters().size() == 1);
}

TEST_CASE("module: a layer that nobody registered is warned about once") {
  struct Forgetful : nn::Module {
    nn::Linear known{*this, "known", 3, 3};
    nn::Linear lost{3, 3};
    nn::Dropout harmless{0.5};  // has no parameters
    Tensor forward(const Tensor& x) override { return harmless(lost(known(x))); }
  } model;
  const auto texts = warnings_of([&] {
    model(zeros({1, 3}));
    model(zeros({1, 3}));
  });
  REQUIRE(texts.size() == 1);
  CHECK(texts[0].find("Forgetful calls a Linear that was not registered") != std::string::npos);
  Ends registered;
  CHECK(warnings_of([&] { registered(tensor({1})); }).empty());
}

TEST_CASE("weights: a name that promises another format is warned about") {
  const TempDir dir;
  nn::Linear layer(2, 2);
  CHECK(warnings_of([&] { nn::save(layer, dir / "x.pth"); }).size() == 1);
  CHECK(warnings_of([&] { nn::save(layer, dir / "x.safetensors"); }).empty());
  CHECK(safetensors::read(dir / "x.pth").tensors.size() == 2);
}

TEST_CASE("dropout2d: whole channels, in training only") {
  nn::Dropout2d drop(0.5);
  manual_seed(3);
  const Tensor x = ones({8, 16, 3, 5});
  const Tensor y = drop(x);
  int zeroed = 0;
  for (const float total : y.sum({2, 3}).to_vector<float>()) {
    CHECK((total == 0 || total == 30));  // 15 elements of 2
    zeroed += total == 0 ? 1 : 0;
  }
  CHECK(zeroed > 32);  // of 128; fewer has a probability below 1e-8
  CHECK(zeroed < 96);
  drop.eval();
  CHECK(drop(x).is_same(x));
  CHECK_THROWS_AS(nn::Dropout2d(1.5), ValueError);
  drop.train();
  CHECK_THROWS_AS(drop(ones({3})), ShapeError);
  nn::Dropout2d none(0);
  const Generator::State before = default_generator().state();
  CHECK(none(x).is_same(x));
  CHECK(default_generator().state() == before);
}
