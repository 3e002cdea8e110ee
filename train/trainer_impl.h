// What a Trainer is made of.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lathe/nn/checkpoint.h"
#include "lathe/optim/ema.h"
#include "lathe/optim/scheduler.h"
#include "lathe/train/evaluate.h"
#include "lathe/train/ranks.h"
#include "lathe/train/run_checkpoints.h"
#include "lathe/train/run_folder.h"
#include "lathe/train/run_lock.h"
#include "lathe/train/run_memory.h"
#include "lathe/train/step_undo.h"
#include "lathe/train/tally.h"
#include "lathe/train/trainer.h"

namespace lathe::train {

/// What is trained, how, and who looks on.
struct Task {
  nn::Module& model;
  optim::Optimizer& optimizer;
  TrainerOptions options;
  LossFunction loss = {}, evaluation_loss = {};  // the second: that of the first if empty
  TallyOptions sums = {};                        // what is added up
  std::vector<std::shared_ptr<Observer>> observers = {};
};

/// Where a training is. A part of its checkpoints.
struct Position {
  int64_t epoch = 0, step = 0;
  int64_t batch = 0;        // batches of the epoch that an update has used
  int64_t rows = 0;         // of metrics
  bool epoch_open = false;  // the epoch has begun and not ended
  double last_lr = 0;
};

/// What evaluations have found. A part of the checkpoints but for `kept` and `seconds`.
struct Evaluated {
  bool now = false;  // since the last update
  double loss = 0;   // of the last evaluation, as the next two
  double value = 0;  // of the metric that chooses the best
  Values metrics = {};
  double best = -1;
  int64_t best_epoch = 0;           // 0: there was none
  std::optional<double> kept = {};  // of best.safetensors: `best`, or less good after going back
  double seconds = 0;               // that the last one took
};

/// The sums of a training.
struct Sums {
  Tally window;                // since the last row of metrics
  Tally epoch;                 // of the rows since the epoch began
  Tally evaluation;            // what evaluations that are launched add to
  int64_t window_samples = 0;  // of `window`, in window_seconds; without those before a resume
  double window_seconds = 0;
  int64_t samples = 0;  // since this process began, in `seconds`
  double seconds = 0;
};

/// The sources of batches; `validation` and `test` may be null.
struct Inputs {
  Batches *train = nullptr, *validation = nullptr, *test = nullptr;
};

/// What is on the disk.
struct RunFiles {
  std::filesystem::path folder = {};    // empty: nothing is written
  std::unique_ptr<RunLock> lock = {};   // on it, if fit() has found it
  bool goes_on = false;                 // the folder holds the run so far
  std::optional<RunFolder> saves = {};  // which state is good, what may overwrite what
  struct EndedEpoch {
    EpochReport report;
    size_t saves;  // that must be on the disk before it is told
  };
  std::deque<EndedEpoch> ended = {};
};

/// The metric that chooses the best, "loss" among them.
struct Monitor {
  std::string name = {};
  Better better = Better::kHigher;
};

/// Where the pass over the training batches is.
struct Reading {
  Tensors ahead = {};  // the next batch, if their number is not known
  bool over = false;   // no batch follows
};

/// What belongs to this process, and not to the run.
struct Process {
  using Clock = std::chrono::steady_clock;

  int64_t begin_step = 0, skipped_before = 0;  // of the run before it was resumed
  int64_t total_steps = 0;                     // at which the run ends
  bool inside_step = false;   // a batch is in use, or the sums of a row: no state to go on from
  bool told_to_stop = false;  // by stop()
  bool was_fit = false;       // fit() was called
  Clock::time_point began = Clock::now(), batch_began = Clock::now();
};

/// What the ranks of a training were asked for, any of them; the time is that of the first.
struct Requests {
  int signal = 0;
  bool save = false, time_is_over = false, stop = false;
};

struct Trainer::Impl {
  using Clock = Process::Clock;

  Impl(Trainer& self, nn::Module& model, optim::Optimizer& optimizer, TrainerOptions options);

  // --- trainer.cpp: the loop ----
  FitResult fit(Batches& train, Batches* validation, Batches* test);
  FitResult run();
  void begin_epoch();
  void train_epoch();
  void train_batches();
  bool take_batch(Pass& pass, Tensors& batch);
  void step_batch(const Tensors& batch);
  Result forward(const Tensors& batch);
  void update();
  void after_step();
  void end_epoch();
  void save(const char* name);
  bool window_is_finite();
  std::optional<End> ends() const;
  bool pauses() const;
  void say_not_recorded(const char* what);
  double seconds() const;
  double data_wait() const;  // part of the training time spent waiting for batches
  double save_wait() const;  // part of the whole time spent in RunFolder

  // --- trainer_start.cpp ----
  void prepare();  // makes the step, once loss and metrics are known
  std::filesystem::path folder_asked_for() const;
  std::optional<FoundCheckpoint> find_checkpoint();
  void find_start();
  void take_state(const Checkpoint& checkpoint, const std::string& name);
  void open();

  // --- trainer_state.cpp ----
  CheckpointParts parts();
  Checkpoint checkpoint();
  StateDict state_dict() const;
  void load_state_dict(const StateDict& state);
  std::vector<std::string> metric_names() const;
  int64_t resume(const Checkpoint& from, const std::string& name, const Unchanged& same);
  std::vector<std::string> misfits(const Checkpoint& from);

  // --- trainer_rows.cpp ----
  double monitored(const MetricsRow& row) const;
  MetricsRow complete(MetricsRow row);
  void write_window();
  void tell_epochs();
  ProgressState progress() const;
  void say(MessageKind kind, const std::string& text);
  /// Calls `call` with each observer.
  template <class Call>
  void tell(Call call) {
    for (const std::shared_ptr<Observer>& each : task.observers) call(*each);
  }

  // --- trainer_evaluate.cpp ----
  bool evaluates_after(int64_t epoch) const;
  bool stops_early() const;
  void evaluate_now();
  std::optional<Evaluation> evaluate_test();

  // --- trainer_end.cpp ----
  FitResult finish();
  FitResult pause();
  FitResult result(End end) const;
  void save_to_go_on();
  [[noreturn]] void fail_diverged(const char* split, double loss);
  [[noreturn]] void end_at_good_state(DivergedError::Kind kind, const std::string& why,
                                      bool all_ranks_know = false);
  std::string saved_text(int64_t good) const;
  bool save_if_good();
  void save_after_error();

  // --- trainer_ranks.cpp ----
  bool on_ranks() const { return !ranks.alone(); }
  RankSums begin_to_agree(const Tally& tally, bool complete);
  std::vector<double> agree(RankSums sums);
  void backward_on_ranks(const Result& result);
  Evaluation evaluate_on(Batches& batches, bool may_launch);
  std::pair<bool, Checkpoint> chosen_weights();
  void meet_over_gpus() const;
  bool take_save_request();
  bool asked_to_stop() const;
  int signal() const;
  bool asked_by_signal() const;

  optim::GradScaler& scaler() const { return step->scaler(); }
  optim::LRScheduler& schedule() {
    return task.options.schedule != nullptr ? *task.options.schedule : *constant;
  }

  Trainer& self;
  Task task;
  Device device;
  Ranks ranks;
  Inputs inputs;
  std::optional<optim::EMA> ema;
  std::unique_ptr<Step> step;
  std::unique_ptr<optim::LRScheduler> constant;  // where there is no other schedule
  RunFiles files;
  RunMemory memory;
  StepUndo undo;  // of the step that has begun, on a CPU
  Monitor monitor;
  Position at;
  Evaluated evaluated;
  Sums sums;
  Requests agreed;
  Reading reading;
  Process here;
};

}  // namespace lathe::train
