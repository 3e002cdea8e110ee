// Fills in what was not said: which data set and model suit the machine, and how to train them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lathe/tools/cli/settings/settings.h"

namespace lathe::cli {

/// The images of a packed file, for training.
struct PackedKind {
  int64_t channels = 3;
  int64_t side = 0;  // of all of them, which are square; 0: they are not
};

/// What --data-root names, if it is neither a packed file nor holds a published data set.
enum class DataRoot { kOther, kMissing, kImageFolder };

/// What a choice depends on.
struct Machine {
  bool has_cuda = false;  // and --device does not forbid it
  int usable_cpus = 1;
  bool cifar10_found = false;             // or may be fetched
  bool fashion_mnist_found = false;       // or may be fetched
  std::optional<PackedKind> packed = {};  // --data-root is a packed file
  DataRoot data_root = DataRoot::kOther;
};

/// Makes dataset and model definite. → one line that says what was chosen and why; "" if both were
/// given.
/// throws: CommandError (kData) telling how to get a data set if none is found.
std::string choose_run(Settings& settings, const Machine& machine);

/// Makes every other setting definite but for complete_for_gpu's; needs dataset and model.
void complete(Settings& settings, const Machine& machine);

/// Makes definite how a GPU computes; on a CPU these settings stay open, so that a config file from
/// there serves a GPU too. f32 products are rounded to TF32, and the algorithms of convolutions are
/// timed unless the run must be deterministic.
void complete_for_gpu(Settings& settings);

/// True for the families of models that take images of 32 x 32 and are small: resnet8 … resnet56.
bool is_cifar_resnet(std::string_view model);

}  // namespace lathe::cli
