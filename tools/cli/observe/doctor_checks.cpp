// The table of checks. What is claimed is claimed by others, and its source is named: a collection
// of tips, PyTorch's Performance Tuning Guide (docs.pytorch.org/tutorials/recipes/recipes/
// tuning_guide.html) or its tutorial on memory formats.
#include "lathe/tools/cli/observe/doctor_checks.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "lathe/core/error.h"
#include "lathe/core/text/formatted.h"
#include "lathe/profile/memory_forecast.h"

namespace lathe::cli {
namespace {

using Found = std::optional<Finding>;

constexpr double kWaitsTooLong = 0.05;  // part of a step's time
constexpr const char* kGuideNames = "PyTorch's tuning guide names it, without a figure";

bool halves(const Settings& s) { return s.amp != "off"; }

// --- data ----------------------------------------------------------------------------------------

int64_t more_workers(const Settings& s, int64_t processors) {
  return std::clamp<int64_t>(2 * *s.workers, 1, std::max<int64_t>(processors, 1));
}

Found no_workers(const Facts& f) {
  if (*f.settings.workers > 0 || f.settings.data_cache == "gpu") return {};
  return Finding{.where = "--workers 0",
                 .what = "each step waits until its batch is read",
                 .fix = "--workers 1",
                 .gain = 1.2,
                 .claim = "a collection of tips: 1.2x with one worker"};
}

Found waits_for_data(const Facts& f) {
  const double wait = f.step.data_wait;
  // Without workers all reading is waiting; that is another finding.
  if (wait < kWaitsTooLong || *f.settings.workers == 0) return {};
  const int64_t more = more_workers(f.settings, f.machine.processors);
  const bool decodes = f.settings.data_cache == "none" && f.settings.dataset != "synthetic";
  std::string fix;
  if (more > *f.settings.workers) fix = formatted("--workers {}", more);
  if (decodes) fix += formatted("{}--data-cache ram", fix.empty() ? "" : " or ");
  if (fix.empty()) fix = "lathe data prepare, or a lighter --augment";
  return Finding{
      .where = formatted("--workers {}", *f.settings.workers),
      .what = formatted("a step spends {:.0f} % of its time waiting for data", 100 * wait),
      .fix = fix,
      .gain = 1 / (1 - std::min(wait, 0.99)),
      .measured = true};
}

Found too_many_workers(const Facts& f) {
  if (*f.settings.workers <= f.machine.processors) return {};
  return Finding{
      .where = formatted("--workers {}", *f.settings.workers),
      .what = formatted("there are more workers than the {} processors, and they take time from "
                        "the threads that compute",
                        f.machine.processors),
      .fix = formatted("--workers {}; lathe find-workers times several", f.machine.processors)};
}

Found reads_files_again(const Facts& f) {
  if (f.settings.data_cache != "none" || f.settings.dataset == "synthetic" ||
      f.settings.dataset == "packed" || f.settings.dataset == "folder")
    return {};
  return Finding{
      .where = "--data-cache none",
      .what = "images are read from files in every epoch, though the data set would fit in memory",
      .fix = "--data-cache ram"};
}

Found not_pinned(const Facts& f) {
  if (f.settings.pin_memory.value_or(true) || f.settings.data_cache == "gpu") return {};
  return Finding{.where = "--no-pin-memory",
                 .what = "while the GPU computes, it can copy batches from page-locked memory only",
                 .fix = "--pin-memory",
                 .gain = 1.22,
                 .claim = "a collection of tips: 1.22x beside workers"};
}

// --- how it computes -----------------------------------------------------------------------------

Found idle_processors(const Facts& f) {
  if (f.machine.gpu || *f.settings.threads >= f.machine.processors) return {};
  return Finding{.where = formatted("--threads {}", *f.settings.threads),
                 .what = formatted("{} processors are available", f.machine.processors),
                 .fix = formatted("--threads {}", f.machine.processors)};
}

Found direct_convolutions(const Facts& f) {
  if (f.machine.gpu || !f.settings.conv_exact) return {};
  return Finding{.where = "--conv-exact",
                 .what = "convolutions of 3x3 could take fewer multiplications (Winograd)",
                 .fix = "--no-conv-exact"};
}

Found slow_library(const Facts& f) {
  if (f.machine.gpu || f.machine.fast_convolutions) return {};
  return Finding{.where = "this build",
                 .what = "convolutions run without oneDNN",
                 .fix = "install libdnnl-dev and build again (docs/build.md)"};
}

Found halves_in_nchw(const Facts& f) {
  if (f.settings.layout != "nchw" || !halves(f.settings)) return {};
  return Finding{.where = "--layout nchw",
                 .what = formatted("with --amp {} images in NCHW are rearranged for every "
                                   "convolution",
                                   f.settings.amp),
                 .fix = "--layout nhwc",
                 .gain = 1.22,
                 .claim = "PyTorch's memory-format tutorial: 1.22x for a ResNet-50 on a V100"};
}

Found full_precision(const Facts& f) {
  if (halves(f.settings) || !f.machine.tensor_cores) return {};
  return Finding{.where = "--amp off",
                 .what = "tensor cores multiply f16 and bf16 several times as fast as f32",
                 .fix = "--amp bf16 (or fp16)",
                 .gain = 2,
                 .claim = "collections of tips: at least 2x"};
}

Found no_tf32(const Facts& f) {
  if (f.settings.tf32.value_or(true) || halves(f.settings) || !f.machine.tensor_cores) return {};
  return Finding{
      .where = "--no-tf32", .what = "products of f32 do not use the tensor cores", .fix = "--tf32"};
}

Found no_search(const Facts& f) {
  if (f.settings.cudnn_benchmark.value_or(true) || f.settings.deterministic) return {};
  return Finding{.where = "--no-cudnn-benchmark",
                 .what = "no convolution engine is timed, though every batch has the same shape",
                 .fix = "--cudnn-benchmark, with --algo-cache FILE to time only once",
                 .claim = kGuideNames};
}

Found deterministic(const Facts& f) {
  if (!f.settings.deterministic) return {};
  return Finding{.where = "--deterministic",
                 .what = "only reproducible engines run, which may be slower, and none is timed",
                 .fix = "--no-deterministic"};
}

Found no_capture(const Facts& f) {
  if (f.settings.capture) return {};
  return Finding{.where = "--no-capture",
                 .what = "the host launches every kernel of a step one by one",
                 .fix = "--capture"};
}

Found odd_batch(const Facts& f) {
  constexpr int64_t kUnit = 8;  // values that a tensor core takes at once
  const int64_t batch = *f.settings.batch_size;
  if (!halves(f.settings) || batch % kUnit == 0) return {};
  return Finding{.where = formatted("--batch-size {}", batch),
                 .what = "tensor cores work on multiples of 8, so the batch is padded",
                 .fix = formatted("--batch-size {}", (batch + kUnit - 1) / kUnit * kUnit)};
}

Found batch_leaves_memory(const Facts& f) {
  constexpr double kLittle = 0.25, kUsable = 0.9;
  const auto total = static_cast<double>(f.machine.memory_bytes);
  const auto peak = static_cast<double>(f.step.peak_bytes);
  if (total <= 0 || peak <= 0 || peak > kLittle * total) return {};
  const auto fixed = static_cast<double>(f.step.fixed_bytes);
  const int64_t batch = *f.settings.batch_size;
  const profile::MemoryForecast forecast{fixed, (peak - fixed) / static_cast<double>(batch)};
  if (forecast.bytes_per_sample <= 0) return {};
  const int64_t fits = forecast.largest_batch(static_cast<int64_t>(kUsable * total));
  return Finding{.where = formatted("--batch-size {}", batch),
                 .what = formatted("a step takes {:.0f} % of the GPU's memory; about {} images "
                                   "would fit",
                                   100 * peak / total, fits),
                 .fix = formatted("--batch-size {} --lr-scale-batch; lathe find-batch names the "
                                  "fastest",
                                  2 * batch)};
}

// --- the model and the step ----------------------------------------------------------------------

Found bias_before_norm(const Facts& f) {
  if (f.biases.empty()) return {};
  std::string where = f.biases.front();
  if (f.biases.size() > 1) where += formatted(" and {} more", f.biases.size() - 1);
  return Finding{
      .where = where,
      .what = "the bias has no effect: the batch norm after the convolution subtracts it",
      .fix = "nn::Conv2dOptions{.bias = false} in the model",
      .claim = kGuideNames};
}

Found debug_scopes(const Facts& f) {
  std::string on;
  const auto add = [&](const char* flag) { on += (on.empty() ? "" : " ") + std::string(flag); };
  if (f.settings.detect_anomaly) add("--detect-anomaly");
  if (f.settings.profile) add("--profile");
  if (f.settings.sync != "off") add(f.settings.sync == "warn" ? "--sync warn" : "--sync error");
  if (on.empty()) return {};
  return Finding{.where = on,
                 .what = "a flag for debugging is on, which slows every step",
                 .fix = "leave it out",
                 .claim = kGuideNames};
}

Found waits_for_gpu(const Facts& f) {
  if (f.step.waits.empty()) return {};
  const auto& place = *std::ranges::max_element(f.step.waits, {}, &debug::SyncPlace::count);
  int64_t count = 0;
  for (const debug::SyncPlace& wait : f.step.waits) count += wait.count;
  const std::string call = place.call.empty() ? place.op : place.call;
  return Finding{
      .where = call,
      .what = formatted("the host waits for the GPU {:.1f} times a step, most often in {} ({})",
                        static_cast<double>(count) / static_cast<double>(f.step.steps), place.op,
                        place.why),
      .fix = "read the value less often; --sync error names every place",
      .gain = 1 / (1 - std::min(f.step.sync_wait, 0.99)),
      .measured = f.step.sync_wait > 0};
}

Found zeroed_gradients(const Facts& f) {
  if (f.step.zeroed_grads == 0) return {};
  return Finding{
      .where = "zero_grad",
      .what = formatted(
          "after each step {} gradients are filled with zeros, to which the next step adds",
          f.step.zeroed_grads),
      .fix = "optimizer.zero_grad(), which drops them (set_to_none)",
      .gain = 1 / (1 - std::min(f.step.zeroing, 0.99)),
      .measured = f.step.zeroing > 0,
      .claim = kGuideNames};
}

// --- the flags that mend -------------------------------------------------------------------------

constexpr Check kChecks[] = {
    {"workers", false, no_workers, [](Settings& s, const MachineFacts&) { s.workers = 1; }},
    {"waiting for data", false, waits_for_data, nullptr},
    {"workers per processor", false, too_many_workers,
     [](Settings& s, const MachineFacts& m) { s.workers = m.processors; }},
    {"data cache", false, reads_files_again,
     [](Settings& s, const MachineFacts&) { s.data_cache = "ram"; }},
    {"pinned memory", true, not_pinned,
     [](Settings& s, const MachineFacts&) { s.pin_memory = true; }},
    {"threads", false, idle_processors,
     [](Settings& s, const MachineFacts& m) { s.threads = m.processors; }},
    {"Winograd", false, direct_convolutions,
     [](Settings& s, const MachineFacts&) { s.conv_exact = false; }},
    {"oneDNN", false, slow_library, nullptr, 0},
    {"layout", false, halves_in_nchw, [](Settings& s, const MachineFacts&) { s.layout = "nhwc"; }},
    {"tensor cores", true, full_precision,
     [](Settings& s, const MachineFacts&) { s.amp = "bf16"; }},
    {"TF32", true, no_tf32, [](Settings& s, const MachineFacts&) { s.tf32 = true; }},
    {"algorithm search", true, no_search,
     [](Settings& s, const MachineFacts&) { s.cudnn_benchmark = true; }},
    {"deterministic", true, deterministic,
     [](Settings& s, const MachineFacts&) {
       s.deterministic = false;
       s.cudnn_benchmark = true;
     }},
    {"capture", true, no_capture, [](Settings& s, const MachineFacts&) { s.capture = true; }},
    {"multiples of 8", true, odd_batch, nullptr},
    {"batch and memory", true, batch_leaves_memory, nullptr},
    {"bias before batch norm", false, bias_before_norm, nullptr, 0},
    {"debug scopes", false, debug_scopes,
     [](Settings& s, const MachineFacts&) {
       s.detect_anomaly = s.profile = false;
       s.sync = "off";
     },
     0},
    {"waits for the GPU", true, waits_for_gpu, nullptr},
    {"gradients set to none", false, zeroed_gradients, nullptr, 0},
};

constexpr std::string_view kByStepsOnly[] = {"waiting for data", "batch and memory",
                                             "waits for the GPU", "gradients set to none"};

}  // namespace

std::span<const Check> doctor_checks() { return kChecks; }

const Check& doctor_check(std::string_view name) {
  const auto* const check = std::ranges::find(kChecks, name, &Check::name);
  LATHE_CHECK(ValueError, check != std::end(kChecks), "doctor: no check ", std::string(name));
  return *check;
}

Diagnosis diagnose(const Facts& facts) {
  Diagnosis out;
  for (const Check& check : kChecks) {
    if (check.gpu_only && !facts.machine.gpu) continue;
    if (facts.step.steps == 0 && std::ranges::count(kByStepsOnly, check.name) > 0) {
      out.skipped.push_back(check.name);
    } else if (Found found = check.look(facts)) {
      found->check = check.name;
      out.findings.push_back(std::move(*found));
    } else {
      out.good.push_back(check.name);
    }
  }
  settle(out);
  return out;
}

void settle(Diagnosis& diagnosis) {
  const auto matters = [](const Finding& f) {
    return !f.measured || f.gain >= doctor_check(f.check).worth;
  };
  const auto rest =
      std::stable_partition(diagnosis.findings.begin(), diagnosis.findings.end(), matters);
  std::move(rest, diagnosis.findings.end(), std::back_inserter(diagnosis.harmless));
  diagnosis.findings.erase(rest, diagnosis.findings.end());
  std::ranges::stable_sort(diagnosis.findings, [](const Finding& a, const Finding& b) {
    return std::pair(a.measured, a.gain) > std::pair(b.measured, b.gain);
  });
}

std::string gain_text(const Finding& finding) {
  if (finding.measured) return formatted("{:.2f}x, measured", finding.gain);
  if (!finding.claim.empty()) return formatted("not measured ({})", finding.claim);
  return "not measured";
}

}  // namespace lathe::cli
