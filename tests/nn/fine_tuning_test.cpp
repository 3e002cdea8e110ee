// The head of a model, weights without it, frozen parameters, and weights that do not fit.
#include "lathe/nn/fine_tuning.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <string>

#include "lathe/core/error.h"
#include "lathe/lathe.h"
#include "lathe/nn/misfit.h"

using namespace lathe;

namespace {

/// A convolution with its norm in "body", and a classifier.
struct Net final : nn::Module {
  nn::Sequential body{*this, "body"};
  nn::Linear fc;

  explicit Net(int64_t classes) : fc(*this, "fc", 4, classes) {
    body.add_named<nn::Conv2d>("conv", 3, 4, nn::Conv2dOptions{.kernel = 3, .bias = false});
    body.add_named<nn::BatchNorm2d>("norm", 4);
  }
  Tensor forward(const Tensor& x) override { return fc(mean(body(x), {2, 3})); }
};

bool same(const Tensor& a, const Tensor& b) { return a.to_vector<float>() == b.to_vector<float>(); }

}  // namespace

TEST_CASE("fine tuning: the head is the last layer, and a model of one layer has no other") {
  const Net net(5);
  CHECK(nn::head_of(net) == "fc");
  const auto [body, head] = nn::split_by_head(net, net.parameters());
  CHECK(body.size() == 3);
  CHECK(head.size() == 2);
  const nn::Linear alone(2, 3);
  CHECK(nn::head_of(alone).empty());
  CHECK(nn::split_by_head(alone, alone.parameters()).second.size() == 2);
  CHECK(nn::is_below("fc.weight", "fc"));
  CHECK_FALSE(nn::is_below("fc2.weight", "fc"));
}

TEST_CASE("fine tuning: weights of other classes are loaded into all but the head") {
  const Net from(7);
  Net to(5);
  const auto path = std::filesystem::temp_directory_path() /
                    ("lathe_fine_tuning_" + std::to_string(getpid()) + ".safetensors");
  nn::save(from, path.string());
  const Tensor head = to.fc.weight.clone();
  CHECK_THROWS_AS(nn::load(to, path.string()), ValueError);
  nn::load_without_head(to, path.string());
  CHECK(same(to.named_parameters()[0].second, from.named_parameters()[0].second));
  CHECK(same(to.fc.weight, head));
  const nn::WithoutHead sorted = nn::without_head(from.state_dict(), to);
  REQUIRE(sorted.fresh.size() == 2);
  CHECK(sorted.fresh[0].first == "fc.weight");
  CHECK(sorted.fresh[0].second.shape() == Shape{5, 4});
  CHECK(sorted.unused.size() == 2);
  nn::Linear other(2, 3);
  nn::save(other, path.string());
  CHECK_THROWS_WITH_AS(nn::load_without_head(to, path.string()),
                       doctest::Contains(path.string().c_str()), ValueError);
  CHECK(same(to.fc.weight, head));
  std::filesystem::remove(path);
}

TEST_CASE("fine tuning: what is frozen gets no gradient, and its norms keep their statistics") {
  Net net(5);
  const nn::Frozen frozen = nn::freeze(net, {"backbone"});
  CHECK(frozen.parameters == 3);
  CHECK(frozen.values == 4 * 3 * 9 + 4 + 4);
  REQUIRE(frozen.norms.size() == 1);
  net.train();
  frozen.hold();
  const auto before = net.state_dict().clone();
  sum(net(randn({2, 3, 5, 5}))).backward();
  CHECK(same(before.at("body.norm.running_mean"), net.state_dict().at("body.norm.running_mean")));
  CHECK(net.fc.weight.grad().defined());
  CHECK_FALSE(net.named_parameters()[0].second.grad().defined());

  Net one(5);
  CHECK(nn::freeze(one, {"*.bias", "fc"}).norms.empty());  // the norm's weight is trained
  CHECK(one.named_parameters()[1].second.requires_grad());
  CHECK_FALSE(one.fc.weight.requires_grad());
  CHECK(nn::freeze(one, {}).parameters == 0);
}

TEST_CASE("fine tuning: a pattern without a match changes nothing and names the nearest") {
  Net net(5);
  CHECK_THROWS_WITH_AS(nn::freeze(net, {"fc", "body.nrm"}),
                       doctest::Contains("\"body.nrm\" matches no parameter; did you mean "
                                         "body.norm?"),
                       ValueError);
  CHECK(net.fc.weight.requires_grad());
  CHECK_THROWS_WITH_AS(
      nn::freeze(net, {"xyzxyzxyz"}),
      doctest::Contains("the model has body, fc, and \"backbone\" means all but fc"), ValueError);
  CHECK_THROWS_WITH_AS(nn::freeze(net, {"*"}), doctest::Contains("leaves nothing to train: all 5"),
                       ValueError);
}

TEST_CASE("misfit: counts what is missing, of another shape, or unknown, with three names each") {
  const Net net(5);
  CHECK(nn::misfit_text(net.state_dict(), net.state_dict(), net).empty());
  const StateDict other = Net(7).state_dict();
  CHECK(nn::misfit_text(other, other, net) ==
        "of the model's 8 entries 2 have another shape or dtype in the file (fc.weight f32[7,4] "
        "instead of f32[5,4], fc.bias f32[7] instead of f32[5])");
  const StateDict linear = nn::Linear(2, 3).state_dict();
  const std::string text = nn::misfit_text(linear, linear, net);
  CHECK(text.find("8 are missing (body.conv.weight, body.norm.weight, body.norm.bias, …)") !=
        std::string::npos);
  CHECK(text.find("2 of the file's are not in the model (weight, bias)") != std::string::npos);
}
