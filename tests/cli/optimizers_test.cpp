// What --optimizer and --lr-scale-batch make.
#include "lathe/tools/cli/training/optimizers.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "lathe/nn/resnet.h"
#include "lathe/optim/optimizer_names.h"
#include "lathe/tools/cli/exit_codes.h"
#include "lathe/tools/cli/settings/defaults.h"
#include "lathe/tools/cli/settings/without_effect.h"

using namespace lathe;
using namespace lathe::cli;
using doctest::Approx;

namespace {

Settings definite(const char* optimizer) {
  Settings settings;
  settings.dataset = "synthetic";
  settings.model = "resnet8";
  settings.optimizer = optimizer;
  complete(settings, {});
  return settings;
}

}  // namespace

TEST_CASE("optimisers: --lr-scale-batch multiplies the rate by the images of a step over 128") {
  Settings settings = definite("sgd");
  settings.lr = 0.1;
  settings.batch_size = 256;
  settings.accumulate = 16;
  CHECK(peak_lr(settings) == 0.1);
  settings.lr_scale_batch = true;
  CHECK(peak_lr(settings) == Approx(3.2));
  auto model = nn::resnet8({});
  CHECK(make_optimizer(settings, model)->initial_lr() == Approx(3.2));
}

TEST_CASE("optimisers: every name makes its optimiser, with norms and biases apart if asked") {
  auto model = nn::resnet8({});
  for (const auto& [word, name] : {std::pair{"sgd", "SGD"},
                                   {"adam", "Adam"},
                                   {"adamw", "AdamW"},
                                   {"rmsprop", "RMSprop"},
                                   {"adagrad", "Adagrad"},
                                   {"adadelta", "Adadelta"},
                                   {"adamax", "Adamax"},
                                   {"nadam", "NAdam"},
                                   {"radam", "RAdam"},
                                   {"lion", "Lion"},
                                   {"adafactor", "Adafactor"}}) {
    CAPTURE(word);
    Settings settings = definite(word);
    settings.weight_decay = 0.125;
    const auto plain = make_optimizer(settings, model);
    CHECK(std::string(plain->name()) == name);
    CHECK(plain->hyper_parameter("weight_decay") == 0.125);
    settings.no_decay_norm = true;
    const auto grouped = make_optimizer(settings, model);
    REQUIRE(grouped->num_groups() == 2);
    CHECK(grouped->hyper_parameter("weight_decay", 0) == 0.125);
    CHECK(grouped->hyper_parameter("weight_decay", 1) == 0);
    for (const Tensor& p : grouped->params(1)) CHECK(p.ndim() == 1);
  }
}

TEST_CASE("optimisers: --optimizer takes the names that the library has") {
  std::string choices(find_setting("optimizer")->choices);
  for (size_t bar; (bar = choices.find('|')) != std::string::npos;) choices.replace(bar, 1, ", ");
  CHECK(choices == optim::kOptimizerNames);
}

TEST_CASE("optimisers: muon leaves to AdamW what is no hidden matrix") {
  auto model = nn::resnet8({});
  Settings settings = definite("muon");
  const auto plain = make_optimizer(settings, model);
  REQUIRE(plain->num_groups() == 2);
  for (const Tensor& p : plain->params(0)) CHECK(p.ndim() == 4);
  CHECK(plain->hyper_parameter("use_adamw", 0) == 0);
  CHECK(plain->hyper_parameter("use_adamw", 1) == 1);
  CHECK(plain->hyper_parameter("momentum") == 0.95);
  CHECK(plain->hyper_parameter("nesterov") == 1);
  CHECK(plain->hyper_parameter("match_rms_adamw") == 1);
  settings.no_decay_norm = true;
  settings.head_lr = 0.5;
  const auto grouped = make_optimizer(settings, model);  // filters, norms; the head: weight, bias
  REQUIRE(grouped->num_groups() == 4);
  CHECK(grouped->params().size() == model.parameters().size());
  CHECK(grouped->hyper_parameter("weight_decay", 0) == *settings.weight_decay);
  CHECK(grouped->hyper_parameter("weight_decay", 1) == 0);
  CHECK(grouped->hyper_parameter("use_adamw", 2) == 1);
  CHECK(grouped->initial_lr(2) == 0.5);
  CHECK(grouped->hyper_parameter("weight_decay", 3) == 0);
}

TEST_CASE("optimisers: muon with --muon-rest sgd, and rates of their own for biases and head") {
  auto model = nn::resnet8({});
  Settings settings = definite("muon");
  settings.muon_rest = "sgd";
  settings.lr = 0.25;
  settings.momentum = 0.5;
  settings.weight_decay = 0.5;
  settings.bias_lr = 2;
  settings.head_lr = 0.125;
  const auto made = make_optimizer(settings, model);  // filters; norms and biases; head: both
  REQUIRE(made->num_groups() == 4);
  CHECK(made->params().size() == model.parameters().size());
  for (const Tensor& p : made->params(0)) CHECK(p.ndim() == 4);
  CHECK(made->hyper_parameter("normalize", 0) == 1);
  CHECK(made->hyper_parameter("match_rms_adamw", 0) == 0);
  CHECK(made->hyper_parameter("ns_steps", 0) == 3);
  CHECK(made->hyper_parameter("momentum", 0) == 0.5);
  for (const Tensor& p : made->params(1)) CHECK(p.ndim() == 1);
  for (size_t g = 1; g < 4; ++g) {
    CHECK(made->hyper_parameter("use_sgd", g) == 1);
    CHECK(made->hyper_parameter("use_adamw", g) == 0);
    CHECK(made->hyper_parameter("momentum", g) == 0.85);
    // A step takes as much of the weights in every group.
    CHECK(made->initial_lr(g) * made->hyper_parameter("weight_decay", g) == 0.125);
  }
  CHECK(made->initial_lr(0) == 0.25);
  CHECK(made->initial_lr(1) == 2);
  CHECK(made->initial_lr(2) == 0.125);

  // --bias-lr is for any optimiser, and by --lr-scale-batch scaled like --lr.
  Settings sgd = definite("sgd");
  sgd.bias_lr = 2;
  sgd.lr_scale_batch = true;
  sgd.batch_size = 256;
  const auto plain = make_optimizer(sgd, model);
  REQUIRE(plain->num_groups() == 2);
  for (const Tensor& p : plain->params(0)) CHECK(p.ndim() > 1);
  for (const Tensor& p : plain->params(1)) CHECK(p.ndim() == 1);
  CHECK(plain->initial_lr(1) == 4);
}

TEST_CASE("optimisers: LARS and LAMB leave norms and biases without decay and trust ratio") {
  auto model = nn::resnet8({});
  Settings settings = definite("lars");
  settings.momentum = 0.75;
  settings.trust_coefficient = 0.5;
  for (const auto& [word, name] : {std::pair{"lars", "LARS"}, {"lamb", "LAMB"}}) {
    settings.optimizer = word;
    const auto optimizer = make_optimizer(settings, model);
    CHECK(std::string(optimizer->name()) == name);
    REQUIRE(optimizer->num_groups() == 2);
    CHECK(optimizer->hyper_parameter("weight_decay", 0) == *settings.weight_decay);
    CHECK(optimizer->hyper_parameter("adapt", 0) == 1);
    CHECK(optimizer->hyper_parameter("weight_decay", 1) == 0);
    CHECK(optimizer->hyper_parameter("adapt", 1) == 0);
    if (settings.optimizer != "lars") continue;
    CHECK(optimizer->hyper_parameter("trust_coefficient") == 0.5);
    CHECK(optimizer->hyper_parameter("momentum") == 0.75);
  }
}

TEST_CASE("optimisers: a flag that belongs to some of them sets the option of just these") {
  auto model = nn::resnet8({});
  const auto names = [](std::string_view values, std::string_view word) {
    return ("|" + std::string(values) + "|").find("|" + std::string(word) + "|") !=
           std::string::npos;
  };
  for (const Dependence& row : all_dependences()) {
    // These are no options of an optimiser: they divide the parameters into groups.
    if (row.chooser != "optimizer" || row.key == "no-decay-norm" || row.key == "muon-rest")
      continue;
    for (const char* word :
         {"sgd", "adam", "adamw", "rmsprop", "lars", "lamb", "novograd", "lion"}) {
      CAPTURE(row.key);
      CAPTURE(word);
      Settings settings = definite(word);
      const bool is_switch = find_setting(row.key)->is_switch();
      assign(settings, *find_setting(row.key), row.key, is_switch ? "true" : "0.25");
      const auto optimizer = make_optimizer(settings, model);
      std::string option(row.key);
      std::replace(option.begin(), option.end(), '-', '_');
      if (names(row.values, word)) {
        CHECK(optimizer->hyper_parameter(option) == (is_switch ? 1 : 0.25));
      } else {
        CHECK_THROWS_AS(optimizer->hyper_parameter(option), ValueError);
      }
    }
  }
}

TEST_CASE("optimisers: values that do not fit each other are errors of the call") {
  auto model = nn::resnet8({});
  Settings settings = definite("sgd");
  settings.nesterov = true;
  settings.momentum = 0;
  CHECK_THROWS_WITH_AS(make_optimizer(settings, model), doctest::Contains("nesterov"), UsageError);
}
