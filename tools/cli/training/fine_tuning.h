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
/// for it. All other entries of the model must be in the file; further entries of the file are not
/// used. A command that has no flag --new-head passes no `new_head`; errors then do not name the
/// flag. `section`: the value of --weights-section.
/// → lines that say what was not loaded and which prefix was removed; often none
/// throws: CommandError (kData) if the file cannot be read or does not fit, naming the first
/// entries that do not fit; DataError if it is damaged; UsageError for a new head of a model that
/// consists only of a head.
std::vector<std::string> load_weights(nn::Module& model, const std::string& path,
                                      std::optional<bool> new_head = {},
                                      const std::string& section = {});

/// The numbers of classes and channels for which the model in `settings` has the weights of `file`.
/// If the weights are of another model, the numbers may be below 1. If --model is a file, its
/// numbers are known without this function (model_file.h).
/// throws: CommandError (kData) if the file cannot be read; DataError if it is damaged.
ModelShape shape_in_file(const Settings& settings, const std::string& file);

/// Chooses --model if it was not given: the program that `file` carries (model_file.h), or else the
/// model that has the names and shapes of the weights in `file`, for any number of classes. With an
/// empty `file`, or if no model has such entries, --model stays open.
/// → one line that says what was chosen; "" if nothing was
/// throws: CommandError (kData) if the file cannot be read; DataError if it is damaged.
std::string choose_model(Settings& settings, const std::string& file);

/// Chooses --stem if it was not given: the stem of the weights in `file`, known by their first
/// convolution. If the weights do not tell it, or `file` is empty, the image size decides. Needs
/// model and image size.
/// → one line that says what was chosen and why; "" if --stem was given or the model has no stem
/// throws: CommandError (kData) if the file cannot be read; DataError if it is damaged.
std::string choose_stem(Settings& settings, const std::string& file);

/// True if the entries come from a checkpoint of a run with --lora-rank.
bool has_adapters(const StateDict& entries);

/// The parts of a model that train.
struct Tuned {
  Frozen frozen = {};
  std::optional<nn::Lora> lora = {};
};
/// Freezes the layers that --freeze lists ("layer1,*.bn1"); "none" freezes nothing. With
/// --lora-rank it freezes everything except the head, and adds adapters to the layers of
/// --lora-targets outside the head. Call it before the optimiser takes the parameters.
/// throws: UsageError if nn::freeze() or nn::add_lora() refuses the settings, or if they need the
/// last layer and the model has no module that is its last layer.
Tuned tune(nn::Module& model, const Settings& settings);

/// If --freeze has frozen the whole head that --new-head made, a line that says so; otherwise "".
std::string frozen_head_remark(const nn::Module& model, const Settings& settings);

}  // namespace lathe::cli
