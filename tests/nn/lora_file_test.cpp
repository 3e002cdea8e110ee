// Adapters as PEFT's files: golden_lora/, made by make_lora_golden.py, and files that are refused.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>

#include "lathe/core/error.h"
#include "lathe/core/formats/safetensors.h"
#include "lathe/tests/data/files.h"
#include "lora_net.h"

using namespace lathe;
using namespace lathe::testing;
using data::testing::TempDir;

namespace {

bool same(const StateDict& a, const StateDict& b) {
  if (a.size() != b.size()) return false;
  for (const auto& [name, t] : a) {
    if (!b.contains(name) || !equal(t, b[name])) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("lora: reads PEFT's adapters and gives its results, and writes the same file") {
  const std::string folder = LATHE_GOLDEN_LORA;
  StateDict base, golden = safetensors::read(folder + "/model.safetensors").tensors;
  for (const auto& [name, t] : golden) {
    if (name != "x" && name != "y") base.add(name, t);
  }
  Net net;
  net.load_state_dict(base);
  const nn::Lora lora = nn::load_lora(net, folder);
  net.to(kF64).eval();
  CHECK(difference(net(golden["x"].to(kF64)), golden["y"]) <= 1e-12);
  net.to(kF32);
  const TempDir made;
  lora.save(made.path().string());
  CHECK(same(safetensors::read((made / "adapter_model.safetensors").string()).tensors,
             safetensors::read(folder + "/adapter_model.safetensors").tensors));

  Net again;
  again.load_state_dict(base);
  const nn::Lora second = nn::load_lora(again, made.path().string());  // the config, too
  again.to(kF64).eval();
  CHECK(difference(again(golden["x"].to(kF64)), golden["y"]) <= 1e-12);
}

TEST_CASE("lora: load_lora() has add_lora()'s order, in which optimisers number their state") {
  const auto eleven = [] {
    nn::Sequential out;
    for (int i = 0; i < 11; ++i) out.add<nn::Linear>(2, 2);
    return out;
  };
  nn::Sequential from = eleven(), to = eleven();
  const nn::Lora lora = nn::add_lora(from);
  randomise(lora);
  const TempDir made;
  lora.save(made.path().string());
  const nn::Lora loaded = nn::load_lora(to, made.path().string());
  CHECK(loaded.layers() == lora.layers());
  for (size_t i = 0; i < lora.parameters().size(); ++i)
    CHECK(equal(loaded.parameters()[i], lora.parameters()[i]));
}

TEST_CASE("lora: load_lora() draws no random numbers") {
  const auto next = [](bool loads) {
    Net net;
    manual_seed(3);
    if (loads) nn::load_lora(net, LATHE_GOLDEN_LORA);
    return randn({4});
  };
  CHECK(equal(next(true), next(false)));
}

TEST_CASE("lora: names of modules that train in full are no patterns in a file") {
  struct Odd final : nn::Module {
    nn::Linear fc{*this, "fc", 2, 2};
    nn::Linear head{*this, "a[0]", 2, 2};
  } from, to;
  const TempDir made;
  nn::add_lora(from, {.targets = {"fc"}, .trained = {"a*"}}).save(made.path().string());
  const nn::Lora loaded = nn::load_lora(to, made.path().string());
  CHECK(loaded.parameters().size() == 4);
  CHECK(equal(to.head.weight, from.head.weight));
  CHECK(to.head.weight.requires_grad());
}

TEST_CASE("lora: PEFT is not told of the root, which it would take for every module") {
  struct Scaled final : nn::Module {
    nn::Parameter scale = parameter("scale", ones({1}));
    nn::Linear fc{*this, "fc", 2, 2}, head{*this, "head", 2, 2};
  } from, to;
  from.scale.detach().fill_(3);
  const TempDir made;
  nn::add_lora(from, {.targets = {"fc"}, .trained = {"scale", "head"}}).save(made.path().string());
  const std::string config = data::testing::read_file(made / "adapter_config.json");
  CHECK(config.find("\"modules_to_save\": [\n    \"head\"\n  ]") != std::string::npos);
  const nn::Lora loaded = nn::load_lora(to, made.path().string());
  CHECK(to.scale.item<float>() == 3);
}

TEST_CASE("lora: PEFT is told whole names where one is the ending of another module's") {
  struct Nested final : nn::Module {
    nn::Linear fc{*this, "fc", 2, 2};
    Net inner;
    Nested() { adopt(inner, "inner"); }
  } net;
  const TempDir made;
  const auto targets = [&](const std::vector<std::string>& layers) {
    nn::Lora lora = nn::add_lora(net, {.targets = layers});
    lora.save(made.path().string());
    lora.merge();
    const std::string config = data::testing::read_file(made / "adapter_config.json");
    const size_t at = config.find("\"target_modules\": ");
    return config.substr(at + 18, config.find("use_rslora") - at - 18);
  };
  CHECK(targets({"inner.fc"}).starts_with("[\n    \"inner.fc\"\n  ],"));
  CHECK(targets({"fc", "inner.head"}).starts_with(R"("fc|inner\\.head",)"));
  CHECK(targets({"*fc"}).starts_with("["));
}

// What adapter_config.json may hold: tests/state/file_headers_test.cpp.
TEST_CASE("lora: weights that do not fit are refused and change nothing") {
  const TempDir made;
  const std::string folder = made.path().string();
  Net from;
  const nn::Lora lora = nn::add_lora(from, {.targets = kAdapted, .trained = {"head"}});
  lora.save(folder);
  const StateDict entries =
      safetensors::read((made / "adapter_model.safetensors").string()).tensors;

  Net fresh;
  const StateDict untouched = fresh.state_dict().clone();
  const auto refused = [&]<class E>(const std::string& name, const Tensor& value, E*) {
    StateDict changed;
    for (const auto& [entry, t] : entries) {
      if (entry != name) changed.add(entry, t);
    }
    if (value.defined()) changed.add(name, value);
    safetensors::write((made / "adapter_model.safetensors").string(), changed);
    const std::string message = data::testing::message_of<E>([&] { nn::load_lora(fresh, folder); });
    CHECK(same(fresh.state_dict(), untouched));
    return message;
  };
  const std::string p = "base_model.model.";
  const auto data_error = static_cast<DataError*>(nullptr);
  const auto value_error = static_cast<ValueError*>(nullptr);
  CHECK(refused("fc.weight", zeros({1}), data_error).find("does not begin") != std::string::npos);
  CHECK(refused(p + "fc.lora_A.weight", {}, data_error).find("only one") != std::string::npos);
  CHECK(refused(p + "fc.lora_B.bias", zeros({6}), data_error).find("another kind of adapter") !=
        std::string::npos);
  CHECK(refused(p + "fc.lora_A.weight", zeros({8, 5}), value_error).find("is needed") !=
        std::string::npos);
  CHECK(refused(p + "fc.lora_A.weight", zeros({}), value_error).find("no rank") !=
        std::string::npos);
  CHECK(refused(p + "conv.lora_A.weight", zeros({8, 5}), value_error).find("conv") !=
        std::string::npos);
  // Its rank would take a petabyte and more.
  CHECK(refused(p + "fc.lora_A.weight", zeros({int64_t{1} << 50, 0}), value_error)
            .find("is needed") != std::string::npos);
  CHECK(refused(p + "head2.weight", zeros({1}), value_error).find("no entry \"head2.weight\"") !=
        std::string::npos);
  CHECK(refused(p + "head.weight", zeros({1}), value_error).find("another shape") !=
        std::string::npos);
}
