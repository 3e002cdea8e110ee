// lathe doctor: what slows a training down. Checks the settings and the model, makes some profiled
// steps, and times the fixes that are flags.
#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lathe/core/cuda.h"
#include "lathe/core/hooks/memory_use.h"
#include "lathe/core/text/formatted.h"
#include "lathe/profile/profiler.h"
#include "lathe/tools/cli/observe/doctor_checks.h"
#include "lathe/tools/cli/output.h"
#include "lathe/tools/cli/settings/command.h"
#include "lathe/tools/cli/settings/defaults.h"
#include "lathe/tools/cli/signals.h"
#include "lathe/tools/cli/training/compute.h"
#include "lathe/tools/cli/training/datasets.h"
#include "lathe/tools/cli/training/fine_tuning.h"
#include "lathe/tools/cli/training/folder_images.h"
#include "lathe/tools/cli/training/model_file.h"
#include "lathe/tools/cli/training/trial.h"

namespace lathe::cli {
namespace {

constexpr int64_t kSecondsForFixes = 90;  // a fix that would take longer is not timed
constexpr int kFixRounds = 3;             // of steps without and with a fix

/// Why the GPU that the configuration asks for is not here; "" if it is, or a CPU will do.
std::string missing_gpu(Settings settings) {
  if (!settings.device.starts_with("cuda")) return {};
  try {
    prepare_compute(settings);
    return {};
  } catch (const CommandError& e) {
    if (e.code() != ExitCode::kDevice || cuda_is_available()) throw;  // a wrong number
    return e.what();
  }
}

/// Chooses what is open, for the machine of the configuration: here, or one with a GPU.
/// → what to say of it, "" for what was not open
std::array<std::string, 2> choose(Settings& settings, bool gpu_is_missing) {
  std::string model = choose_model(settings, settings.weights);
  take_model_file(settings);
  Settings seen = settings;
  if (gpu_is_missing) seen.device = "cpu";
  Machine machine = look_around(seen);
  machine.has_cuda = machine.has_cuda || gpu_is_missing;
  std::string run = choose_run(settings, machine);
  machine.folder_images = count_folder_images(settings);
  complete(settings, machine);
  choose_stem(settings, settings.weights);
  if (gpu_is_missing) complete_for_gpu(settings);
  return {std::move(run), std::move(model)};
}

/// Warns of what a training warns of, too.   → biases_before_norm()
std::vector<std::string> look_at_model(const Settings& settings, const data::ImageDataset& images) {
  const auto model =
      make_empty_model(settings, {.classes = images.classes(), .in_channels = images.channels()});
  Log log(settings.quiet);
  warn_of_probabilities(*model, settings, log);
  return biases_before_norm(*model);
}

/// Watches the counted steps of a trial.
class Watched {
 public:
  Watched(int64_t steps, Device device) : steps_(steps), device_(device) {}

  void begin() {
    profile::reset_memory_peak(device_);
    profiler_.emplace(profile::ProfilerOptions{});
    sync_.emplace(debug::SyncMode::kCount);
  }

  void after_step(const nn::Module& model) {
    profiler_->step();
    if (++facts_.steps < steps_) return;
    profiler_->stop();
    facts_.waits = sync_->places();
    sync_.reset();
    for (const Tensor& p : model.parameters()) facts_.zeroed_grads += p.grad().defined() ? 1 : 0;
  }

  StepFacts facts(const TrialTimes& times, bool images_stay) {
    facts_.seconds = times.per_step();
    facts_.data_wait = std::min(times.wait_seconds / times.seconds, 1.0);
    const profile::Averages averages = profiler_->key_averages();
    int64_t sync_ns = 0;
    for (const profile::Average& row : averages.rows()) {
      if (row.kind == profile::Kind::kSync) sync_ns += row.self_cpu_ns;
    }
    facts_.sync_wait = std::min(1e-9 * static_cast<double>(sync_ns) / times.seconds, 1.0);
    if (const profile::Average* zero = averages.find("zero_grad"))
      facts_.zeroing =
          std::min(1e-9 * static_cast<double>(zero->cpu_total_ns) / times.seconds, 1.0);
    const profile::MemoryUse memory = profile::memory_use(device_);
    using Tag = profile::MemoryTag;
    facts_.peak_bytes = memory.peak;
    for (const Tag tag : {Tag::kWeights, Tag::kGradients, Tag::kOptimizer})
      facts_.fixed_bytes += memory.of_peak(tag);
    if (images_stay) facts_.fixed_bytes += memory.of_peak(Tag::kData);
    return facts_;
  }

 private:
  const int64_t steps_;
  const Device device_;
  std::optional<profile::Profiler> profiler_;
  std::optional<debug::SyncCheck> sync_;
  StepFacts facts_;
};

StepFacts look_at_steps(const Settings& settings, Device device, const TrialData& data) {
  Watched watched(settings.steps, device);
  const TrialTimes times =
      try_training(settings, data,
                   {.steps = settings.steps,
                    .when_warm = [&] { watched.begin(); },
                    .after_step = [&](nn::Module& model) { watched.after_step(model); }});
  return watched.facts(times, settings.data_cache == "gpu");
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

using Clock = std::chrono::steady_clock;

/// How many times as fast the steps are with the fix: medians of alternating trials, one pair at
/// least and no further one after `end`.
double gain_of(const Settings& settings, const Settings& mended, const TrialData& data,
               int64_t steps, Clock::time_point end) {
  const TrialData other = settings.data_cache == mended.data_cache ? data : open_trial_data(mended);
  std::vector<double> before, after;
  for (int i = 0; i < kFixRounds && (i == 0 || Clock::now() < end); ++i) {
    before.push_back(try_training(settings, data, {.steps = steps}).per_step());
    after.push_back(try_training(mended, other, {.steps = steps}).per_step());
  }
  return median(std::move(before)) / median(std::move(after));
}

void time_fixes(Diagnosis& diagnosis, const Facts& facts, const TrialData& data) {
  const int64_t steps = std::max<int64_t>(facts.step.steps / 4, 2);
  const auto end = Clock::now() + std::chrono::seconds(kSecondsForFixes);
  const std::chrono::duration<double> pair(2 * static_cast<double>(steps + 2) * facts.step.seconds);
  for (Finding& finding : diagnosis.findings) {
    const Check& check = doctor_check(finding.check);
    if (finding.measured || check.mend == nullptr || Clock::now() + pair > end) continue;
    Settings mended = facts.settings;
    check.mend(mended, facts.machine);
    finding.gain = gain_of(facts.settings, mended, data, steps, end);
    finding.measured = true;
  }
  settle(diagnosis);
}

void print_steps(const Facts& facts, Device device, const Output& out) {
  const Settings& s = facts.settings;
  out.row(Row()
              .add("event", "steps")
              .add("steps", facts.step.steps)
              .add("seconds", facts.step.seconds)
              .add("data_wait", facts.step.data_wait)
              .add("memory_peak_bytes", facts.step.peak_bytes));
  out.sentence(formatted(
      "{} on {}, batch {}, on {}: {} steps of {:.1f} ms, {:.1f} % of that time waiting for data",
      *s.model, *s.dataset, *s.batch_size, concat(device), facts.step.steps,
      1e3 * facts.step.seconds, 100 * facts.step.data_wait));
}

Row row_of(const char* event, const Finding& finding) {
  Row row;
  row.add("event", event).add("check", std::string(finding.check)).add("where", finding.where);
  row.add("what", finding.what).add("fix", finding.fix).add("measured", finding.measured);
  if (finding.measured) row.add("gain", finding.gain);
  if (!finding.claim.empty()) row.add("claim", finding.claim);
  return row;
}

template <class Name>
std::string list(const std::vector<Name>& items, auto&& name_of) {
  std::string out;
  for (const Name& item : items) out += (out.empty() ? "" : ", ") + std::string(name_of(item));
  return out;
}

void print(const Diagnosis& diagnosis, const Output& out) {
  const auto itself = [](std::string_view name) { return name; };
  for (size_t i = 0; i < diagnosis.findings.size(); ++i) {
    const Finding& f = diagnosis.findings[i];
    out.row(row_of("finding", f));
    out.sentence(formatted("{}. {}: {}", i + 1, f.where, f.what));
    out.sentence(formatted("   fix: {}", f.fix));
    out.sentence(formatted("   gain: {}", gain_text(f)));
  }
  for (const Finding& f : diagnosis.harmless) {
    out.row(row_of("harmless", f));
    out.sentence(formatted("{}: the fix is no faster here ({})", f.where, gain_text(f)));
  }
  if (!diagnosis.good.empty()) out.sentence("good: " + list(diagnosis.good, itself));
  if (!diagnosis.skipped.empty())
    out.sentence("not checked, because no step was made: " + list(diagnosis.skipped, itself));
  for (const std::string_view check : diagnosis.good)
    out.row(Row().add("event", "good").add("check", std::string(check)));
  for (const std::string_view check : diagnosis.skipped)
    out.row(Row().add("event", "not_checked").add("check", std::string(check)));
  out.row(
      Row().add("event", "done").add("findings", static_cast<int64_t>(diagnosis.findings.size())));
}

}  // namespace

ExitCode run_doctor(const Invocation& call) {
  Facts facts{.settings = call.settings, .machine = {}, .biases = {}, .step = {}};
  Settings& settings = facts.settings;
  const Output out(settings.json);
  const StopRequests signals;  // a trial removes its folder
  const std::string missing = missing_gpu(settings);
  const std::array<std::string, 2> chosen = choose(settings, !missing.empty());
  std::optional<Device> device;
  facts.machine = {.gpu = true, .tensor_cores = true};
  if (missing.empty()) {
    device = prepare_compute(settings);
    facts.machine = machine_facts(*device);
  }
  const TrialData data = open_trial_data(settings);
  for (const std::string& line : chosen) {
    if (!line.empty()) out.sentence(line);
  }
  if (!device) {
    out.sentence(formatted(
        "{}: doctor measures no steps and checks the settings as for a GPU with tensor cores",
        missing));
  }
  facts.biases = look_at_model(settings, *data.images);
  if (device) {
    facts.step = look_at_steps(settings, *device, data);
    print_steps(facts, *device, out);
  }
  Diagnosis diagnosis = diagnose(facts);
  if (device) time_fixes(diagnosis, facts, data);
  print(diagnosis, out);
  return diagnosis.findings.empty() ? ExitCode::kDone : ExitCode::kCheckFailed;
}

}  // namespace lathe::cli
