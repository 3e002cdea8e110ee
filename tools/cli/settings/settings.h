// Settings: all settings of `lathe`, in one table. A row is a flag (--batch-size), a key of a
// config file (batch-size) and an environment variable (LATHE_BATCH_SIZE) at once.
// settings_sources.h says where values come from and which wins; settings_table.cpp has the table.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

namespace lathe::cli {

// An absent optional means "auto": defaults.h chooses it.

/// Which images are used, and how they look.
struct DataSettings {
  std::optional<std::string> dataset;
  std::string data_root;
  bool download = false;
  int64_t synthetic_size = 10'000;
  std::optional<std::string> augment;
  std::optional<int64_t> image_size;
  bool skip_broken = false;
  double val_split = 0;
  std::string split = "test";

  bool operator==(const DataSettings&) const = default;
};

/// How batches are read.
struct LoadingSettings {
  std::optional<int64_t> workers;
  int64_t prefetch_factor = 2;
  std::optional<bool> pin_memory;
  std::optional<std::string> data_cache;
  bool drop_last = false;

  bool operator==(const LoadingSettings&) const = default;
};

struct CarriedProgram;  // training/model_file.h

/// Which model, with which weights.
struct ModelSettings {
  std::optional<std::string> model;
  std::optional<std::string> stem;
  std::string weights;
  std::string weights_section;
  bool new_head = false;
  std::string freeze;
  int64_t lora_rank = 0;
  double lora_alpha = 16;
  std::string lora_targets = "*";
  int64_t classes = 10;
  int64_t in_channels = 3;
  std::string input_size;
  // No flag: the program of a --model FILE that a checkpoint carries. Null: that file is read.
  std::shared_ptr<const CarriedProgram> program;

  bool operator==(const ModelSettings&) const = default;
};

/// How an update is computed from gradients.
struct OptimizerSettings {
  std::string optimizer = "sgd";
  std::optional<double> lr;
  std::optional<double> head_lr;
  std::optional<double> bias_lr;
  bool lr_scale_batch = false;
  std::optional<double> momentum;
  bool nesterov = false;
  std::string muon_rest = "adamw";
  double trust_coefficient = 0.02;
  std::optional<double> weight_decay;
  bool no_decay_norm = false;
  double label_smoothing = 0;
  double clip_grad_norm = 0;
  double ema = 0;
  std::optional<int64_t> batch_size;
  int64_t accumulate = 1;
  bool sync_batch_norm = false;

  bool operator==(const OptimizerSettings&) const = default;
};

/// How long a training lasts, and how its learning rate changes.
struct ScheduleSettings {
  std::string scheduler = "cosine";
  int64_t step_size = 30;
  std::string milestones;
  std::optional<double> gamma;
  int64_t restart_epochs = 10;
  int64_t restart_factor = 1;
  double power = 2;
  int64_t patience = 5;
  double warmup_epochs = 0;
  std::optional<int64_t> epochs;
  int64_t max_steps = 0;

  bool operator==(const ScheduleSettings&) const = default;
};

/// The number types in which a training computes.
struct PrecisionSettings {
  std::string amp = "off";
  std::string loss_scale = "dynamic";
  double init_scale = 65536;
  int64_t growth_interval = 2000;
  std::string dtype = "f32";
  std::optional<bool> tf32;
  bool deterministic = false;

  bool operator==(const PrecisionSettings&) const = default;
};

/// Where and how a training computes.
struct ComputeSettings {
  std::string device = "auto";
  std::optional<int64_t> threads;
  bool conv_exact = false;
  std::string layout = "nhwc";
  std::optional<bool> cudnn_benchmark;
  bool conv_fusion = true;
  std::optional<int64_t> search_per_engine;
  bool capture = true;
  bool recompute = false;
  int64_t workspace_limit = 1024;
  std::string algo_cache;
  int64_t seed = 0;
  int64_t seeds = 1;

  bool operator==(const ComputeSettings&) const = default;
};

/// What a run does besides its steps: evaluations, files, stops.
struct RunSettings {
  std::string run_dir;
  int64_t eval_every = 1;
  int64_t log_every = 50;
  double target_acc = 0;
  double time_limit = 0;
  int64_t early_stopping = 0;
  bool dry_run = false;
  std::string resume;
  bool allow_changes = false;
  int64_t save_every = 0;
  int64_t keep = 3;
  int64_t stop_after = 0;
  bool tensorboard = false;

  bool operator==(const RunSettings&) const = default;
};

/// Checks inside the steps of a training.
struct FaultSettings {
  bool profile = false;
  std::string profile_steps = "10:20";
  bool detect_anomaly = false;
  std::string sync = "off";
  bool check_determinism = false;
  bool layers = false;
  bool ranges = false;

  bool operator==(const FaultSettings&) const = default;
};

/// What find-lr, find-batch, bench and plan try, and for how long.
struct SearchSettings {
  double min_lr = 1e-5;
  double max_lr = 10;
  int64_t sweep_steps = 100;
  std::string csv;
  std::string svg;
  std::string gpu;
  double peak_gflops = 0;
  double peak_gbytes = 0;
  int64_t memory_limit = 0;
  int64_t max_batch = 65536;
  std::string write_config;
  int64_t steps = 20;
  std::optional<double> seconds;
  int64_t interrupt_at = 0;

  bool operator==(const SearchSettings&) const = default;
};

/// How a trained model is looked at, used and converted.
struct InferenceSettings {
  std::string index = "0:16";
  int64_t top = 5;
  std::string format = "text";
  std::string confusion;
  int64_t worst = 0;
  std::string worst_dir;
  int64_t clients = 1;
  bool compile = false;
  bool int8 = false;
  std::string calibration;
  int64_t calibration_images = 256;
  std::string keep_f32;
  std::string tta = "none";

  bool operator==(const InferenceSettings&) const = default;
};

/// The ranks of lathe launch.
struct LaunchSettings {
  int64_t ranks = 1;
  int64_t nodes = 1;
  int64_t node_rank = 0;
  std::string rendezvous;
  int64_t max_restarts = 0;
  double grace = 10;
  std::string log_dir;

  bool operator==(const LaunchSettings&) const = default;
};

/// What is shown and written.
struct OutputSettings {
  std::string progress = "auto";
  bool json = false;
  bool quiet = false;
  std::string output;
  bool evaluate = true;
  double interval = 2;
  bool once = false;

  bool operator==(const OutputSettings&) const = default;
};

/// All settings. A function that needs only one group of settings takes that group.
struct Settings : DataSettings,
                  LoadingSettings,
                  ModelSettings,
                  OptimizerSettings,
                  ScheduleSettings,
                  PrecisionSettings,
                  ComputeSettings,
                  RunSettings,
                  FaultSettings,
                  SearchSettings,
                  InferenceSettings,
                  LaunchSettings,
                  OutputSettings {
  std::string recipe = "none";  // or a name of training_recipes.h

  bool operator==(const Settings&) const = default;
};

/// The groups of the table: settings that commands take together (takes.h).
enum class Group {
  kNone,            // commands take the setting by its key
  kTraining,        // only a whole training has these: its length and rates, its folder, its stops
  kFineTuning,      // what of the weights is trained
  kGradients,       // from the loss to the gradient of a step
  kOptimizer,       // the update rule
  kImages,          // the data set
  kTrainingImages,  // how epochs of training differ from the data set as it is
  kBatch,           // how many images, how large, and the seed
  kSplit,           // which part of the data set
  kLoading,         // how batches are read
  kModel,           // the architecture
  kShape,           // input and output of a model without data
  kWeights,         // a file with weights
  kPrecision,       // half types and the order in memory
  kCompute,         // the device, and how it computes
  kOneStep,         // what train and bench step do with a step
  kStepChecks,
  kRoofline,  // what the device can do at most
  kConvolutions,
  kRangeTest,
  kLargestBatch,
  kPrediction,
  kMistakes,
  kInt8,
  kLooks,         // how often watch reads the run
  kTwoTrainings,  // the trainings that verify-resume compares
  kRanks,         // of launch
  kProgress,      // what is printed meanwhile
};

struct Setting {
  using Target = std::variant<bool Settings::*, int64_t Settings::*, double Settings::*,
                              std::string Settings::*, std::optional<bool> Settings::*,
                              std::optional<int64_t> Settings::*, std::optional<double> Settings::*,
                              std::optional<std::string> Settings::*>;

  std::string_view key;      // "batch-size"
  std::string_view heading;  // in --help
  Target target;
  Group group;
  std::string_view choices = {};                     // "sgd|adam": nothing else is allowed
  bool (*accepts)(std::string_view text) = nullptr;  // texts that are allowed beside the choices
  // What was meant by a text that is no choice; null, or where it returns "": the nearest choice.
  std::string (*hint)(std::string_view text) = nullptr;
  std::string_view unit = {};       // the placeholder of the value in --help; {}: the choices
  double min = 0, max = 1e300;      // of a number
  std::string_view automatic = {};  // what "auto" means, for --help
  std::string_view help;
  char letter = 0;  // 'n': -n is the flag, too

  bool is_switch() const {
    return std::holds_alternative<bool Settings::*>(target) ||
           std::holds_alternative<std::optional<bool> Settings::*>(target);
  }
};

std::span<const Setting> all_settings();

/// The row of a key; '_' is read as '-'. Null if there is none.
const Setting* find_setting(std::string_view key);

/// The environment variable of a setting: "LATHE_BATCH_SIZE".
std::string environment_name(const Setting& setting);

/// "; did you mean --data-root WORD?" if there is such a file or folder; else "".
std::string data_root_hint(std::string_view word);

/// Sets a value from its text. Errors call the source of the text `name`.
/// throws: UsageError for a text that is no value of the setting.
void assign(Settings& settings, const Setting& setting, std::string_view name,
            std::string_view text);

/// The value as text that assign() reads back; "auto" for an absent optional.
std::string value_text(const Settings& settings, const Setting& setting);

}  // namespace lathe::cli
