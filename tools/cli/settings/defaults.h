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

/// The training images of a folder are counted up to here. More of them change no choice.
inline constexpr int64_t kMostCountedImages = 1024;

/// The training images of a packed file.
struct PackedKind {
  int64_t channels = 3;
  int64_t side = 0;  // rows and columns of every image; 0: they are not all squares of one size
};

/// What --data-root names, if it is neither a packed file nor the folder of a published data set.
/// kMissing: nothing exists there. kImageFolder: a folder that holds images, in any layout. kOther:
/// anything else, or --data-root is not given.
enum class DataRoot { kOther, kMissing, kImageFolder };

/// The facts about a machine on which the choices depend.
struct Machine {
  bool has_cuda = false;  // and --device allows it
  int usable_cpus = 1;
  bool cifar10_found = false;             // or may be downloaded
  bool fashion_mnist_found = false;       // or may be downloaded
  std::optional<PackedKind> packed = {};  // --data-root is a packed file
  DataRoot data_root = DataRoot::kOther;
  // Training images in --data-root, a folder, up to kMostCountedImages; 0: they are not counted,
  // because no training begins or several ranks train.
  int64_t folder_images = 0;
  std::string other_form = {};  // data::other_form_of(CIFAR-10), or if that is empty (CIFAR-100)
};

/// The command that downloads a published data set to where `root`, a --data-root, finds it.
std::string fetch_command(std::string_view dataset, const std::string& root);

/// Chooses dataset and model if they were not given.
/// → one line that says what was chosen and why; "" if both were given
/// throws: CommandError (kData) saying how to get a data set if none is found.
std::string choose_run(Settings& settings, const Machine& machine);

/// The stem for images of this many rows and columns: "cifar" or "imagenet".
std::string_view stem_for(int64_t image_size);

/// The batch size if --batch-size was not given. It is smaller for grey images on a CPU.
int64_t usual_batch(std::string_view dataset, bool has_cuda);
/// The --momentum of a training with this --optimizer, if the flag is not given.
double usual_momentum(std::string_view optimizer);
/// The --gamma of a training with this --scheduler, if the flag is not given.
double usual_gamma(std::string_view scheduler);

/// The samples of each batch that one rank computes. `batch_size` is that of all ranks together.
/// throws: UsageError if the ranks cannot share it equally.
int64_t batch_of_rank(int64_t batch_size, int64_t ranks);

/// Chooses all other open settings. Dataset and model must be set. For a training on a folder of
/// images (Machine::folder_images)
///   - batches are about an eighth of the images, but at least 8;
///   - without --lr, the learning rate of SGD is as much smaller as the batches that it chose;
///   - a small ResNet on a CPU gets images of 64 x 64;
///   - fewer images get more epochs.
/// Two things stay open: what
/// complete_for_gpu() chooses, and the stem, which weights may determine (choose_stem of
/// training/fine_tuning.h).
void complete(Settings& settings, const Machine& machine);

/// What complete() has chosen for a training on a folder of images, as flags:
/// "chosen for about 150 training images: --image-size 64, --batch-size 16". "" for other data.
///   asked  the settings before complete()
std::string folder_remark(const Settings& asked, const Settings& chosen, const Machine& machine);

/// Chooses the open settings of a GPU: TF32 and page-locked memory are on, and convolution engines
/// are timed unless the run must be deterministic. Do not call it on a CPU: a config file written
/// on a CPU then leaves these settings open, and can be used on a GPU.
void complete_for_gpu(Settings& settings);

}  // namespace lathe::cli
