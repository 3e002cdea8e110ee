// Defaults by data set, model and machine. Contracts: defaults.h.
#include "lathe/tools/cli/settings/defaults.h"

#include <algorithm>
#include <vector>

#include "lathe/core/text/formatted.h"
#include "lathe/nn/models.h"
#include "lathe/tools/cli/exit_codes.h"
#include "lathe/tools/cli/settings/models.h"
#include "lathe/tools/cli/shell_word.h"

namespace lathe::cli {
namespace {

// On a CPU with two cores: visible learning within half a minute, 90 % or more after about a
// minute. Batches of 64 learn in two epochs what batches of 128 need three for
// (docs/results/default-run.json).
constexpr std::string_view kCpuDataset = "fashion-mnist", kCpuModel = "resnet8";
constexpr std::string_view kGpuDataset = "cifar10", kGpuModel = "resnet18";
constexpr int64_t kGreyImages = 28, kSmallImages = 32;
// The large stem makes 4 x 4 pixels one: of 64 x 64 images it would leave the last layers 2 x 2.
constexpr int64_t kSmallStemSide = 64;
constexpr int64_t kMostPaddedSide = 96;  // larger images gain more from crops of many scales
constexpr int64_t kUsualBatch = 128;
constexpr int64_t kGreyEpochs = 2, kGreyBatch = 64;  // on a CPU
constexpr int64_t kSyntheticEpochs = 3, kEpochs = 30;
constexpr int64_t kMostUnmirroredEpochs = 3;
// Of a folder of images (docs/results/own-images.json).
constexpr int64_t kFolderSideOnCpu = 64, kFolderSteps = 8, kLeastFolderBatch = 8;
constexpr int64_t kSmallFolderEpochs = 60;

struct Step {
  double lr, weight_decay;
};
/// Where a family of models departs from its optimiser's usual numbers.
struct FamilyStep {
  std::string_view family,
      optimizer;  // the model's name begins with `family`; the first row counts
  Step step;
};
constexpr FamilyStep kFamilySteps[] = {
    {"vgg11_bn", "sgd", {0.1, 5e-4}},    {"vgg13_bn", "sgd", {0.1, 5e-4}},
    {"vgg16_bn", "sgd", {0.1, 5e-4}},    {"vgg19_bn", "sgd", {0.1, 5e-4}},
    {"vgg", "sgd", {0.01, 5e-4}},  // 0.1 diverges without batch norm
    {"mobilenet", "sgd", {0.05, 4e-5}},  {"efficientnet", "sgd", {0.05, 4e-5}},
    {"convnext", "sgd", {0.01, 5e-4}},   {"vit", "sgd", {0.01, 5e-4}},
    {"convnext", "adamw", {5e-4, 0.05}}, {"vit", "adamw", {5e-4, 0.05}},
    {"convnext", "muon", {1e-3, 0.05}},  {"vit", "muon", {1e-3, 0.05}},
};

Step step_of(std::string_view model, std::string_view optimizer) {
  for (const auto& [family, with, step] : kFamilySteps) {
    if (model.starts_with(family) && optimizer == with) return step;
  }
  if (optimizer == "sgd") return {0.1, 5e-4};
  if (optimizer == "adamw") return {1e-3, 0.01};
  if (optimizer == "lars") return {1, 5e-4};
  if (optimizer == "lamb") return {0.01, 0.01};
  if (optimizer == "novograd") return {0.01, 1e-3};
  if (optimizer == "adagrad" || optimizer == "adafactor") return {0.01, 0};
  if (optimizer == "adadelta") return {1, 0};
  if (optimizer == "adamax" || optimizer == "nadam") return {2e-3, 0};
  if (optimizer == "lion") return {1e-3, 0.01};
  if (optimizer == "muon") return {0.01, 0.01};
  return {1e-3, 0};
}

bool is_grey(std::string_view dataset) { return dataset == "mnist" || dataset == "fashion-mnist"; }

// resnet8 to resnet56, whose time grows with the pixels of an image. The others have a first layer
// that leaves as many pixels of a large image as of a small one.
bool is_small_resnet(std::string_view model) {
  const nn::ModelKind* const kind = nn::find_model_kind(model);
  return kind != nullptr && model.starts_with("resnet") && !kind->has_stem;
}

// About an eighth of the images. Not so that a last batch has one image, because a batch norm
// cannot take it.
int64_t folder_batch(int64_t images) {
  int64_t batch = kLeastFolderBatch;
  while (2 * batch * kFolderSteps <= images && batch < kUsualBatch) batch *= 2;
  while (images > batch && images % batch == 1) batch += kLeastFolderBatch / 2;
  return batch;
}

// Weights, and the program of a file, come with the size and the rate that they were made for.
bool is_begun(const Settings& settings) {
  return !settings.weights.empty() || settings.program || is_model_file(*settings.model);
}

void complete_for_folder(Settings& settings, const Machine& machine) {
  if (is_begun(settings)) return;
  if (!settings.image_size && !machine.has_cuda && is_small_resnet(*settings.model))
    settings.image_size = kFolderSideOnCpu;
  if (!settings.epochs && machine.folder_images < kMostCountedImages)
    settings.epochs = kSmallFolderEpochs;
  if (settings.batch_size) return;
  settings.batch_size = folder_batch(machine.folder_images);
  if (settings.lr || settings.optimizer != "sgd" || settings.lr_scale_batch) return;
  settings.lr = step_of(*settings.model, "sgd").lr * static_cast<double>(*settings.batch_size) /
                static_cast<double>(kUsualBatch);
}

int64_t image_size_for(std::string_view dataset, std::string_view model, const Machine& machine) {
  // A ResNet takes them as they are. Other families halve images five times, so they need 32.
  if (is_grey(dataset) && model.starts_with("resnet")) return kGreyImages;
  if (dataset == "folder") return kFolderImageSize;
  if (dataset == "packed") {
    const int64_t side = machine.packed ? machine.packed->side : 0;
    return side == 0 ? kFolderImageSize : side;
  }
  return kSmallImages;
}

std::string_view augment_for(std::string_view dataset, int64_t epochs, const Machine& machine) {
  if (dataset == "packed") {
    const PackedKind kind = machine.packed.value_or(PackedKind{});
    if (kind.side == 0 || kind.side > kMostPaddedSide) return "resized-crop,flip";
    return kind.channels == 3 ? "crop,flip" : "none";
  }
  if (dataset == "folder") return "resized-crop,flip";
  if (dataset.starts_with("cifar")) return "crop,flip";
  // Three epochs of Fashion-MNIST end a point lower if images are mirrored.
  if (dataset == "fashion-mnist" && epochs > kMostUnmirroredEpochs) return "flip";
  // A mirrored digit is another digit or none, and the synthetic set is random enough.
  return "none";
}

std::string no_data_set(const std::string& root, const Machine& machine) {
  if (!root.empty() && machine.data_root == DataRoot::kMissing)
    return formatted("--data-root {}: no such file or folder", root);
  return formatted(
      "no data set found{}{}: get one with `{}` or `apt-get install "
      "dataset-fashion-mnist`, name {} with --data-root, or use --dataset synthetic",
      root.empty() ? "" : formatted(" in --data-root {}", root),
      machine.other_form.empty() ? "" : formatted(" ({})", machine.other_form),
      fetch_command("cifar10", root), root.empty() ? "its place" : "another place");
}

}  // namespace

std::string fetch_command(std::string_view dataset, const std::string& root) {
  return formatted("lathe data fetch {}{}", dataset,
                   root.empty() ? "" : " --data-root " + shell_word(root));
}

std::string choose_run(Settings& settings, const Machine& machine) {
  std::string why;
  const bool chose_dataset = !settings.dataset.has_value(),
             chose_model = !settings.model.has_value();
  if (chose_dataset) {
    if (machine.packed) {
      settings.dataset = "packed";
      why = "--data-root is a packed file";
    } else if (machine.has_cuda && machine.cifar10_found) {
      settings.dataset = kGpuDataset;
      why = "a GPU is there";
    } else if (machine.fashion_mnist_found) {
      settings.dataset = kCpuDataset;
      why = machine.has_cuda ? "CIFAR-10 was not found and could not be fetched"
                             : "no GPU, and this suits a CPU";
    } else if (machine.cifar10_found) {
      settings.dataset = kGpuDataset;
      why = "no GPU, and Fashion-MNIST was not found";
    } else if (!settings.data_root.empty() && machine.data_root == DataRoot::kImageFolder) {
      settings.dataset = "folder";
      why = "--data-root holds folders of images";
    } else {
      throw CommandError(ExitCode::kData, no_data_set(settings.data_root, machine));
    }
  }
  if (chose_model) {
    settings.model = machine.has_cuda ? kGpuModel : kCpuModel;
    if (why.empty()) why = machine.has_cuda ? "a GPU is there" : "no GPU, and this suits a CPU";
  }
  if (chose_dataset && chose_model) {
    return formatted("chosen: {} on {} ({}); --model and --dataset choose others", *settings.model,
                     *settings.dataset, why);
  }
  if (chose_dataset)
    return formatted("chosen: {} ({}); --dataset chooses another", *settings.dataset, why);
  if (chose_model)
    return formatted("chosen: {} ({}); --model chooses another", *settings.model, why);
  return "";
}

std::string_view stem_for(int64_t image_size) {
  return image_size <= kSmallStemSide ? "cifar" : "imagenet";
}

int64_t usual_batch(std::string_view dataset, bool has_cuda) {
  return is_grey(dataset) && !has_cuda ? kGreyBatch : kUsualBatch;
}

double usual_momentum(std::string_view optimizer) { return optimizer == "muon" ? 0.95 : 0.9; }

double usual_gamma(std::string_view scheduler) { return scheduler == "exponential" ? 0.95 : 0.1; }

int64_t batch_of_rank(int64_t batch_size, int64_t ranks) {
  const int64_t each = batch_size / ranks, rest = batch_size % ranks;
  if (rest == 0) return each;
  throw UsageError(formatted(
      "--batch-size {} is for all ranks together, and {} ranks cannot share it equally; {}{} can",
      batch_size, ranks, each > 0 ? formatted("{} or ", each * ranks) : "", (each + 1) * ranks));
}

void complete(Settings& settings, const Machine& machine) {
  const std::string& dataset = *settings.dataset;
  const bool grey_on_cpu = is_grey(dataset) && !machine.has_cuda;
  if (dataset == "folder" && machine.folder_images > 0) complete_for_folder(settings, machine);
  if (!settings.epochs) {
    const bool synthetic_on_cpu = dataset == "synthetic" && !machine.has_cuda;
    settings.epochs = grey_on_cpu ? kGreyEpochs : synthetic_on_cpu ? kSyntheticEpochs : kEpochs;
  }
  if (!settings.image_size) settings.image_size = image_size_for(dataset, *settings.model, machine);
  if (!settings.augment) settings.augment = augment_for(dataset, *settings.epochs, machine);
  if (!settings.data_cache) {
    const bool small_files = dataset != "folder" && dataset != "packed" && dataset != "synthetic";
    settings.data_cache = small_files ? "ram" : "none";
  }
  if (!settings.batch_size) settings.batch_size = usual_batch(dataset, machine.has_cuda);
  const auto& [lr, weight_decay] = step_of(title_of_model(*settings.model), settings.optimizer);
  // Weights that are good already are changed less.
  if (!settings.lr) settings.lr = settings.new_head ? lr / 10 : lr;
  if (!settings.weight_decay) settings.weight_decay = weight_decay;
  if (!settings.momentum) settings.momentum = usual_momentum(settings.optimizer);
  if (!settings.gamma) settings.gamma = usual_gamma(settings.scheduler);
  if (!settings.threads) settings.threads = machine.usable_cpus;
  if (!settings.workers) settings.workers = 1;
}

std::string folder_remark(const Settings& asked, const Settings& chosen, const Machine& machine) {
  if (chosen.dataset != "folder" || machine.folder_images == 0 || is_begun(chosen)) return "";
  std::vector<std::string> flags;
  if (!asked.image_size) flags.push_back(formatted("--image-size {}", *chosen.image_size));
  if (!asked.batch_size) flags.push_back(formatted("--batch-size {}", *chosen.batch_size));
  if (!asked.lr) flags.push_back(formatted("--lr {}", number_text(*chosen.lr)));
  if (!asked.epochs) flags.push_back(formatted("--epochs {}", *chosen.epochs));
  if (flags.empty()) return "";
  const bool all = machine.folder_images < kMostCountedImages;
  return formatted("chosen for {} {} training images: {}", all ? "about" : "more than",
                   all ? machine.folder_images : kMostCountedImages - 1, joined(flags, ", "));
}

void complete_for_gpu(Settings& settings) {
  if (!settings.tf32) settings.tf32 = true;
  if (!settings.cudnn_benchmark) settings.cudnn_benchmark = !settings.deterministic;
  if (!settings.pin_memory) settings.pin_memory = true;
}

}  // namespace lathe::cli
