// The table of tips, and judge().
#include "lathe/tools/cli/observe/tips.h"

#include <algorithm>
#include <cmath>

#include "lathe/core/error.h"
#include "lathe/core/text/formatted.h"
#include "lathe/nn/conv.h"
#include "lathe/ops/creation.h"

namespace lathe::cli {
namespace {

enum Source : int { kCollections, kGuide, kFormats, kAccumulation };

constexpr double kCoverage = 0.9;  // that an interval must have for a verdict
constexpr const char* kNeedsGpu = "needs a GPU";

// Sets one setting.
template <class Group, class T, class V>
std::function<void(Settings&)> set(T Group::*member, V value) {
  return [member, value](Settings& s) { s.*member = value; };
}

/// A tip that is a setting.
template <class Group, class T, class V>
Tip tip_of(std::string_view name, T Group::*member, V bad, std::string bad_says, V good,
           std::string good_says, std::string_view claim, int source) {
  return {.name = name,
          .without = {.says = std::move(bad_says), .change = set(member, bad)},
          .with = {.says = std::move(good_says), .change = set(member, good)},
          .claim = claim,
          .source = source};
}

Tip only_if(bool applies, std::string why, Tip tip) {
  if (applies) return tip;
  return {.name = tip.name,
          .without = {},
          .with = {},
          .claim = tip.claim,
          .source = tip.source,
          .not_here = std::move(why)};
}

// What zero_grad does that fills with zeros: the next backward pass adds to them.
void fill_gradients(nn::Module& model) {
  for (const Tensor& p : model.parameters()) {
    if (p.requires_grad()) p.set_grad(zeros_like(p));
  }
}

void add_biases(nn::Module& model) {
  for (const auto& [name, module] : convolutions_before_norm(model)) {
    auto* const conv = dynamic_cast<nn::Conv2d*>(module);
    if (conv == nullptr || conv->bias.defined()) continue;
    nn::Conv2dOptions options = conv->options();
    options.bias = true;
    const Tensor weight = conv->weight;
    *conv = nn::Conv2d(weight.dim(1) * options.groups, weight.dim(0), options);
    conv->weight = weight;  // the options may leave the new one open
  }
}

void add_data_tips(std::vector<Tip>& tips, const Settings& job, const MachineFacts& machine) {
  const bool resident = job.data_cache == "gpu";
  const std::string here = "the images are on the GPU";
  const int64_t many = machine.processors;
  tips.push_back(only_if(!resident, here,
                         tip_of("a worker", &Settings::workers, int64_t{0}, "--workers 0",
                                int64_t{1}, "--workers 1", "1.2x", kCollections)));
  tips.push_back(only_if(!resident && many > 1, resident ? here : "one processor",
                         tip_of("more workers", &Settings::workers, int64_t{1}, "--workers 1", many,
                                formatted("--workers {}", many), "tune it", kGuide)));
  tips.push_back(
      only_if(!resident, here,
              tip_of("prefetch", &Settings::prefetch_factor, int64_t{1}, "--prefetch-factor 1",
                     int64_t{4}, "--prefetch-factor 4", "no figure", kCollections)));
  tips.push_back(only_if(machine.gpu && !resident, machine.gpu ? here : kNeedsGpu,
                         tip_of("pinned memory", &Settings::pin_memory, false, "--no-pin-memory",
                                true, "--pin-memory", "1.22x", kCollections)));
  const bool resizes = job.dataset == "packed";
  tips.push_back(only_if(!resizes, "the system's page cache keeps a packed file",
                         tip_of("data in RAM", &Settings::data_cache, "none", "--data-cache none",
                                "ram", "--data-cache ram", "no figure", kCollections)));
  tips.push_back(only_if(machine.gpu && job.dataset != "synthetic" && job.dataset != "folder",
                         machine.gpu ? "the images are synthetic or differ in size" : kNeedsGpu,
                         tip_of("data on the GPU", &Settings::data_cache, "ram", "--data-cache ram",
                                "gpu", "--data-cache gpu", "no transfer", kCollections)));
}

void add_compute_tips(std::vector<Tip>& tips, const MachineFacts& machine, bool fast_halves) {
  if (machine.gpu) {
    tips.push_back(tip_of("algorithm search", &Settings::cudnn_benchmark, false,
                          "--no-cudnn-benchmark", true, "--cudnn-benchmark", "faster", kGuide));
  } else {
    tips.push_back(tip_of("fast algorithms", &Settings::conv_exact, true, "--conv-exact", false,
                          "--no-conv-exact", "faster", kGuide));
  }
  tips.push_back(only_if(machine.gpu || fast_halves, "this processor does not multiply bf16",
                         tip_of("AMP (bf16)", &Settings::amp, "off", "--amp off", "bf16",
                                "--amp bf16", "2x at least", kCollections)));
  tips.push_back(only_if(
      machine.gpu, kNeedsGpu,
      tip_of("TF32", &Settings::tf32, false, "--no-tf32", true, "--tf32", "faster", kGuide)));
  tips.push_back(tip_of("channels-last", &Settings::layout, "nchw", "--layout nchw", "nhwc",
                        "--layout nhwc", "1.22x", kFormats));
  tips.push_back(only_if(machine.gpu, kNeedsGpu,
                         tip_of("capture", &Settings::capture, false, "--no-capture", true,
                                "--capture", "small steps", kGuide)));
}

void add_step_tips(std::vector<Tip>& tips, const Settings& job, bool norms) {
  const auto one_by_one = set(&Settings::capture, false);  // a graph has its gradients inside
  tips.push_back(
      {.name = "set_to_none",
       .without = {.says = "gradients filled with zeros",
                   .change = one_by_one,
                   .after_step = fill_gradients},
       .with = {.says = "gradients dropped (always so in lathe train)", .change = one_by_one},
       .claim = "fewer kernels",
       .source = kGuide});
  tips.push_back(only_if(norms && job.weights.empty(),
                         norms ? "the weights of the file have no biases"
                               : "the model has no convolution without bias before a batch norm",
                         {.name = "no bias before norm",
                          .without = {.says = "biases added to the model", .prepare = add_biases},
                          .with = {.says = "the model as it is"},
                          .claim = "no figure",
                          .source = kGuide}));
  tips.push_back({.name = "no_grad (evaluation)",
                  .without = {.says = "evaluation keeps what a backward pass needs"},
                  .with = {.says = "evaluation without gradients (always so in lathe train)"},
                  .claim = "less memory",
                  .source = kGuide,
                  .job = TipJob::kEvaluation});
  const int64_t half = *job.batch_size / 2;
  tips.push_back(only_if(
      half > 0 && *job.batch_size % 2 == 0, "the batch size is odd",
      {.name = "accumulation",
       .without = {.says = formatted("--batch-size {}", *job.batch_size)},
       .with = {.says = formatted("--batch-size {} --accumulate {}", half, 2 * job.accumulate),
                .change =
                    [half](Settings& s) {
                      s.batch_size = half;
                      s.accumulate *= 2;
                    }},
       .claim = "memory only",
       .source = kAccumulation}));
  tips.push_back(tip_of("debug scopes off", &Settings::detect_anomaly, true, "--detect-anomaly",
                        false, "--no-detect-anomaly", "faster", kGuide));
}

// The probability that k or fewer of n fair coins show heads.
double at_most(int64_t k, int64_t n) {
  double sum = 0, term = std::pow(0.5, static_cast<double>(n));
  for (int64_t i = 0; i <= k; ++i) {
    sum += term;
    term *= static_cast<double>(n - i) / static_cast<double>(i + 1);
  }
  return sum;
}

Verdict verdict_of(const TipResult& r) {
  constexpr double kMatters = 0.02, kNothing = 0.05;
  if (r.coverage < kCoverage) return Verdict::kUnclear;
  if (r.low > 1 && r.median >= 1 + kMatters) return Verdict::kHelps;
  if (r.high < 1 && r.median <= 1 / (1 + kMatters)) return Verdict::kHurts;
  const bool narrow = r.low >= 1 / (1 + kNothing) && r.high <= 1 + kNothing;
  return narrow ? Verdict::kNoMatter : Verdict::kUnclear;
}

}  // namespace

std::vector<std::string_view> tip_sources() {
  return {"collections of tips on the web",
          "PyTorch's Performance Tuning Guide, which gives no figure",
          "PyTorch's tutorial on memory formats: ResNet-50 with AMP on a V100",
          "collections of tips: larger steps in the same memory"};
}

std::vector<Tip> all_tips(const Settings& settings, const MachineFacts& machine, bool fast_halves,
                          bool norms) {
  std::vector<Tip> tips;
  add_data_tips(tips, settings, machine);
  add_compute_tips(tips, machine, fast_halves);
  add_step_tips(tips, settings, norms);
  return tips;
}

TipResult judge(std::vector<double> ratios) {
  LATHE_CHECK(ValueError, !ratios.empty(), "judge: no ratio");
  std::ranges::sort(ratios);
  const auto n = static_cast<int64_t>(ratios.size());
  // [k-th smallest, k-th largest] misses the median if at most k-1 ratios are on one side of it.
  int64_t k = 1;
  while (2 * (k + 1) <= n && 1 - 2 * at_most(k, n) >= kCoverage) ++k;
  TipResult out{.low = ratios[static_cast<size_t>(k - 1)],
                .high = ratios[static_cast<size_t>(n - k)],
                .coverage = std::max(0.0, 1 - 2 * at_most(k - 1, n)),
                .pairs = n};
  const auto middle = static_cast<size_t>(n / 2);
  out.median = n % 2 == 1 ? ratios[middle] : (ratios[middle - 1] + ratios[middle]) / 2;
  out.verdict = verdict_of(out);
  return out;
}

std::string_view name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kHelps: return "helps";
    case Verdict::kNoMatter: return "does not matter";
    case Verdict::kHurts: return "hurts";
    case Verdict::kUnclear: break;
  }
  return "not clear";
}

}  // namespace lathe::cli
