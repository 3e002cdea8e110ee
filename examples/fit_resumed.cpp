// Kill it at any moment and start it again: it ends with the bits of a run that nobody interrupted.
#include <lathe/lathe.h>
#include <lathe/train.h>
namespace data = lathe::data;

int main(int argc, char** argv) {  // fit_resumed RUN_DIR [DEVICE [IMAGES]]; also by lathe launch
  lathe::manual_seed(1);
  const auto ranks = lathe::distributed::options_from_environment();
  lathe::distributed::ProcessGroup group(ranks.value_or(lathe::distributed::GroupOptions{}));
  const int64_t world = group.world_size(), count = argc > 3 ? std::atoll(argv[3]) : 400;
  const data::Synthetic images({.size = count}, data::normalize({.5, .5, .5}, {.3, .3, .3}));
  const auto part = std::make_shared<data::DistributedSampler>(count, group.rank(), world);
  data::DataLoader loader(images, {.batch_size = 16 / world, .sampler = part});
  auto net = lathe::nn::resnet8({.classes = 10});
  net.to(lathe::Device(argc > 2 ? argv[2] : "cpu"));
  lathe::optim::SGD optimizer(net.parameters(), {.lr = 0.05, .momentum = 0.9});
  lathe::optim::CosineAnnealingLR schedule(optimizer, {.t_max = count / 4});
  lathe::train::Trainer trainer(net, optimizer,
                                {.epochs = 4,
                                 .schedule = &schedule,
                                 .run_dir = argc > 1 ? argv[1] : "runs/fit_resumed",
                                 .resume = "auto",
                                 .save_every = 5,
                                 .group = world > 1 ? &group : nullptr});
  trainer.add(lathe::train::metrics_files()).fit(loader);
}
