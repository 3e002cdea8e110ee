#include "lathe/tools/cli/settings/defaults.h"

#include <doctest/doctest.h>

#include <functional>

#include "lathe/tools/cli/exit_codes.h"

using namespace lathe::cli;

namespace {

const Machine kCpu{
    .has_cuda = false, .usable_cpus = 2, .cifar10_found = true, .fashion_mnist_found = true};
const Machine kGpu{
    .has_cuda = true, .usable_cpus = 16, .cifar10_found = true, .fashion_mnist_found = true};

struct Choice {
  std::string dataset, model, remark;
};

Choice choose(const Machine& machine, Settings settings = {}) {
  const std::string remark = choose_run(settings, machine);
  return {*settings.dataset, *settings.model, remark};
}

Settings with_dataset(const char* name) {
  Settings settings;
  settings.dataset = name;
  return settings;
}

}  // namespace

TEST_CASE("defaults: a GPU gets ResNet-18 on CIFAR-10, a CPU a small ResNet on Fashion-MNIST") {
  CHECK(choose(kGpu).dataset == "cifar10");
  CHECK(choose(kGpu).model == "resnet18");
  CHECK(choose(kCpu).dataset == "fashion-mnist");
  CHECK(choose(kCpu).model == "resnet8");
  CHECK(choose(kCpu).remark.find("resnet8 on fashion-mnist (no GPU") != std::string::npos);
}

TEST_CASE("defaults: what is not found is not chosen") {
  Machine machine = kGpu;
  machine.cifar10_found = false;
  CHECK(choose(machine).dataset == "fashion-mnist");
  machine = kCpu;
  machine.fashion_mnist_found = false;
  CHECK(choose(machine).dataset == "cifar10");
  machine.cifar10_found = false;
  CHECK_THROWS_WITH_AS(choose(machine), doctest::Contains("lathe data fetch cifar10"),
                       CommandError);
  CHECK(choose(machine, with_dataset("synthetic")).dataset == "synthetic");
}

TEST_CASE("defaults: where nothing is found, what --data-root names is said") {
  const auto why = [](DataRoot kind) -> std::string {
    Settings settings;
    settings.data_root = "pets";
    try {
      choose_run(settings, {.data_root = kind});
    } catch (const CommandError& e) {
      CHECK(e.code() == ExitCode::kData);
      return e.what();
    }
    return "";
  };
  CHECK(why(DataRoot::kMissing) == "--data-root pets: no such file or folder");
  CHECK(why(DataRoot::kOther).starts_with("no data set found in --data-root pets: get one"));
}

TEST_CASE("defaults: folders of images that --data-root names are trained on") {
  Settings settings;
  settings.data_root = "pets";
  CHECK(choose({.data_root = DataRoot::kImageFolder}, settings).dataset == "folder");
  CHECK(choose({.fashion_mnist_found = true, .data_root = DataRoot::kImageFolder}, settings)
            .dataset == "fashion-mnist");
  settings.data_root.clear();  // a folder train of the working directory was not named
  CHECK_THROWS_AS(choose({.data_root = DataRoot::kImageFolder}, settings), CommandError);
}

TEST_CASE("defaults: what was given stays, and giving both leaves nothing to say") {
  Settings settings = with_dataset("mnist");
  CHECK(choose(kCpu, settings).dataset == "mnist");
  CHECK(choose(kCpu, settings).remark.find("mnist") ==
        std::string::npos);  // only the model was chosen
  settings.model = "resnet56";
  CHECK(choose(kGpu, settings).model == "resnet56");
  CHECK(choose(kGpu, settings).remark.empty());
}

TEST_CASE("defaults: complete fills every gap and touches nothing else") {
  Settings settings = with_dataset("cifar10");
  settings.model = "resnet18";
  settings.epochs = 3;
  settings.optimizer = "adamw";
  complete(settings, kCpu);
  CHECK(settings.epochs == 3);
  CHECK(settings.augment == "crop,flip");
  CHECK(settings.lr == 1e-3);
  CHECK(settings.weight_decay == 0.01);
  CHECK(settings.threads == 2);
  for (const Setting& setting : all_settings()) {
    CAPTURE(setting.key);
    const bool decided_with_the_device =
        setting.key == "tf32" || setting.key == "cudnn-benchmark" || setting.key == "pin-memory";
    const bool means_another =  // the rate of all layers; what each benchmark needs
        setting.key == "head-lr" || setting.key == "bias-lr" || setting.key == "seconds" ||
        setting.key == "search-per-engine";
    const bool decided_with_the_weights = setting.key == "stem";
    if (setting.key != "device" && setting.key != "progress" && !decided_with_the_device &&
        !means_another && !decided_with_the_weights)
      CHECK(value_text(settings, setting) != "auto");
  }
}

TEST_CASE("defaults: learning rate and weight decay suit model and optimiser") {
  struct Row {
    const char *model, *optimizer;
    double lr, weight_decay;
  };
  for (const auto& [model, optimizer, lr, weight_decay] : {Row{"resnet50", "sgd", 0.1, 5e-4},
                                                           {"vgg11", "sgd", 0.01, 5e-4},
                                                           {"vgg11_bn", "sgd", 0.1, 5e-4},
                                                           {"mobilenet_v2", "sgd", 0.05, 4e-5},
                                                           {"vit_s_16", "adamw", 5e-4, 0.05},
                                                           {"vit_s_16", "lamb", 0.01, 0.01}}) {
    Settings settings = with_dataset("cifar10");
    settings.model = model;
    settings.optimizer = optimizer;
    complete(settings, kCpu);
    CHECK(settings.lr == lr);
    CHECK(settings.weight_decay == weight_decay);
  }
}

TEST_CASE("defaults: a GPU multiplies in TF32, NHWC, by algorithms that were timed") {
  Settings settings;
  complete_for_gpu(settings);
  CHECK(settings.layout == "nhwc");
  CHECK(settings.tf32 == true);
  CHECK(settings.cudnn_benchmark == true);
  CHECK(settings.pin_memory == true);

  settings = {};
  settings.deterministic = true;  // what is timed may differ from run to run
  complete_for_gpu(settings);
  CHECK(settings.cudnn_benchmark == false);

  settings = {};
  settings.tf32 = settings.cudnn_benchmark = settings.pin_memory = false;
  complete_for_gpu(settings);
  CHECK(settings.tf32 == false);
  CHECK(settings.cudnn_benchmark == false);
  CHECK(settings.pin_memory == false);
}

TEST_CASE("defaults: a packed file is trained on as its images ask for") {
  struct Row {
    PackedKind kind;
    int64_t image_size;
    const char* augment;
  };
  for (const auto& [kind, image_size, augment] : {Row{{3, 32}, 32, "crop,flip"},
                                                  {{1, 28}, 28, "none"},
                                                  {{3, 256}, 256, "resized-crop,flip"},
                                                  {{3, 0}, 224, "resized-crop,flip"}}) {
    Machine machine = kCpu;
    machine.packed = kind;
    Settings settings;
    CHECK(choose_run(settings, machine).find("--data-root is a packed file") != std::string::npos);
    CHECK(settings.dataset == "packed");
    complete(settings, machine);
    CHECK(settings.image_size == image_size);
    CHECK(settings.augment == augment);
    CHECK(settings.data_cache == "none");
  }
}

TEST_CASE(
    "defaults: a folder of images is trained on in small batches, at a rate that suits them") {
  struct Row {
    int64_t images, batch;
    double lr;
  };
  for (const auto& [images, batch, lr] : {Row{150, 16, 0.0125},
                                          {256, 32, 0.025},
                                          {kMostCountedImages, 128, 0.1},
                                          {2, 8, 0.00625},
                                          {1, 8, 0.00625},
                                          {129, 20, 0.015625},  // 129 % 16 is 1
                                          {97, 20, 0.015625}}) {
    CAPTURE(images);
    for (Machine machine : {kCpu, kGpu}) {
      machine.folder_images = images;
      Settings settings = with_dataset("folder");
      settings.model = "resnet8";
      complete(settings, machine);
      CHECK(settings.batch_size == batch);
      CHECK(settings.lr == lr);
      CHECK(settings.image_size == (machine.has_cuda ? 224 : 64));
    }
  }
}

TEST_CASE("defaults: of a folder nothing is chosen that was given, or that weights decide") {
  Machine machine = kCpu;
  machine.folder_images = 150;
  const auto chosen = [&](const std::function<void(Settings&)>& give) {
    Settings settings = with_dataset("folder");
    settings.model = "resnet8";
    give(settings);
    const Settings asked = settings;
    complete(settings, machine);
    return folder_remark(asked, settings, machine);
  };
  CHECK(chosen([](Settings&) {}) ==
        "chosen for about 150 training images: --image-size 64, --batch-size 16, --lr 0.0125, "
        "--epochs 60");
  CHECK(chosen([](Settings& s) {
          s.image_size = 96;
          s.lr = 0.3;
          s.epochs = 5;
        }) == "chosen for about 150 training images: --batch-size 16");
  CHECK(chosen([](Settings& s) {
          s.batch_size = 4;
          s.image_size = 32;
          s.epochs = 1;
        }) == "chosen for about 150 training images: --lr 0.1");
  CHECK(chosen([](Settings& s) {
          s.optimizer = "adamw";
          s.image_size = 32;
          s.epochs = 1;
        }) == "chosen for about 150 training images: --batch-size 16, --lr 0.001");
  CHECK(chosen([](Settings& s) {
          s.weights = "w.pth";
          s.new_head = true;
          s.epochs = 1;
        }).empty());
  CHECK(chosen([](Settings& s) {
          s.accumulate = 8;
          s.image_size = 32;
          s.epochs = 1;
        }) == "chosen for about 150 training images: --batch-size 16, --lr 0.0125");
  CHECK(chosen([](Settings& s) {
          s.model = "resnet18";
          s.epochs = 1;
        }) ==
        "chosen for about 150 training images: --image-size 224, --batch-size 16, --lr 0.0125");
  CHECK(chosen([](Settings& s) { s.dataset = "cifar10"; }).empty());
  machine.folder_images = kMostCountedImages;
  CHECK(chosen([](Settings& s) {
          s.image_size = 64;
          s.lr = 1;
          s.epochs = 1;
        }) == "chosen for more than 1023 training images: --batch-size 128");
  machine.folder_images = 0;  // no training begins
  CHECK(chosen([](Settings&) {}).empty());
}

TEST_CASE("defaults: digits are not mirrored, nor clothes in a few epochs") {
  struct Row {
    const char* dataset;
    int64_t epochs;
    const char* augment;
  };
  for (const auto& [dataset, epochs, augment] : {Row{"mnist", 30, "none"},
                                                 {"fashion-mnist", 30, "flip"},
                                                 {"fashion-mnist", 3, "none"},
                                                 {"cifar100", 3, "crop,flip"},
                                                 {"synthetic", 30, "none"}}) {
    Settings settings = with_dataset(dataset);
    settings.model = "resnet8";
    settings.epochs = epochs;
    complete(settings, kCpu);
    CHECK(settings.augment == augment);
  }
}

TEST_CASE("defaults: grey images keep their size where the model takes it") {
  struct Row {
    const char *dataset, *model;
    int64_t image_size;
  };
  for (const auto& [dataset, model, image_size] : {Row{"mnist", "resnet8", 28},
                                                   {"fashion-mnist", "resnet18", 28},
                                                   {"fashion-mnist", "vgg11", 32},
                                                   {"cifar10", "resnet8", 32}}) {
    Settings settings = with_dataset(dataset);
    settings.model = model;
    complete(settings, kCpu);
    CHECK(settings.image_size == image_size);
  }
}
