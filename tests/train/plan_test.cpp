// lathe plan: lines through two steps, the roofline, measured times beside launches, and memory
// replayed on the allocator.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lathe/core/error.h"
#include "lathe/core/format.h"
#include "lathe/core/hooks/record.h"
#include "lathe/core/machine/gpu_description.h"
#include "lathe/train/plan/fused_launches.h"
#include "lathe/train/plan/gpu_model.h"
#include "lathe/train/plan/measured_step.h"
#include "lathe/train/plan/memory_plan.h"
#include "lathe/train/plan/unmeasured_launches.h"
#include "planned_step.h"

using namespace lathe;
using namespace lathe::plan;
using namespace lathe::test;

namespace {

constexpr int64_t kMiB = 1 << 20;

/// A step of a named model.
StepRecording small_step(const StepCase& c, int64_t batch, const std::string& model = "resnet8") {
  return record(c, batch, named_model(model, c.side));
}
StepRecording small_step(const char* amp, int64_t batch) {
  return small_step({.amp = amp, .side = 8}, batch);
}

/// A GPU whose kernels reach 1e12 bytes and 1e13 operations per second.
GpuDescription round_gpu() {
  GpuDescription gpu = gpu_description("h200");
  gpu.l2_bytes = 2'000'000;
  gpu.peaks = {.half_flops = 1e13 / kProductShare,
               .tf32_flops = 5e12 / kProductShare,
               .f32_flops = 1e12 / kProductShare,
               .bytes = 1e12 / kCopyShare};
  return gpu;
}

}  // namespace

TEST_CASE("plan: launches lie on the line through two small steps") {
  Launch a{.op = "relu", .kernel = "pointwise", .read_bytes = 30, .written_bytes = 20, .flops = 4};
  Launch b = a;
  b.read_bytes = 40;
  b.flops = 6;
  const auto at = launches_at(512, {2, {a}}, {3, {b}});
  REQUIRE(at.size() == 1);
  CHECK(at[0].read_bytes == 10 + 10 * 512);
  CHECK(at[0].written_bytes == 20);
  CHECK(at[0].flops == 2 * 512);
  b.kernel = "other";
  CHECK_THROWS_WITH_AS(launches_at(512, {2, {a}}, {3, {b}}),
                       doctest::Contains("launch 0 is relu (pointwise)"), StateError);
  CHECK_THROWS_AS(launches_at(512, {2, {a}}, {3, {}}), StateError);
}

TEST_CASE("plan: fused layers lose the passes that apply a norm and those for its sums") {
  const auto launch = [](const char* op, const char* layer, const char* kernel, double read,
                         double written) {
    Launch l{.op = op, .layer = layer, .kernel = kernel};
    l.library = l.fuses = l.kernel == "cuDNN";
    l.read_bytes = read;
    l.written_bytes = written;
    l.flops = l.library ? 100 : 0;
    return l;
  };
  std::vector<Launch> step = {launch("cast", "", "pointwise", 8, 4),
                              launch("batch_norm_relu", "a.bn1", "stats_kernel", 8, 0),
                              launch("batch_norm_relu", "a.bn1", "train_kernel", 8, 8),
                              launch("conv2d", "a.conv2", "cuDNN", 9, 4),
                              launch("batch_norm", "a.bn2", "stats_kernel", 4, 0),
                              launch("batch_norm", "a.bn2", "train_kernel", 4, 4),
                              launch("conv2d_input_grad", "a.conv2", "cuDNN", 5, 8),
                              launch("conv2d_weight_grad", "a.conv2", "cuDNN", 12, 1),
                              launch("batch_norm_relu backward", "a.bn1", "sums_kernel", 16, 0),
                              launch("batch_norm_relu backward", "a.bn1", "input_kernel", 16, 8)};
  const auto text = [](const FusedStep& fused) {
    std::string all;
    for (const Launch& l : fused.launches) all += concat(" ", l.kernel, "=", l.bytes());
    return all;
  };
  const FusedStep fused = fused_step(step);
  CHECK(fused.layers == 1);
  CHECK(fused.sums == 1);
  const auto flops = [](const std::vector<Launch>& launches) {
    double sum = 0;
    for (const Launch& l : launches) sum += l.flops;
    return sum;
  };
  CHECK(flops(fused.launches) == flops(step));
  CHECK(text(fused) ==
        " pointwise=12 stats_kernel=8 coefficients_kernel=0 cuDNN=13 bn_stats_kernel=0 "
        "finalize_kernel=0 apply_kernel=8 cuDNN=21 dbn_stats_kernel=0 cuDNN=13 combine_kernel=24");
  step[0] = launch("conv2d", "a.conv1", "cuDNN", 8, 8);  // leaves sums for the first norm
  CHECK(fused_step(step).sums == 2);
  CHECK(text(fused_step(step)) ==
        " cuDNN=16 bn_stats_kernel=0 finalize_kernel=0 cuDNN=13 bn_stats_kernel=0 "
        "finalize_kernel=0 apply_kernel=8 cuDNN=21 dbn_stats_kernel=0 cuDNN=13 combine_kernel=24");
  step[3].layer = "b.conv1";  // of another module, which takes a tensor
  CHECK(fused_step(step).layers == 0);
  CHECK(fused_step(step).sums == 2);
  step[0].fuses = step[3].fuses = false;  // such convolutions that cuDNN has no pattern for
  CHECK(fused_step(step).sums == 0);
}

TEST_CASE("plan: kernels that can wait are dependent behind another of ours, not behind cuDNN's") {
  std::vector<Launch> step(5);
  step[0].library = true;
  for (const size_t i : {1u, 2u}) step[i].kind = LaunchKind::kBatchNormForward;
  for (const size_t i : {3u, 4u}) step[i].kind = LaunchKind::kOptimizer;
  step[3].kernel = "update_kernel";
  step[4].kernel = "layer_step_kernel";
  step = with_part(step, Unmeasured::kDependentLaunch);
  CHECK(!step[1].dependent);
  CHECK(step[2].dependent);
  CHECK(step[3].dependent);
  CHECK(!step[4].dependent);  // cannot wait
  const GpuDescription gpu = round_gpu();
  CHECK(seconds_of(step[1], gpu, kFast) - seconds_of(step[2], gpu, kFast) ==
        doctest::Approx(1.5e-6));
}

TEST_CASE("plan: input gradients with a stride of 1 go on through the end of the block before") {
  std::vector<Launch> step = launches_of(small_step({}, 2, "resnet18"));
  step = fused_step(step).launches;
  const std::vector<Launch> on = with_part(step, Unmeasured::kResidualGrad);
  REQUIRE(on.size() == step.size());
  std::string through;
  for (size_t i = 0; i < on.size(); ++i) {
    if (on[i].kernel == step[i].kernel) continue;
    if (on[i].kernel == "combine_kernel") {
      CHECK(on[i].bytes() == step[i].bytes());
      continue;
    }
    CHECK(on[i].kernel == "dbn_stats_kernel");
    CHECK(on[i].library);
    CHECK(on[i].bytes() == 0);
    CHECK(on[i - 1].read_bytes == step[i - 1].read_bytes + 3 * step[i - 1].written_bytes);
    through += concat(" ", on[i - 1].layer);
  }
  CHECK(through == " layer4.1.conv1 layer3.1.conv1 layer2.1.conv1 layer1.1.conv1");
}

TEST_CASE("plan: what nn fuses in ResNets") {
  const auto layers = [](const char* amp, const char* model, bool channels_last = true) {
    const StepCase c{.amp = amp, .channels_last = channels_last};
    return fused_step(launches_of(small_step(c, 2, model))).layers;
  };
  CHECK(layers("fp16", "resnet8") == 3);
  CHECK(layers("fp16", "resnet18") == 8);
  CHECK(layers("bf16", "resnet8") == 0);
  CHECK(layers("off", "resnet8") == 0);
  CHECK(layers("fp16", "resnet8", false) == 0);
}

TEST_CASE("plan: what steps of 2 and 3 images foretell is what a step of 5 does") {
  for (const char* amp : {"off", "fp16", "bf16"}) {
    CAPTURE(amp);
    const StepRecording two = small_step(amp, 2), three = small_step(amp, 3),
                        five = small_step(amp, 5);
    const auto foretold = launches_at(5, {2, launches_of(two)}, {3, launches_of(three)});
    const auto done = launches_of(five);
    REQUIRE(foretold.size() == done.size());
    for (size_t i = 0; i < done.size(); ++i) {
      CAPTURE(i);
      CAPTURE(done[i].op);
      CHECK(foretold[i].op == done[i].op);
      CHECK(foretold[i].bytes() == doctest::Approx(done[i].bytes()));
      CHECK(foretold[i].flops == doctest::Approx(done[i].flops));
    }
    const auto peak = [](const MemoryScript& script) {
      const auto memory = replay(script, 5, int64_t{1} << 32);
      REQUIRE(memory);
      return memory->peak_allocated;
    };
    CHECK(peak(memory_script(two, three)) == peak(memory_script(three, five)));
  }
}

TEST_CASE("plan: operations of a step are those of its layers") {
  // resnet8 at 8 x 8: multiply-adds by hand, from channels, windows and sides.
  const double stem = 16.0 * 3 * 9 * 64, first = 2 * 16.0 * 16 * 9 * 64,
               second = (16.0 * 32 + 32 * 32) * 9 * 16, third = (32.0 * 64 + 64 * 64) * 9 * 4;
  const StepCase exact{.amp = "off", .channels_last = false, .side = 8};  // no channels to fill up
  const auto launches = launches_of(small_step(exact, 2), {.tf32 = false});
  const KindSum sum = sum_of(launches, LaunchKind::kConvolution);
  const double forward = stem + first + second + third;
  CHECK(sum.flops == doctest::Approx(2 * 2 * (3 * forward - stem)));  // no gradient of the images
  CHECK(sum.launches == 3 * 7 - 1);
}

TEST_CASE("plan: operations of a transformer are those of its products") {
  // 4 patches and the class token, 384 wide: query, key, value, output, the two layers behind them,
  // and attention.
  const double tokens = 5, width = 384;
  const double layer = tokens * width * (4 * width + 2 * 4 * width) + 2 * tokens * tokens * width;
  const double products = 3 * 2 * 2 * (12 * layer + 10 * width);
  for (const char* amp : {"off", "fp16"}) {
    CAPTURE(amp);
    const auto launches = launches_of(small_step({.amp = amp}, 2, "vit_s_16"));
    CHECK(sum_of(launches, LaunchKind::kMatmul).flops == doctest::Approx(products).epsilon(1e-3));
    CHECK(std::ranges::count(launches, "softmax", &Launch::op) == 12);
    CHECK(std::ranges::count(launches, "softmax backward", &Launch::op) == 12);
    CHECK(std::ranges::count(launches, "layer_norm backward", &Launch::op) == 2 * 25);
  }
}

TEST_CASE("plan: the roofline takes the longer of memory and arithmetic") {
  const GpuDescription gpu = round_gpu();
  const Efficiency bare{.share = 1, .floor_seconds = 0, .gap_seconds = 0, .cached = 0};
  Launch product{.kind = LaunchKind::kMatmul,
                 .library = true,
                 .dtype = kF16,
                 .read_bytes = 3e6,
                 .written_bytes = 1e6,
                 .flops = 1e8};
  CHECK(seconds_of(product, gpu, bare) == doctest::Approx(1e-5));  // 1e8 operations
  product.flops = 1e7;
  CHECK(seconds_of(product, gpu, bare) == doctest::Approx(4e-6));  // 4e6 bytes
  product.dtype = kF32;
  product.flops = 1e8;
  CHECK(seconds_of(product, gpu, bare) == doctest::Approx(1e-4));
  product.tf32 = true;
  CHECK(seconds_of(product, gpu, bare) == doctest::Approx(2e-5));
  CHECK(seconds_of(product, gpu, {0.5, 0, 1e-6, 0}) == doctest::Approx(4.1e-5));
  Launch copy{.read_bytes = 3e6, .written_bytes = 1e6, .again_bytes = 3e6};
  CHECK(seconds_of(copy, gpu, {1, 2e-6, 1e-6, 0}) == doctest::Approx(7e-6));
  CHECK(seconds_of(copy, gpu, {1, 2e-6, 1e-6, 0.5}) == doctest::Approx(6e-6));  // 1e6 were held
  product.flops = product.read_bytes = product.written_bytes = 0;
  CHECK(seconds_of(product, gpu, {1, 2e-6, 1e-6, 0}) == doctest::Approx(5e-6));
  CHECK(seconds_of({copy, product}, gpu, {1, 2e-6, 1e-6, 0}) == doctest::Approx(1.2e-5));
}

TEST_CASE("plan: the time of an op is the GPU's, without that of ops inside it") {
  using profile::Kind;
  const auto record = [](const char* name, Kind kind, uint32_t depth, int64_t begin, int64_t end,
                         int64_t device_ns) {
    profile::Record r;
    r.name = name;
    r.kind = kind;
    r.depth = depth;
    r.begin_ns = begin;
    r.end_ns = end;
    r.device_ns = device_ns;
    return r;
  };
  // In the order of their ends, which is not that of their begins.
  profile::ThreadRecords thread;
  thread.records = {
      record("relu", Kind::kOp, 1, 1, 2, 500),
      record("conv2d_input_grad", Kind::kOp, 4, 5, 6, 300),
      record("hook", Kind::kUser, 3, 4, 7, -1),  // not measured: has no time of its own
      record("conv2d", Kind::kBackward, 2, 3, 8, 1000),
      record("backward pass", Kind::kOp, 1, 3, 9, -1),
      record("view", Kind::kView, 1, 10, 11, 10),
      record("sum", Kind::kOp, 2, 13, 14, 40),
      record("sum", Kind::kOp, 1, 12, 15, 60),
      record("add", Kind::kOp, 3, 18, 19, 50),
      record("SGD", Kind::kOptimizer, 2, 17, 20, 200),
      record("GradScaler", Kind::kOptimizer, 1, 16, 21, -1),
      record("empty", Kind::kOp, 1, 22, 23, 0),
      record("step", Kind::kUser, 0, 0, 24, -1)};
  profile::Recording recording;
  recording.threads.push_back(thread);
  const auto text = [&] {
    std::string all;
    for (const MeasuredOp& op : measured_ops(recording))
      all += concat(op.op, "=", std::llround(1e9 * op.seconds), " ");
    return all;
  };
  CHECK(text() ==
        "relu=500 conv2d backward=700 conv2d_input_grad=300 sum=60 GradScaler=200 empty=0 ");
  recording.has_activities = true;  // then it is that of each range itself
  CHECK(text() ==
        "relu=500 conv2d backward=1000 conv2d_input_grad=300 sum=100 GradScaler=250 empty=0 ");
}

TEST_CASE("plan: a measured time stands at the first launch of its op") {
  const std::vector<Launch> launches = {
      {.number = 1, .op = "batch_norm"}, {.number = 1, .op = "batch_norm"},
      {.number = 2, .op = "relu"},       {.number = 3, .op = "batch_norm"},
      {.number = 4, .op = "batch_norm"}, {.number = 4, .op = "batch_norm"}};
  using Times = std::vector<std::optional<double>>;
  const Times times =
      times_beside(launches, {{"batch_norm", 5}, {"batch_norm", 7}, {"add", 9}, {"batch_norm", 8}});
  CHECK((times == Times{5.0, std::nullopt, std::nullopt, 7.0, 8.0, std::nullopt}));
  // With one more or fewer, nobody knows which is which.
  CHECK((times_beside(launches, {{"batch_norm", 5}, {"batch_norm", 7}, {"relu", 2}}) ==
         Times{std::nullopt, std::nullopt, 2.0, std::nullopt, std::nullopt, std::nullopt}));
  CHECK((times_beside(launches, {}) == Times(launches.size())));
}

TEST_CASE("plan: memory is what the allocator takes for the batch") {
  // 20 MiB that stay, and in each step 10 MiB per image beside 10 MiB that come and go.
  const MemoryScript script{.steps = {{0, true, 20 * kMiB, 0},
                                      {1, true, 0, 10 * kMiB},
                                      {1, false, 0, 10 * kMiB},
                                      {2, true, 0, 10 * kMiB},
                                      {3, true, 10 * kMiB, 0},
                                      {3, false, 10 * kMiB, 0},
                                      {2, false, 0, 10 * kMiB}},
                            .last_step = 3};
  const auto two = replay(script, 2, 100 * kMiB);
  REQUIRE(two);
  CHECK(two->peak_allocated == (20 + 20 + 10) * kMiB);
  CHECK(two->reserved == (20 + 20 + 10) * kMiB);
  const std::vector<int64_t> curve = memory_over_step(script, 2, 100 * kMiB);
  CHECK(curve == std::vector<int64_t>{40 * kMiB, 50 * kMiB});
  CHECK(memory_over_step(script, 8, 100 * kMiB).empty());
  CHECK(replay(script, 7, 100 * kMiB));
  CHECK_FALSE(replay(script, 8, 100 * kMiB));
  CHECK(largest_batch(script, 100 * kMiB) == 7);
  CHECK(largest_batch(script, 10 * kMiB) == 0);
  CHECK(largest_batch({.steps = {{0, true, kMiB, 0}}}, 100 * kMiB) == kMostImages);  // or more
}

TEST_CASE("plan: what the CPU alone takes is not in the memory, nor does it number the rest") {
  const auto steps = [](int64_t batch, int64_t bytes, bool scratch) {
    StepRecording step{.batch = batch, .ops = {{.name = "a"}, {.name = "b"}}};
    if (scratch) step.memory = {{7, 64, true, 0}, {7, 64, false, 0}};
    for (const MemoryNote& note : {MemoryNote{8, 4096, true, 0, true},
                                   {9, bytes, true, 0},
                                   {8, 4096, false, 1, true},
                                   {9, bytes, false, 1}})
      step.memory.push_back(
          {note.block + scratch, note.bytes, note.taken, note.op, note.workspace});
    return step;
  };
  const auto script = memory_script(steps(2, 1000, false), steps(4, 2001, true));
  REQUIRE(script.steps.size() == 2);
  CHECK(script.steps[0].block == script.steps[1].block);
  CHECK(script.steps[0].taken);
  CHECK_FALSE(script.steps[1].taken);
  CHECK(script.steps[0].bytes_per_image == 501);  // 500.5 rounded up
  CHECK(script.steps[0].bytes == 1000 - 2 * 501);
  CHECK(memory_script(steps(4, 2001, true), steps(2, 1000, false)).steps[0].bytes_per_image == 501);
}

TEST_CASE("plan: half copies and half gradients are in the memory") {
  const auto peak = [](const char* amp) {
    const auto memory =
        replay(memory_script(small_step(amp, 2), small_step(amp, 3)), 1, int64_t{1} << 32);
    REQUIRE(memory);
    return memory->peak_allocated;
  };
  // At batch 1 the parameters count: 4 bytes each for weight, momentum and gradient; with halves 2
  // for the copy and 2 for the gradient in place of 4 for that.
  const int64_t weights = 75290;
  CHECK(peak("off") > 12 * weights);
  CHECK(peak("fp16") > 12 * weights);
  // Whole gradients beside the copies would take 2 bytes more for each; activations shrink.
  CHECK(peak("fp16") < peak("off") + weights / 2);
}
