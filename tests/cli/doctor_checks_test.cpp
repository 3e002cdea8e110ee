// Every check of `lathe doctor` with its fault planted, and none where nothing is wrong.
#include "lathe/tools/cli/observe/doctor_checks.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>

#include "lathe/core/error.h"
#include "lathe/nn/batch_norm.h"
#include "lathe/nn/containers.h"
#include "lathe/nn/conv.h"
#include "lathe/nn/resnet.h"

using namespace lathe;
using namespace lathe::cli;

namespace {

/// A training with nothing wrong, on two processors or on a GPU.
Facts healthy(bool gpu) {
  Facts facts;
  Settings& s = facts.settings;
  s.dataset = "cifar10";
  s.model = "resnet20";
  s.data_cache = "ram";
  s.batch_size = 128;
  s.workers = 1;
  s.threads = 2;
  facts.machine = {.gpu = gpu, .tensor_cores = gpu, .processors = 2};
  facts.step = {.steps = 20, .seconds = 0.1, .data_wait = 0.01};
  if (gpu) {
    s.amp = "bf16";
    s.tf32 = s.cudnn_benchmark = s.pin_memory = true;
    facts.machine.memory_bytes = int64_t{16} << 30;
    facts.step.fixed_bytes = int64_t{1} << 30;
    facts.step.peak_bytes = int64_t{9} << 30;
  }
  return facts;
}

struct Plant {
  bool gpu;
  std::function<void(Facts&)> fault;
  std::string where, fix;  // parts of the finding
};

const std::map<std::string, Plant>& plants() {
  using F = Facts&;
  static const std::map<std::string, Plant> all = {
      {"workers", {false, [](F f) { f.settings.workers = 0; }, "--workers 0", "--workers 1"}},
      {"waiting for data",
       {false, [](F f) { f.step.data_wait = 0.5; }, "--workers 1", "--workers 2"}},
      {"workers per processor",
       {false, [](F f) { f.settings.workers = 9; }, "--workers 9", "--workers 2"}},
      {"data cache",
       {false, [](F f) { f.settings.data_cache = "none"; }, "--data-cache none",
        "--data-cache ram"}},
      {"pinned memory",
       {true, [](F f) { f.settings.pin_memory = false; }, "--no-pin-memory", "--pin-memory"}},
      {"threads", {false, [](F f) { f.settings.threads = 1; }, "--threads 1", "--threads 2"}},
      {"Winograd",
       {false, [](F f) { f.settings.conv_exact = true; }, "--conv-exact", "--no-conv-exact"}},
      {"oneDNN", {false, [](F f) { f.machine.fast_convolutions = false; }, "build", "libdnnl-dev"}},
      {"layout", {true, [](F f) { f.settings.layout = "nchw"; }, "--layout nchw", "--layout nhwc"}},
      {"tensor cores", {true, [](F f) { f.settings.amp = "off"; }, "--amp off", "--amp bf16"}},
      {"TF32",
       {true,
        [](F f) {
          f.settings.amp = "off";
          f.settings.tf32 = false;
        },
        "--no-tf32", "--tf32"}},
      {"algorithm search",
       {true, [](F f) { f.settings.cudnn_benchmark = false; }, "--no-cudnn-benchmark",
        "--cudnn-benchmark"}},
      {"deterministic",
       {true, [](F f) { f.settings.deterministic = true; }, "--deterministic",
        "--no-deterministic"}},
      {"capture", {true, [](F f) { f.settings.capture = false; }, "--no-capture", "--capture"}},
      {"multiples of 8",
       {true, [](F f) { f.settings.batch_size = 100; }, "--batch-size 100", "--batch-size 104"}},
      {"batch and memory",
       {true, [](F f) { f.step.peak_bytes = int64_t{3} << 30; }, "--batch-size 128",
        "--batch-size 256"}},
      {"bias before batch norm",
       {false,
        [](F f) {
          f.biases = {"stem.conv", "conv2"};
        },
        "stem.conv and 1 more", ".bias = false"}},
      {"debug scopes",
       {false,
        [](F f) {
          f.settings.detect_anomaly = true;
          f.settings.sync = "warn";
        },
        "--detect-anomaly --sync warn", "leave it out"}},
      {"waits for the GPU",
       {true,
        [](F f) {
          f.step.waits = {{{.call = "a.cpp:4 (f)"}, "item", "copy to the host", 20},
                          {{.call = "a.cpp:9 (f)"}, "nonzero", "size", 40}};
        },
        "a.cpp:9 (f)", "--sync error"}},
      {"gradients set to none",
       {false, [](F f) { f.step.zeroed_grads = 65; }, "zero_grad", "set_to_none"}},
  };
  return all;
}

const Finding* found(const Diagnosis& diagnosis, std::string_view check) {
  const auto it = std::ranges::find(diagnosis.findings, check, &Finding::check);
  return it == diagnosis.findings.end() ? nullptr : &*it;
}

}  // namespace

TEST_CASE("doctor: nothing is found where nothing is wrong, and each check says so") {
  for (const bool gpu : {false, true}) {
    const Diagnosis diagnosis = diagnose(healthy(gpu));
    for (const Finding& f : diagnosis.findings) FAIL_CHECK(f.check << ": " << f.where);
    const auto applies =
        std::ranges::count_if(doctor_checks(), [&](const Check& c) { return gpu || !c.gpu_only; });
    CHECK(static_cast<int64_t>(diagnosis.good.size()) == applies);
    CHECK(diagnosis.skipped.empty());
  }
}

TEST_CASE("doctor: every check finds its planted fault, names the place and the fix") {
  for (const Check& check : doctor_checks()) {
    CAPTURE(check.name);
    REQUIRE(plants().contains(std::string(check.name)));
    const Plant& plant = plants().at(std::string(check.name));
    Facts facts = healthy(plant.gpu);
    plant.fault(facts);
    const Diagnosis diagnosis = diagnose(facts);
    const Finding* const f = found(diagnosis, check.name);
    REQUIRE(f != nullptr);
    CHECK(f->where.find(plant.where) != std::string::npos);
    CHECK(f->fix.find(plant.fix) != std::string::npos);
    CHECK_FALSE(f->what.empty());
    // A fix that is a flag takes the finding away, and it alone is what was planted.
    if (check.mend == nullptr) continue;
    check.mend(facts.settings, facts.machine);
    CHECK(found(diagnose(facts), check.name) == nullptr);
  }
  CHECK(plants().size() == doctor_checks().size());
}

TEST_CASE("doctor: on a CPU what only a GPU has is no subject") {
  for (const Check& check : doctor_checks()) {
    if (!check.gpu_only) continue;
    Facts facts = healthy(false);
    plants().at(std::string(check.name)).fault(facts);
    const Diagnosis diagnosis = diagnose(facts);
    CHECK_MESSAGE(found(diagnosis, check.name) == nullptr, check.name);
    CHECK_MESSAGE(std::ranges::count(diagnosis.good, check.name) == 0, check.name);
  }
}

TEST_CASE("doctor: without steps, what they would show is not called good") {
  Facts facts = healthy(true);
  facts.step = {};
  const Diagnosis diagnosis = diagnose(facts);
  CHECK(diagnosis.skipped.size() == 4);
  CHECK(std::ranges::count(diagnosis.good, "waiting for data") == 0);
  CHECK(std::ranges::count(diagnosis.good, "workers") == 1);
}

TEST_CASE("doctor: the share of waiting is the gain, and the greatest measured gain comes first") {
  Facts facts = healthy(false);
  facts.step.data_wait = 0.5;
  facts.step.zeroed_grads = 3;
  facts.step.zeroing = 0.2;
  facts.settings.conv_exact = true;
  facts.settings.layout = "nchw";
  facts.settings.amp = "bf16";
  const Diagnosis diagnosis = diagnose(facts);
  REQUIRE(diagnosis.findings.size() == 4);
  CHECK(diagnosis.findings[0].check == "waiting for data");
  CHECK(diagnosis.findings[0].gain == doctest::Approx(2));
  CHECK(gain_text(diagnosis.findings[0]) == "2.00x, measured");
  CHECK(diagnosis.findings[1].check == "gradients set to none");
  CHECK(diagnosis.findings[1].gain == doctest::Approx(1.25));
  CHECK(diagnosis.findings[2].check == "layout");  // a claim, and not a measurement
  CHECK(gain_text(diagnosis.findings[2]).starts_with("not measured (PyTorch's memory-format"));
  CHECK(gain_text(diagnosis.findings[3]) == "not measured");
}

TEST_CASE("doctor: what was measured to gain nothing is no finding, but debug scopes remain one") {
  Facts facts = healthy(false);
  facts.settings.threads = 1;
  facts.settings.conv_exact = facts.settings.detect_anomaly = true;
  Diagnosis diagnosis = diagnose(facts);
  for (Finding& f : diagnosis.findings) {
    f.measured = true;
    f.gain = f.check == "Winograd" ? 1.5 : 1.0;
  }
  settle(diagnosis);
  REQUIRE(diagnosis.findings.size() == 2);
  CHECK(diagnosis.findings[0].check == "Winograd");
  CHECK(diagnosis.findings[1].check == "debug scopes");
  REQUIRE(diagnosis.harmless.size() == 1);
  CHECK(diagnosis.harmless[0].check == "threads");
}

TEST_CASE("doctor: the batch that fits is a straight line through fixed and peak memory") {
  Facts facts = healthy(true);
  facts.machine.memory_bytes = 100'000;
  facts.step.fixed_bytes = 10'000;
  facts.step.peak_bytes = 22'800;  // 100 for each of 128 images
  const Diagnosis diagnosis = diagnose(facts);
  const Finding* const f = found(diagnosis, "batch and memory");
  REQUIRE(f != nullptr);
  CHECK(f->what.find("about 800 images") != std::string::npos);  // (90'000 - 10'000) / 100
}

TEST_CASE("doctor: biases before a batch norm are found by the model's names, others are not") {
  nn::CifarResNet built_in = nn::resnet20();
  CHECK(biases_before_norm(built_in).empty());
  nn::Sequential inner;
  inner.add<nn::Conv2d>(3, 4, nn::Conv2dOptions{.kernel = 3});
  inner.add<nn::BatchNorm2d>(4);
  inner.add<nn::Conv2d>(4, 4, nn::Conv2dOptions{.kernel = 3, .bias = false});
  inner.add<nn::BatchNorm2d>(4);
  inner.add<nn::Conv2d>(4, 4, nn::Conv2dOptions{.kernel = 3});
  CHECK(biases_before_norm(inner) == std::vector<std::string>{"0"});
}

TEST_CASE("doctor: an unknown check is an error") {
  CHECK_THROWS_AS(doctor_check("x"), ValueError);
}
