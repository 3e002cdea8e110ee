// The automatic choices: which data set and model suit the machine, and how to train them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lathe/tools/cli/settings/settings.h"

namespace lathe::cli {

/// --image-size of folders of images, unless it is given.
inline constexpr int64_t kFolderImageSize = 224;

/// The training images of a packed file.
struct PackedKind {
  int64_t channels = 3;
  int64_t side = 0;  // if all are squares of one size; 0: they are not
};

/// What --data-root is, if it is neither a packed file nor the place of a published data set;
/// kImageFolder: it holds images, whether their folders are understood or not
/// (training/folder_images.h).
enum class DataRoot { kOther, kMissing, kImageFolder };

/// The facts that the choices depend on.
struct Machine {
  bool has_cuda = false;  // and --device allows it
  int usable_cpus = 1;
  bool cifar10_found = false;             // or may be downloaded
  bool fashion_mnist_found = false;       // or may be downloaded
  std::optional<PackedKind> packed = {};  // --data-root is a packed file
  DataRoot data_root = DataRoot::kOther;
  std::string other_form = {};  // data::other_form_of() CIFAR-10, or CIFAR-100
};

/// The command that brings a published data set to where --data-root finds it.
std::string fetch_command(std::string_view dataset, const std::string& root);

/// Chooses dataset and model if they were not given.
/// → one line that says what was chosen and why; "" if both were given
/// throws: CommandError (kData) saying how to get a data set if none is found.
std::string choose_run(Settings& settings, const Machine& machine);

/// The stem for images of this many rows and columns: "cifar" or "imagenet".
std::string_view stem_for(int64_t image_size);

/// --batch-size where it was not given; of grey images on a CPU it is smaller.
int64_t usual_batch(std::string_view dataset, bool has_cuda);

/// The samples of each batch that a rank computes: --batch-size is for all ranks together.
/// throws: UsageError if the ranks cannot share it equally.
int64_t batch_of_rank(int64_t batch_size, int64_t ranks);

/// Chooses every other open setting except those of complete_for_gpu, and the stem, which weights
/// may decide (choose_stem of training/fine_tuning.h); needs dataset and model.
void complete(Settings& settings, const Machine& machine);

/// Chooses how a GPU computes. On a CPU these settings stay open, so that a config file from there
/// can be used on a GPU too. By default f32 products are rounded to TF32, and the engines of
/// convolutions are timed unless the run must be deterministic.
void complete_for_gpu(Settings& settings);

}  // namespace lathe::cli
