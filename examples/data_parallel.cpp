// Several processes train one network, each on its part of every batch. One command for all:
//   lathe launch -n 2 build/release/examples/data_parallel
// or two terminals, a command each:
//   RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 build/release/examples/data_parallel
//   RANK=1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 build/release/examples/data_parallel
#include <lathe/lathe.h>

#include <iostream>
#include <memory>

namespace nn = lathe::nn;
namespace data = lathe::data;
namespace distributed = lathe::distributed;
using lathe::Tensor;

int main() {
  lathe::manual_seed(7);
  const auto options = distributed::options_from_environment();  // none: one process by itself
  distributed::ProcessGroup group(options.value_or(distributed::GroupOptions{}));

  constexpr int64_t kImages = 2048, kBatch = 64;  // of all ranks together
  const data::Synthetic images({.size = kImages},
                               data::normalize({0.5, 0.5, 0.5}, {0.3, 0.3, 0.3}));
  const auto part =
      std::make_shared<data::DistributedSampler>(kImages, group.rank(), group.world_size());
  data::DataLoader loader(images,
                          {.batch_size = kBatch / group.world_size(), .seed = 7, .sampler = part});

  nn::CifarResNet net = nn::resnet8({.classes = 10});
  distributed::DistributedDataParallel parallel(group, net);
  lathe::optim::SGD sgd(net.parameters(), {.lr = 0.1, .momentum = 0.9, .weight_decay = 5e-4});
  for (int epoch = 0; epoch < 2; ++epoch) {
    Tensor sums = lathe::zeros({2}, {.dtype = lathe::kF64});  // losses, batches
    for (auto& [x, y] : loader) {
      sgd.zero_grad();
      const Tensor loss = lathe::cross_entropy(parallel(x), y);
      loss.backward();  // gradients: the average over all ranks
      sgd.step();
      sums += lathe::tensor({loss.item<double>(), 1.0});
    }
    group.all_reduce_(sums).wait();
    if (group.rank() == 0)
      std::cout << "epoch " << epoch << "  loss " << sums[0].item<double>() / sums[1].item<double>()
                << "  ranks " << group.world_size() << '\n';
  }
}
