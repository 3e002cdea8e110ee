// Fine-tuning: training that begins with weights of a file. Which weights are loaded, and which
// parameters stay as they are, by the settings (nn/fine_tuning.h).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/nn/fine_tuning.h"
#include "lathe/nn/lora.h"
#include "lathe/nn/module.h"
#include "lathe/tools/cli/settings/settings.h"
#include "lathe/tools/cli/training/compute.h"

namespace lathe::cli {

using nn::Frozen, nn::head_of, nn::is_below, nn::split_by_head;

/// Loads a weights file, a checkpoint or the weights of a graph (graph_file.h) or program (.pt2)
/// into the model, all or nothing. With `new_head` the head keeps its values, whatever the file has
/// for it. All other entries of the model must be in the file; what else the file has is not used.
/// A command without --new-head gives none: its errors do not name the flag. `section`: that of
/// --weights-section.
/// → lines that say what was not loaded and which prefix was taken off; often none
/// throws: CommandError (kData) if the file cannot be read or does not fit, naming the first
/// entries that do not; DataError if it is damaged; UsageError for a new head of a model that has
/// nothing else.
std::vector<std::string> load_weights(nn::Module& model, const std::string& path,
                                      std::optional<bool> new_head = {},
                                      const std::string& section = {});

/// The classes and channels for which the model in `settings` has the weights of `file`; not always
/// 1 or more if it is another model. Those of a file as --model are known without (model_file.h).
/// throws: CommandError (kData) if the file cannot be read; DataError if it is damaged.
ModelShape shape_in_file(const Settings& settings, const std::string& file);

/// Chooses --model if it was not given: the one that has the names and shapes of the weights in
/// `file`, for any number of classes. With an empty `file`, or if no model has such entries, it
/// stays open.
/// → one line that says so; "" if nothing was chosen
/// throws: CommandError (kData) if the file cannot be read; DataError if it is damaged.
std::string choose_model(Settings& settings, const std::string& file);

/// Chooses --stem if it was not given: that of the weights in `file`, which their first convolution
/// tells; otherwise, or with an empty `file`, that for the image size. Needs model and image size.
/// → one line that says what was chosen and why; "" if it was given or the model has no stem
/// throws: CommandError (kData) if the file cannot be read; DataError if it is damaged.
std::string choose_stem(Settings& settings, const std::string& file);

/// Whether the entries of a checkpoint are those of a run with --lora-rank.
bool has_adapters(const StateDict& entries);

/// What of a model trains.
struct Tuned {
  Frozen frozen = {};
  std::optional<nn::Lora> lora = {};
};
/// Freezes what --freeze lists, "layer1,*.bn1"; "none" is nothing. With --lora-rank it freezes all
/// but the head and adds adapters to the layers of --lora-targets outside the head. Call it before
/// the optimiser takes the parameters.
/// throws: UsageError for what nn::freeze() and nn::add_lora() refuse.
Tuned tune(nn::Module& model, const Settings& settings);

/// A line that says so if --freeze has frozen the whole head that --new-head made; otherwise "".
std::string frozen_head_remark(const nn::Module& model, const Settings& settings);

}  // namespace lathe::cli
