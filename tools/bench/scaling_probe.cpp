// scaling_probe LEDGER STEPS [FIRST_KIB BUCKET_KIB]: milliseconds of a data-parallel step whose
// computation is waiting, so that many ranks fit on few processors and only the network is
// measured. Ranks come from the environment; rank 0 prints one JSON line. LEDGER has a line
// "parameters seconds" for each part of the backward pass. shaped_network.py builds and runs it.
#include <lathe/lathe.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using lathe::Tensor;
namespace distributed = lathe::distributed;
using Clock = std::chrono::steady_clock;

namespace {

struct Part {
  int64_t parameters;
  double seconds;
};

/// x, whose backward pass waits and gives w a gradient of ones.
struct Wait : lathe::CustomFunction<Wait> {
  struct Context : lathe::FunctionContext {
    double seconds = 0;
    Tensor w;
  };
  static Tensor forward(Context& context, const Tensor& x, const Tensor& w, double seconds) {
    context.seconds = seconds;
    context.w = w.detach();
    return x.clone();
  }
  static lathe::Tensors backward(Context& context, const lathe::Tensors& dy) {
    std::this_thread::sleep_for(std::chrono::duration<double>(context.seconds));
    return {dy[0], ones_like(context.w)};
  }
};

struct Model : lathe::nn::Module {
  explicit Model(const std::vector<Part>& ledger) : parts(ledger) {
    for (size_t i = parts.size(); i-- > 0;)  // the first part of the backward pass is the last here
      weights.push_back(parameter("w" + std::to_string(i),
                                  lathe::zeros({std::max<int64_t>(1, parts[i].parameters)})));
  }
  Tensor forward(const Tensor& x) override {
    Tensor h = x;
    for (size_t i = 0; i < weights.size(); ++i) {
      const Tensor w = weights[i];
      h = Wait::apply(h, w, parts[parts.size() - 1 - i].seconds);
    }
    return h;
  }
  std::vector<Part> parts;
  std::vector<lathe::nn::Parameter> weights;
};

}  // namespace

int main(int count, char** words) {
  const int steps = count < 3 ? 0 : std::atoi(words[2]);
  if (steps < 1) {
    std::fputs("usage: scaling_probe LEDGER STEPS [FIRST_KIB BUCKET_KIB], with 1 step or more\n",
               stderr);
    return 2;
  }
  std::vector<Part> ledger;
  std::ifstream in(words[1]);
  for (Part part{}; in >> part.parameters >> part.seconds;) ledger.push_back(part);
  lathe::set_num_threads(1);
  distributed::ProcessGroup group(
      distributed::options_from_environment().value_or(distributed::GroupOptions{}));
  Model model(ledger);
  distributed::DataParallelOptions how{.broadcast_buffers = false};
  if (count > 4) {
    how.first_bucket_bytes = std::atoll(words[3]) << 10;
    how.bucket_bytes = std::atoll(words[4]) << 10;
  }
  distributed::DistributedDataParallel parallel(group, model, how);
  const Tensor x = lathe::ones({1});
  std::vector<double> times;
  bool right = true;
  for (int step = 0; step < steps + 2; ++step) {
    model.zero_grad();
    group.barrier().wait();
    const auto begin = Clock::now();
    parallel(x).sum().backward();
    const std::chrono::duration<double, std::milli> passed = Clock::now() - begin;
    if (step >= 2)
      times.push_back(passed.count());  // the first one learns the order of the gradients
    for (const auto& w : model.weights) right = right && equal(w.grad(), ones_like(w));
  }
  std::ranges::sort(times);
  double sum = 0;
  for (const double ms : times) sum += ms;
  if (group.rank() == 0)
    std::printf("{\"ranks\":%d,\"step_ms\":%.2f,\"mean_ms\":%.2f,\"most_ms\":%.2f,\"right\":%s}\n",
                int(group.world_size()), times[times.size() / 2], sum / double(times.size()),
                times.back(), right ? "true" : "false");
  return right ? 0 : 1;
}
