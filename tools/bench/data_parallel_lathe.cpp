// data_parallel_lathe MODEL BATCH THREADS STEPS plain|ddp|both [TRACE]: seconds of training steps
// (forward, loss, backward, SGD with momentum) of one rank with BATCH images of 32x32. The ranks
// come from the environment. "both": two models take turns, one with DistributedDataParallel.
// Rank 0 prints a JSON object of lists, and writes a trace of its last 3 steps.
// compare_data_parallel.py builds and runs it.
#include <lathe/lathe.h>
#include <lathe/nn/models.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

using lathe::Tensor;
namespace distributed = lathe::distributed;

namespace {

class Training {
 public:
  Training(const std::string& name, int64_t batch, distributed::ProcessGroup* group)
      : model_(lathe::nn::make_model(
            name, {.classes = 10, .image_size = 32, .stem = lathe::nn::Stem::kCifar})),
        x_(lathe::randn({batch, 3, 32, 32}).contiguous(lathe::kChannelsLast)),
        y_(lathe::randint(0, 10, {batch})) {
    if (group != nullptr)
      parallel_ = std::make_unique<distributed::DistributedDataParallel>(*group, *model_);
    sgd_ = std::make_unique<lathe::optim::SGD>(
        model_->parameters(), lathe::optim::SGDOptions{.lr = 0.01, .momentum = 0.9});
  }

  void step() {
    const auto begin = std::chrono::steady_clock::now();
    sgd_->zero_grad();
    cross_entropy(parallel_ ? (*parallel_)(x_) : (*model_)(x_), y_).backward();
    sgd_->step();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    seconds_.push_back(took.count());
  }

  void print(const char* name) const {
    std::printf("\"%s\": [", name);
    for (size_t i = 0; i < seconds_.size(); ++i)
      std::printf("%s%.6f", i > 0 ? ", " : "", seconds_[i]);
    std::printf("]");
  }

 private:
  std::unique_ptr<lathe::nn::Module> model_;
  Tensor x_, y_;
  std::unique_ptr<distributed::DistributedDataParallel> parallel_;
  std::unique_ptr<lathe::optim::SGD> sgd_;
  std::vector<double> seconds_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 6) return 2;
  const std::string name = argv[1], mode = argv[5];
  const int64_t batch = std::atoll(argv[2]);
  const int steps = std::atoi(argv[4]);
  lathe::set_num_threads(std::atoi(argv[3]));
  lathe::manual_seed(1);
  distributed::ProcessGroup group(
      distributed::options_from_environment().value_or(distributed::GroupOptions{}));
  std::unique_ptr<Training> plain, parallel;
  if (mode != "ddp") plain = std::make_unique<Training>(name, batch, nullptr);
  if (mode != "plain") parallel = std::make_unique<Training>(name, batch, &group);
  const auto step = [&] {
    if (plain) plain->step();
    if (parallel) parallel->step();
  };
  for (int i = 0; i < steps; ++i) step();
  if (argc > 6) {
    lathe::profile::Profiler profiler;
    for (int i = 0; i < 3; ++i) {
      step();
      profiler.step();
    }
    profiler.stop();
    if (group.rank() == 0) profiler.write_trace(argv[6]);
  }
  if (group.rank() != 0) return 0;
  std::printf("{");
  if (plain) plain->print("plain");
  if (plain && parallel) std::printf(", ");
  if (parallel) parallel->print("ddp");
  std::printf("}\n");
}
