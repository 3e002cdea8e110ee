// lathe bench kernels: memory-bound kernels in bytes per second, next to a plain copy on the same
// device. Bytes are those that must be read and written, each counted once.
#include <algorithm>
#include <functional>

#include "lathe/autograd/engine.h"
#include "lathe/autograd/grad_mode.h"
#include "lathe/core/copy.h"
#include "lathe/core/text/formatted.h"
#include "lathe/core/thread_pool.h"
#include "lathe/ops/batch_norm.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/dropout.h"
#include "lathe/ops/embedding.h"
#include "lathe/ops/layer_norm.h"
#include "lathe/ops/pool2d.h"
#include "lathe/ops/random.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/softmax.h"
#include "lathe/ops/unary.h"
#include "lathe/optim/adam.h"
#include "lathe/optim/sgd.h"
#include "lathe/tools/cli/commands/bench.h"
#include "lathe/tools/cli/output.h"
#include "lathe/tools/cli/parse_value.h"
#include "lathe/tools/cli/settings/command.h"
#include "lathe/tools/cli/training/compute.h"

namespace lathe::cli {
namespace {

struct KernelCase {
  std::string_view kernel;
  DType dtype;
  int64_t bytes;  // per call
  std::function<void()> f;
};

/// N images of a ResNet's first stage, NHWC; `bytes` is the size of all.
Tensor images(int64_t bytes, DType dtype, Device device) {
  const int64_t count = bytes / (64 * 32 * 32 * static_cast<int64_t>(size_of(dtype)));
  return randn({std::max<int64_t>(count, 1), 64, 32, 32}, {.dtype = dtype, .device = device})
      .contiguous(kChannelsLast);
}

void add_cases(std::vector<KernelCase>& cases, DType dtype, int64_t bytes, Device device) {
  const Tensor x = images(bytes, dtype, device), other = images(bytes, dtype, device);
  const Tensor out = empty_like(x), planes = empty(x.shape(), {.dtype = dtype, .device = device});
  const int64_t n = x.bytes();
  const Tensor rows = randn({x.numel() / 1024, 1024}, {.dtype = dtype, .device = device});
  const Tensor weight = ones({64}, {.device = device}), bias = zeros({64}, {.device = device});
  const Tensor wide = ones({1024}, {.device = device}), flat = zeros({1024}, {.device = device});
  const Tensor channel = randn({1, 64, 1, 1}, {.dtype = dtype, .device = device});
  const Tensor picks = randint(0, rows.dim(0), {rows.dim(0)}, {.device = device});
  const DType half = dtype == kF32 ? kF16 : kF32;
  const int64_t casted = n + x.numel() * static_cast<int64_t>(size_of(half));
  const auto add_case = [&](std::string_view name, int64_t moved, std::function<void()> f) {
    cases.push_back({name, dtype, moved, std::move(f)});
  };
  add_case("copy", 2 * n, [=] { copy_values(out, x); });
  add_case("fill", n, [=] { fill_values(out, 1.0); });
  add_case("cast", casted, [=] { cast(x, half); });
  add_case("nhwc_to_nchw", 2 * n, [=] { copy_values(planes, x); });
  add_case("relu", 2 * n, [=] { relu(x); });
  add_case("add", 3 * n, [=] { add(x, other); });
  add_case("add_channel", 2 * n, [=] { add(x, channel); });
  add_case("sum", n, [=] { sum(x); });
  add_case("sum_channels", n, [=] { sum(x, {0, 2, 3}); });
  add_case("sum_rows", n, [=] { sum(rows, {1}); });
  add_case("softmax", 2 * n, [=] { softmax(rows, 1); });
  add_case("layer_norm", 2 * n, [=] { layer_norm(rows, {1024}, {.weight = wide, .bias = flat}); });
  add_case("embedding", 2 * n, [=] { embedding(rows, picks); });
  add_case("max_pool2d", n + n / 4, [=] { max_pool2d(x, {.kernel = 2, .stride = 2}); });
  add_case("dropout", 2 * n, [=] { dropout(x); });
  add_case("uniform", n, [=] { uniform_(out, 0, 1); });
  add_case("normal", n, [=] { normal_(out, 0, 1); });
  // Statistics read x once, the normalisation reads and writes it.
  const BatchNormOptions training{.training = true};
  add_case("batch_norm_relu", 3 * n, [=] { batch_norm_relu(x, weight, bias, {}, {}, training); });
  add_case("batch_norm_add_relu", 4 * n,
           [=] { batch_norm_add_relu(x, other, weight, bias, {}, {}, training); });
  // Backward: the sums read x and dy, dx reads both again and is written.
  const Tensor leaf = x.detach();
  leaf.requires_grad_();
  Tensor y;
  {
    const EnableGrad on;
    y = batch_norm_relu(leaf, weight, bias, {}, {}, training);
  }
  add_case("batch_norm_relu_backward", 5 * n, [=] {
    const EnableGrad on;
    grad({y}, {leaf}, {.grad_outputs = {other}, .retain_graph = true});
  });
}

/// Optimisers: they read and write f32 parameters, gradients and buffers.
void add_optimizers(std::vector<KernelCase>& cases, int64_t bytes, Device device) {
  const EnableGrad on;
  const Tensor p = randn({bytes / 4}, {.device = device, .requires_grad = true});
  p.set_grad(randn({bytes / 4}, {.device = device}));
  const auto sgd =
      std::make_shared<optim::SGD>(Tensors{p}, optim::SGDOptions{.lr = 1e-6, .momentum = 0.9});
  const auto adam = std::make_shared<optim::Adam>(Tensors{p}, optim::AdamOptions{.lr = 1e-6});
  cases.push_back({"sgd_momentum", kF32, 5 * p.bytes(), [sgd] { sgd->step(); }});
  cases.push_back({"adam", kF32, 7 * p.bytes(), [adam] { adam->step(); }});
}

}  // namespace

ExitCode run_bench_kernels(const Invocation& call) {
  const Output out(call.settings.json);
  Settings settings = call.settings;
  const Device device = prepare_compute(settings);
  const int64_t bytes = int64_t{device.is_cuda() ? 256 : 64} << 20;  // beyond every cache
  const NoGrad no_grad;
  std::vector<KernelCase> cases;
  add_cases(cases, kF32, bytes, device);
  if (device.is_cuda()) add_cases(cases, kF16, bytes, device);
  add_optimizers(cases, bytes, device);
  std::vector<std::string_view> names;
  for (const KernelCase& c : cases) names.push_back(c.kernel);
  for (const std::string& name : call.words) {
    if (std::ranges::find(names, name) == names.end())
      throw UsageError(formatted("{}: no such kernel benchmark{}", name, suggestion(name, names)));
  }
  double copy_rate = 0;  // of the first case; the others are compared with it
  for (const KernelCase& c : cases) {
    const bool wanted =
        call.words.empty() || std::ranges::find(call.words, c.kernel) != call.words.end();
    if (!wanted && copy_rate > 0) continue;
    const Timing timing = measure(
        c.f,
        lasting(settings.seconds,
                {.warm_up_seconds = 0.05, .window_seconds = 0.03, .windows = 7, .device = device}));
    const double rate = static_cast<double>(c.bytes) / timing.median;
    if (copy_rate == 0) copy_rate = rate;
    if (!wanted) continue;
    Row row;
    row.add("bench", "kernels")
        .add("kernel", std::string(c.kernel))
        .add("dtype", concat(c.dtype))
        .add("bytes", c.bytes)
        .add("device", concat(device))
        .add("threads", num_threads())
        .add("of_copy", rate / copy_rate);
    out.row(add_timing(row, timing, "bytes", static_cast<double>(c.bytes)));
    out.text(formatted("{:<26} {:<4} {:9.1f} GB/s {:5.1f} % of copy {:11.1f} us", c.kernel,
                       concat(c.dtype), rate / 1e9, 100 * rate / copy_rate, 1e6 * timing.median));
  }
  return ExitCode::kDone;
}

}  // namespace lathe::cli
