// A program that is run by hand, over the emulated GPU: a training that begins with fused
// convolutions and CUDA graphs, with one call that fails.
//   every_fault                    some calls of each kind
//   every_fault --every [KIND]...  each of them in turn: minutes
// Whatever fails, the run ends with the bits of a run without a fault; or an engine was given up,
// and it ends near them; or it ends with an error, and continued from what it has saved it ends
// with these bits, unless the file says that it cannot. No device memory and no graph is left.
// Exit code 1 and a line for each call where that is not so.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "../cudnn/fused_choices.h"
#include "lathe/core/cuda.h"
#include "lathe/core/error.h"
#include "lathe/core/fault.h"
#include "lathe/core/files/file.h"
#include "lathe/core/gpu/memory_cuda.h"
#include "lathe/core/log.h"
#include "lathe/core/memory/block_pool.h"
#include "lathe/core/random/generator.h"
#include "lathe/nn/resnet.h"
#include "lathe/ops/conv/search/cudnn_settings.h"
#include "lathe/tests/cli/small_run.h"
#include "lathe/tests/emulation/cuda_runtime_emulation.h"
#include "lathe/tests/emulation/device_failure.h"
#include "lathe/tools/cli/training/resume.h"
#include "lathe/train/run_folder.h"

using namespace lathe;
using lathe::test::Bytes;
using lathe::test::Run;

namespace {

const Device kGpu(DeviceType::kCUDA);
constexpr double kNear = 0.02;  // what another order of sums makes of five steps

/// The beginning of a ResNet for images [3,6,6].
struct SmallResNet : nn::Module {
  nn::Conv2d conv1{*this, "conv1", 3, 8, {.kernel = 3, .pad = 1, .bias = false}};
  nn::BatchNorm2d bn1{*this, "bn1", 8};
  nn::Sequential blocks{*this, "blocks"};
  nn::Linear fc{*this, "fc", 16, 2};

  SmallResNet() { blocks.add<nn::BasicBlock>(8, 16, 2, true); }
  Tensor forward(const Tensor& x) override { return fc(mean(blocks(bn1.relu(conv1(x))), {2, 3})); }
};

std::shared_ptr<const data::Dataset> pictures(int64_t count) {
  return std::make_shared<data::FunctionDataset>(data::from_function(count, [](int64_t i) {
    Tensor x = zeros({3, 6, 6});
    for (int64_t k = 0; k < x.numel(); ++k)
      x.data<float>()[k] = static_cast<float>((i + 3) * (k + 7) % 23) / 11 - 1;
    return data::Example{x, full({}, i % 2, {.dtype = kI64})};
  }));
}

/// Four batches, the third of which is recorded and launched.
void train_here(Run& run, const std::filesystem::path& continued = {}) {
  constexpr int64_t kSteps = 5, kBatch = 4;
  manual_seed(7);
  run.train.loader = data::DataLoader(pictures(20), {.batch_size = kBatch});
  run.test.loader = data::DataLoader(pictures(4), {.batch_size = kBatch});
  run.model.add<SmallResNet>();
  run.model.to(kChannelsLast);
  run.to(kGpu);
  cli::Settings& s = run.settings;
  s.amp = "fp16";
  s.layout = "nhwc";
  s.ema = 0.9;
  s.save_every = 2;
  s.init_scale = 0x1p18;  // overflows at first
  run.log.open(run.folder.path() / "log.txt");
  const cli::Output silent(false, true);
  optim::SGD optimizer(run.model.parameters(), {.lr = 0.1, .momentum = 0.9});
  optim::LambdaLR schedule(optimizer,
                           [](int64_t step) { return 1 / (1 + 0.02 * static_cast<double>(step)); });
  cli::Training training({.settings = s,
                          .model = run.model,
                          .schedule = schedule,
                          .train = run.train,
                          .test = run.test,
                          .out = silent,
                          .log = run.log},
                         kSteps);
  if (!continued.empty())
    training.trainer().resume(read_checkpoint(continued.string()), continued.string());
  training.trainer().use_folder(run.folder.path(), false, {});
  training.run();
}

/// On a thread of its own, which has no plans yet.
void train(Run& run, const std::filesystem::path& continued = {}) {
  std::exception_ptr error;
  std::thread([&] {
    try {
      train_here(run, continued);
    } catch (...) {
      error = std::current_exception();
    }
  }).join();
  if (error) std::rethrow_exception(error);
}

/// How many tensors differ, and the first of them; "" if none does.
std::string differences(const Bytes& a, const Bytes& b) {
  int64_t count = 0;
  std::string first;
  for (const auto& [name, bytes] : a) {
    const auto other = b.find(name);
    if (other != b.end() && other->second == bytes) continue;
    if (count++ == 0) first = name;
  }
  return count == 0 ? "" : concat(" ", count, " tensors differ, such as ", first);
}

/// The largest difference of the model's numbers x, in parts of 1 + |x|.
double distance(const Bytes& a, const Bytes& b) {
  double largest = 0;
  for (const auto& [name, bytes] : a) {
    if (!name.starts_with("0.") || name.ends_with("num_batches_tracked")) continue;
    const std::vector<std::byte>& others = b.at(name);
    for (size_t at = 0; at < bytes.size(); at += sizeof(float)) {
      float x = 0, y = 0;
      std::memcpy(&x, &bytes[at], sizeof x);
      std::memcpy(&y, &others[at], sizeof y);
      const double d = std::abs(x - y) / (1 + std::abs(x));
      if (!(d <= largest)) largest = d;  // NaN too
    }
  }
  return largest;
}

bool says_not_recorded(const Run& run) {
  return read_file((run.folder.path() / "log.txt").string(), 1 << 20)
             .find("queued kernel by kernel") != std::string::npos;
}

struct Kind {
  const char* what;
  FaultPoint& point;
};

/// What came of the faults of one kind.
struct Counts {
  int64_t runs = 0, same = 0, near = 0, not_recorded = 0;  // these two: an engine was given up
  int64_t ended = 0, saved = 0, inexact = 0, faults = 0;
};

class Trainings {
 public:
  Trainings() {
    set_log_handler([](LogLevel, std::string_view) {});
    cudnn::set_benchmark(true);
    using namespace test;
    const auto step = [] {
      Run run;
      train(run);
    };
    choose(search(step), kFused);
    step();
    choices_ = conv_search().choices();
    expected_ = run_bytes();
    left_ = left();
  }

  /// One training in which call n of the kind fails.
  void run(const Kind& kind, int64_t n, Counts& counts) {
    ++counts.runs;
    begin();
    std::string problem;
    {
      Run run;
      try {
        const ArmedFault armed(kind.point, n);
        train(run);
        const Bytes now = run.saved_bytes();
        problem = differences(expected_, now);
        if (problem.empty()) ++counts.same;
        if (!problem.empty() && gave_up() && distance(expected_, now) < kNear) {
          ++counts.near;
          problem.clear();
        }
        if (!problem.empty())
          problem +=
              concat(", by ", distance(expected_, now), gave_up() ? ", engine given up" : "");
        if (says_not_recorded(run)) ++counts.not_recorded;
      } catch (const Error& e) {
        ++counts.ended;
        problem = after_error(run, counts);
        if (!problem.empty()) problem += concat(" (", e.message(), ")");
      } catch (const cli::CommandError& e) {
        problem = e.what();
      }
    }
    if (problem.empty() && left() != left_) problem = concat(" left ", left(), " not ", left_);
    if (problem.empty()) return;
    ++counts.faults;
    std::printf("%s %ld:%s\n", kind.what, static_cast<long>(n), problem.c_str());
  }

  int64_t calls(const Kind& kind) {
    begin();
    kind.point.count();
    run_bytes();
    kind.point.disarm();
    return kind.point.calls();
  }

 private:
  static Bytes run_bytes() {
    Run run;
    train(run);
    return run.saved_bytes();
  }

  // Every plan and every block of memory is made anew.
  void begin() {
    test::keep(choices_);
    cuda::empty_cache();
  }

  // Whether an engine has failed and another one took its place.
  bool gave_up() const {
    return std::ranges::any_of(choices_, [](const auto& known) {
      const auto now = conv_search().find(known.first);
      return now == nullptr || !(now->info().engine == known.second->info().engine);
    });
  }

  // Whether a run that ended with an error can go on.
  std::string after_error(const Run& run, Counts& counts) {
    const std::filesystem::path last = run.folder.path() / "last.safetensors";
    if (!std::filesystem::exists(last)) return "";
    ++counts.saved;
    if (read_checkpoint(last.string()).metadata.contains(train::kInexactKey)) {
      ++counts.inexact;
      return "";
    }
    test::keep(choices_);
    Run again;
    train(again, last);
    return differences(expected_, again.saved_bytes());
  }

  static std::string left() {
    return concat(cuda::memory_allocated(kGpu), " bytes, ", emulation::runtime_probe().graphs,
                  " graphs");
  }

  test::Choices choices_;
  Bytes expected_;
  std::string left_;
};

int run_all(bool every, std::span<char*> only) {
  const Kind kinds[] = {{"call of a graph", emulation::runtime_probe().graph_fault},
                        {"driver's memory", emulation::runtime_probe().malloc_fault},
                        {"allocation", cuda::block_pool(kGpu).fault()},
                        {"launch", emulation::launch_fault()},
                        {"cuDNN descriptor", emulation::cudnn_probe().descriptor_fault},
                        {"cuDNN stream", emulation::cudnn_probe().stream_fault},
                        {"cuDNN execution", emulation::cudnn_probe().execution_fault}};
  constexpr int64_t kSamples = 8;
  Trainings trainings;
  int64_t faults = 0;
  for (const Kind& kind : kinds) {
    const auto is_this = [&](const char* word) { return std::string_view(word) == kind.what; };
    if (!only.empty() && std::ranges::none_of(only, is_this)) continue;
    const int64_t calls = trainings.calls(kind);
    const int64_t most = every ? calls : std::min(calls, kSamples);
    Counts counts;
    for (int64_t i = 0; i < most; ++i)
      trainings.run(kind, most == 1 ? 1 : 1 + i * (calls - 1) / (most - 1), counts);
    const auto number = [](int64_t n) { return static_cast<long>(n); };
    std::printf(
        "%-16s %5ld calls, %5ld failed: %5ld runs with the same bits and %ld near them by another "
        "engine (%ld not recorded), %5ld ended with an error (%ld had saved, %ld of them inside of "
        "a step; the others went on to the same bits), %ld wrong\n",
        kind.what, number(calls), number(counts.runs), number(counts.same), number(counts.near),
        number(counts.not_recorded), number(counts.ended), number(counts.saved),
        number(counts.inexact), number(counts.faults));
    std::fflush(stdout);
    faults += counts.faults;
  }
  return faults == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  doctest::Context checks;  // of the headers that tests share
  checks.setAsDefaultForAssertsOutOfTestCases();
  const bool every = argc > 1 && std::strcmp(argv[1], "--every") == 0;
  if (argc > 1 && !every) {
    std::fprintf(stderr, "usage: every_fault [--every [KIND]...]\n");
    return 2;
  }
  return run_all(every, std::span(argv, static_cast<size_t>(argc)).subspan(every ? 2 : 1));
}
