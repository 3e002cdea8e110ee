// A program that trains with train::Trainer, for program_run_test.py: the command goes on with its
// run.   begun_by_program RUN_DIR PAUSE_AFTER [VARIANT]
#include <cstdlib>
#include <memory>
#include <string>

#include "lathe/core/thread_pool.h"
#include "lathe/lathe.h"
#include "lathe/train.h"

using namespace lathe;

namespace {

data::Synthetic images(int64_t size, uint64_t seed) {
  data::Synthetic all({.size = size, .seed = seed});
  all.set_transform(data::normalize(all.mean(), all.std()));
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : "", variant = argc > 3 ? argv[3] : "";
  set_num_threads(2);
  manual_seed(0);
  const data::Synthetic seen = images(60, 0), unseen = images(12, 0x7e57);
  data::DataLoader loader(seen, {.batch_size = 10, .shuffle = true});
  data::DataLoader test_loader(unseen, {.batch_size = 10});
  auto net = nn::resnet8({.classes = 10});
  std::unique_ptr<optim::Optimizer> optimizer;
  if (variant == "adamw") {
    optimizer = std::make_unique<optim::AdamW>(net.parameters(), optim::AdamWOptions{.lr = 0.002});
  } else {
    optimizer = std::make_unique<optim::SGD>(
        net.parameters(), optim::SGDOptions{.lr = 0.05,
                                            .momentum = 0.8,
                                            .dampening = variant == "dampened" ? 0.1 : 0,
                                            .weight_decay = 0.001});
  }
  optim::CosineAnnealingLR schedule(*optimizer, {.t_max = 18});
  const bool by_loss = variant == "by-loss", by_epoch = variant == "by-epoch";
  train::Trainer trainer(
      net, *optimizer,
      {.epochs = 3,
       .pause_after = argc > 2 ? std::atoll(argv[2]) : 0,
       .clip_grad_norm = 2.5,
       .ema = variant == "adamw" ? 0.9 : 0,
       .schedule = variant == "schedule" || by_epoch ? &schedule : nullptr,
       .schedule_by_epoch = by_epoch,
       .monitor = by_loss ? "loss" : "",
       .run_dir = folder,
       .log_every = 3,
       .metadata = variant == "named" ? safetensors::Metadata{{"lathe.dataset", "synthetic"}}
                                      : safetensors::Metadata()});
  trainer.add(train::metrics_files()).fit(loader, test_loader);
}
