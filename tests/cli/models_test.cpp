// The models of --model: names, sizes of images, and what weights say of a model.
#include "lathe/tools/cli/settings/models.h"

#include <doctest/doctest.h>

#include "lathe/nn/linear.h"
#include "lathe/tools/cli/exit_codes.h"
#include "lathe/tools/cli/settings/settings.h"
#include "lathe/tools/cli/settings/without_effect.h"
#include "lathe/tools/cli/training/compute.h"

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

TEST_CASE("models: images that a model does not take are refused before anything is made") {
  CHECK_THROWS_WITH_AS(make_named_model("vgg16", {.image_size = 28}),
                       "--model vgg16 needs images of 32 x 32 or larger, not --image-size 28",
                       UsageError);
  CHECK_THROWS_WITH_AS(make_named_model("vit_b_16", {.image_size = 40}),
                       "--model vit_b_16 needs an --image-size that is a multiple of 16, not 40",
                       UsageError);
  CHECK_THROWS_AS(make_named_model("resnet19", {}), UsageError);
}

TEST_CASE("models: the shapes of weights say classes and channels") {
  Settings settings;
  for (const char* name : {"resnet8", "mobilenet_v2", "vit_s_16"}) {
    CAPTURE(name);
    settings.model = name;
    settings.image_size = 32;
    const auto model = make_empty_model(settings, {.classes = 7, .in_channels = 2});
    const ModelShape shape = shape_of_weights(settings, model->state_dict());
    CHECK(shape.classes == 7);
    CHECK(shape.in_channels == 2);
  }
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
