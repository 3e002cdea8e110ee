// The models of --model: names, sizes of images, and what weights say of a model.
#include "lathe/tools/cli/settings/models.h"

#include <doctest/doctest.h>

#include "lathe/graph/file.h"
#include "lathe/graph/trace.h"
#include "lathe/nn/containers.h"
#include "lathe/nn/conv.h"
#include "lathe/nn/linear.h"
#include "lathe/nn/weights.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/matmul.h"
#include "lathe/ops/quantized.h"
#include "lathe/tests/cli/temporary_folder.h"
#include "lathe/tools/cli/exit_codes.h"
#include "lathe/tools/cli/settings/command.h"
#include "lathe/tools/cli/settings/settings.h"
#include "lathe/tools/cli/settings/without_effect.h"
#include "lathe/tools/cli/training/compute.h"
#include "lathe/tools/cli/training/fine_tuning.h"

namespace lathe::cli {
namespace {

TEST_CASE("models: --model takes the names of the library's models, and stem those that have one") {
  std::string names, with_stem;
  for (const nn::ModelKind& kind : nn::model_kinds()) {
    names += (names.empty() ? "" : "|") + std::string(kind.name);
    if (kind.has_stem) with_stem += (with_stem.empty() ? "" : "|") + std::string(kind.name);
  }
  CHECK(find_setting("model")->choices == names);
  for (const Dependence& dependence : all_dependences()) {
    if (dependence.key == "stem") CHECK(dependence.values == with_stem);
  }
}

TEST_CASE("models: a file is told by its ending, and is called by its name without that") {
  for (const char* file : {"a.pt2", "runs/resnet18.pt2", "net.onnx", "net.lathe"})
    CHECK_MESSAGE(is_model_file(file), file);
  for (const char* other : {"resnet18", "a.pth", "a.pt2.old", "vit", ""})
    CHECK_MESSAGE(!is_model_file(other), other);
  CHECK(title_of_model("runs/v1.2/my.net.pt2") == "my.net");
  CHECK(title_of_model("resnet18") == "resnet18");
}

TEST_CASE("models: images that a model does not take are refused before anything is made") {
  CHECK_THROWS_WITH_AS(make_named_model("vgg16", {.image_size = 28}),
                       "--model vgg16 needs images of 32 x 32 or larger, not --image-size 28",
                       UsageError);
  CHECK_THROWS_WITH_AS(make_named_model("vit_b_16", {.image_size = 40}),
                       "--model vit_b_16 needs an --image-size that is a multiple of 16, not 40",
                       UsageError);
  CHECK_THROWS_AS(make_named_model("resnet19", {}), UsageError);
}

/// A model whose first layer is linear and whose last one is a convolution.
struct Unusual final : nn::Module {
  nn::Linear first;
  nn::Conv2d head;

  explicit Unusual(const ModelShape& shape)
      : first(*this, "first", 9 * shape.in_channels, 4),
        head(*this, "head", 4, 3 * shape.classes, {.kernel = 1}) {}
};

TEST_CASE("models: the shapes of weights say classes and channels") {
  const auto check = [](FunctionRef<std::unique_ptr<nn::Module>(const ModelShape&)> make) {
    const auto model = make({.classes = 7, .in_channels = 2});
    const ModelShape shape = shape_of_weights(model->state_dict(), make);
    CHECK(shape.classes == 7);
    CHECK(shape.in_channels == 2);
  };
  Settings settings;
  for (const char* name : {"resnet8", "mobilenet_v2", "vit_s_16"}) {
    CAPTURE(name);
    settings.model = name;
    settings.image_size = 32;
    check([&](const ModelShape& shape) { return make_empty_model(settings, shape); });
  }
  check([](const ModelShape& shape) { return std::make_unique<Unusual>(shape); });
}

TEST_CASE("models: the head is the last layer, and a model of one layer has no other") {
  nn::Sequential net;
  net.add<nn::Linear>(2, 3);
  net.add_named<nn::Sequential>("top").add<nn::Linear>(3, 4);
  CHECK(head_of(net) == "top.0");
  CHECK(split_by_head(net, net.parameters()).first.size() == 2);
  nn::Linear alone(2, 3);
  CHECK(head_of(alone).empty());
  CHECK(split_by_head(alone, alone.parameters()).second.size() == 2);
  const test::TemporaryFolder folder;
  const std::string file = (folder.path() / "w.safetensors").string();
  nn::save(alone, file);
  CHECK_THROWS_WITH_AS(load_weights(alone, file, true),
                       doctest::Contains("--new-head: a Linear has no layers before a head"),
                       UsageError);
  nn::Linear other(2, 4);
  try {
    load_weights(other, file);
    FAIL("weights of another size were loaded");
  } catch (const CommandError& e) {
    CHECK(std::string(e.what()).find("--new-head") == std::string::npos);
  }
}

/// A linear layer with weights of f32 whose input another program has rounded to 8 bits.
struct Rounded final : nn::Module {
  nn::Linear fc;
  Rounded() : fc(*this, "fc", 3, 2) {}
  Tensor forward(const Tensor& x) override { return fc(dequantize(quantize(x, 0.5, kI8), 0.5)); }
};

TEST_CASE("models: weights of f32 are converted out of a graph that rounds values to 8 bits") {
  const test::TemporaryFolder folder;
  const std::string graph = (folder.path() / "g.lathe").string(),
                    weights = (folder.path() / "w.safetensors").string();
  Rounded model;
  jit::save(jit::trace(model.eval(), zeros({1, 3})), graph);
  Settings quiet;
  quiet.json = true;
  CHECK(run_ckpt_convert({quiet, {graph, weights}, {}}) == ExitCode::kDone);
  Rounded other;
  nn::load(other, weights);
  CHECK(other.fc.weight.to_vector<float>() == model.fc.weight.to_vector<float>());
}

/// A linear layer whose weights are integers: as the graph of a static quantisation, no node of
/// which is a quantize.
struct OfIntegers final : nn::Module {
  Tensor integers = full({3, 2}, 5, {.dtype = kI8});
  Tensor forward(const Tensor& x) override { return matmul(x, integers.to(kF32)); }
};

TEST_CASE("models: weights of i8 are not converted out of a graph") {
  const test::TemporaryFolder folder;
  const std::string graph = (folder.path() / "g.lathe").string(),
                    weights = (folder.path() / "w.safetensors").string();
  OfIntegers model;
  jit::save(jit::trace(model.eval(), zeros({1, 3})), graph);
  Settings quiet;
  quiet.json = true;
  CHECK_THROWS_WITH_AS(run_ckpt_convert({quiet, {graph, weights}, {}}),
                       doctest::Contains("it has a matmul with weights of 8 bits"), CommandError);
  CHECK_FALSE(std::filesystem::exists(weights));
}

TEST_CASE("models: what cannot be added says why") {
  const auto make = [](const nn::ModelOptions&) { return std::make_unique<nn::Linear>(2, 3); };
  CHECK_THROWS_WITH_AS(trainer::add_model({"resnet18", make}),
                       doctest::Contains("\"resnet18\" already"), ValueError);
  CHECK_THROWS_WITH_AS(trainer::add_model({"a|b", make}), doctest::Contains("\"a|b\""), ValueError);
  CHECK_THROWS_AS(trainer::add_model({"", make}), ValueError);
  CHECK_THROWS_WITH_AS(trainer::add_model({"mine", make, 1, 0}), doctest::Contains("patch 0"),
                       ValueError);
  CHECK_THROWS_WITH_AS(trainer::add_model({"mine", {}}), doctest::Contains("\"mine\" has no maker"),
                       ValueError);
}

}  // namespace
}  // namespace lathe::cli
