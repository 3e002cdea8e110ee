// lathe bench op [op...]: single ops, forward alone and with the gradient.
#include <algorithm>
#include <functional>

#include "lathe/autograd/grad_mode.h"
#include "lathe/core/thread_pool.h"
#include "lathe/ops/batch_norm.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/conv2d.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/cross_entropy.h"
#include "lathe/ops/matmul.h"
#include "lathe/ops/random.h"
#include "lathe/ops/unary.h"
#include "lathe/tools/cli/commands/bench.h"
#include "lathe/tools/cli/formatted.h"
#include "lathe/tools/cli/output.h"
#include "lathe/tools/cli/parse_value.h"
#include "lathe/tools/cli/settings/command.h"
#include "lathe/tools/cli/training/compute.h"

namespace lathe::cli {
namespace {

struct OpCase {
  std::string_view op;
  const char* shape;
  int64_t images;  // in the input, for images_per_second
  Tensors inputs;
  std::function<Tensor(const Tensors&)> f;
};

using In = const Tensors&;

OpCase conv_case(const char* shape, int64_t channels, int64_t side, int64_t filters,
                 int64_t stride) {
  return {"conv2d",
          shape,
          64,
          {randn({64, channels, side, side}), randn({filters, channels, 3, 3})},
          [stride](In in) { return conv2d(in[0], in[1], {.stride = stride, .pad = 1}); }};
}

std::vector<OpCase> op_cases(Device device) {
  std::vector<OpCase> cases = {
      {"add", "[16]", 1, {randn({16}), randn({16})}, [](In in) { return add(in[0], in[1]); }},
      {"add",
       "[64,64,32,32]",
       64,
       {randn({64, 64, 32, 32}), randn({64, 64, 32, 32})},
       [](In in) { return add(in[0], in[1]); }},
      {"relu", "[64,64,32,32]", 64, {randn({64, 64, 32, 32})}, [](In in) { return relu(in[0]); }},
      {"batch_norm",
       "[64,64,32,32]",
       64,
       {randn({64, 64, 32, 32}), ones({64}), zeros({64})},
       [](In in) { return batch_norm(in[0], in[1], in[2], {}, {}, {.training = true}); }},
      conv_case("[64,64,32,32] 64", 64, 32, 64, 1),
      conv_case("[64,64,32,32] 128 /2", 64, 32, 128, 2),
      conv_case("[64,256,8,8] 256", 256, 8, 256, 1),
      {"matmul",
       "[512,512] [512,512]",
       1,
       {randn({512, 512}), randn({512, 512})},
       [](In in) { return matmul(in[0], in[1]); }},
      {"cross_entropy",
       "[64,1000]",
       64,
       {randn({64, 1000})},
       [y = randint(0, 1000, {64}, {.device = device})](In in) { return cross_entropy(in[0], y); }},
  };
  for (OpCase& c : cases) {
    for (Tensor& t : c.inputs) t = t.to(device);
  }
  return cases;
}

std::string microseconds(double seconds) {
  return formatted("{:.{}f}", 1e6 * seconds, seconds < 1e-4 ? 2 : 0);
}

void report(const Output& out, const OpCase& c, const char* pass, const Timing& timing) {
  Row row;
  row.add("bench", "op")
      .add("op", std::string(c.op))
      .add("shape", c.shape)
      .add("pass", pass)
      .add("threads", num_threads());
  out.row(add_timing(row, timing, "images", static_cast<double>(c.images)));
  out.text(formatted("{:<13} {:<20} {:<16} {:>8} us ({} to {})", c.op, c.shape, pass,
                     microseconds(timing.median), microseconds(timing.low),
                     microseconds(timing.high)));
}

void time_case(const Output& out, const Settings& settings, const OpCase& c) {
  const TimingOptions options =
      lasting(settings.seconds,
              {.warm_up_seconds = 0.1, .window_seconds = 0.05, .device = c.inputs[0].device()});
  {
    const NoGrad no_grad;
    report(out, c, "forward", measure([&] { c.f(c.inputs); }, options));
  }
  for (const Tensor& t : c.inputs) t.requires_grad_();
  Tensor dy;
  const auto both = [&] {
    const Tensor y = c.f(c.inputs);
    if (!dy.defined()) dy = ones_like(y);
    y.backward(dy);
    for (const Tensor& t : c.inputs) t.set_grad({});
  };
  report(out, c, "forward+backward", measure(both, options));
}

}  // namespace

ExitCode run_bench_op(const Invocation& call) {
  const Output out(call.settings.json);
  Settings settings = call.settings;
  const Device device = prepare_compute(settings);
  const std::vector<OpCase> cases = op_cases(device);
  std::vector<std::string_view> names;
  for (const OpCase& c : cases) names.push_back(c.op);
  for (const std::string& name : call.words) {
    if (std::find(names.begin(), names.end(), name) == names.end())
      throw UsageError(formatted("{}: no benchmark of this op{}", name, suggestion(name, names)));
  }
  for (const OpCase& c : cases) {
    if (call.words.empty() ||
        std::find(call.words.begin(), call.words.end(), c.op) != call.words.end())
      time_case(out, settings, c);
  }
  return ExitCode::kDone;
}

}  // namespace lathe::cli
