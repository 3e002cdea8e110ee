// Fine-tuning with train::Trainer: a ResNet-18 learns the classes of a folder of images, which has a
// folder per class in train/ and in val/. Its weights may come from a file of torchvision's.
//
//   fit_finetune FOLDER [WEIGHTS] [EPOCHS]
// It keeps its run in runs/fit_finetune, and goes on there when it is called again.
#include <lathe/lathe.h>
#include <lathe/train.h>

#include <cstdlib>
#include <iostream>

namespace data = lathe::data;
namespace nn = lathe::nn;
namespace train = lathe::train;

int main(int argc, char** argv) try {
  if (argc < 2) throw std::runtime_error("usage: fit_finetune FOLDER [WEIGHTS] [EPOCHS]");
  lathe::manual_seed(1);
  const std::string folder = argv[1], weights = argc > 2 ? argv[2] : "";
  const int64_t epochs = argc > 3 ? std::atoi(argv[3]) : 5;
  const auto normal = data::normalize({0.485, 0.456, 0.406}, {0.229, 0.224, 0.225});
  const data::ImageFolder images(
      folder + "/train",
      {.transform = data::compose(data::random_resized_crop(64), data::hflip(), normal)});
  const data::ImageFolder others(
      folder + "/val",
      {.transform = data::compose(data::resize(72), data::center_crop(64), normal)});
  data::DataLoader training(images, {.batch_size = 16, .shuffle = true, .num_workers = 2});
  data::DataLoader validation(others, {.batch_size = 16, .num_workers = 2});

  auto net = nn::resnet18({.classes = images.classes()});
  if (!weights.empty()) nn::load_without_head(net, weights);  // the head has other classes
  net.to(lathe::cuda_is_available() ? lathe::Device("cuda") : lathe::kCPU);
  lathe::optim::AdamW optimizer(net.parameters(), {.lr = 5e-4});
  lathe::optim::CosineAnnealingLR schedule(optimizer, {.t_max = epochs});

  train::Trainer trainer(net, optimizer,
                         {.epochs = epochs,
                          .ema = 0.99,
                          .schedule = &schedule,
                          .schedule_by_epoch = true,
                          .run_dir = "runs/fit_finetune",
                          .resume = "auto"});
  trainer.add(train::progress_bar()).add(train::metrics_files()).add(train::log_file());
  const train::FitResult result = trainer.fit(training, validation);
  std::cout << "accuracy " << result.best << " in epoch " << result.best_epoch << '\n';
} catch (const std::exception& e) {
  std::cerr << "fit_finetune: " << e.what() << '\n';
  return 1;
}
