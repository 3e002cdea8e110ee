// train::Trainer on a task of its own: a network finds discs in noisy images. The loss function says
// what a batch is; a metric counts what the network has found.
//
//   fit_segmentation [EPOCHS] [RUN_DIR]
// With a folder for the run, a second call goes on where the first one was, even if it was killed.
#include <lathe/lathe.h>
#include <lathe/train.h>

#include <cstdlib>
#include <iostream>

namespace nn = lathe::nn;
namespace train = lathe::train;
using lathe::Tensor;

struct Batch {
  Tensor images;  // [N,1,32,32]
  Tensor discs;   // [N,32,32], i64: 1 inside of a disc
};

std::vector<Batch> draw(int64_t batches) {
  const Tensor at = lathe::arange(32).to(lathe::kF32);
  std::vector<Batch> all;
  for (int64_t b = 0; b < batches; ++b) {
    const Tensor middle = lathe::rand({16, 2, 1, 1}) * 20 + 6,
                 radius = lathe::rand({16, 1, 1}) * 4 + 3;
    const Tensor dx = at.view({1, 32}) - middle.select(1, 0),
                 dy = at.view({32, 1}) - middle.select(1, 1);
    const Tensor inside = lathe::lt(dx * dx + dy * dy, radius * radius);
    const Tensor images = inside.to(lathe::kF32) + lathe::randn({16, 32, 32}) * 0.5;
    all.push_back({images.unsqueeze(1), inside.to(lathe::kI64)});
  }
  return all;
}

int main(int argc, char** argv) {
  lathe::manual_seed(1);
  nn::Sequential net;
  for (const int64_t in : {1, 12, 12}) {
    net.add<nn::Conv2d>(in, 12, nn::Conv2dOptions{.kernel = 5, .pad = 2});
    net.add<nn::ReLU>();
  }
  net.add<nn::Conv2d>(12, 2, nn::Conv2dOptions{.kernel = 1});
  lathe::optim::Adam optimizer(net.parameters(), {.lr = 3e-3});
  std::vector<Batch> training = draw(30), validation = draw(5);

  train::Trainer trainer(net, optimizer,
                         {.epochs = argc > 1 ? std::atoi(argv[1]) : 5,
                          .run_dir = argc > 2 ? argv[2] : "",
                          .resume = argc > 2 ? "auto" : ""});
  trainer.loss<Batch>([&](const Batch& batch) {
    const Tensor scores = net(batch.images);
    return train::Result{lathe::cross_entropy(scores, batch.discs), scores, batch.discs};
  });
  trainer.add(train::mean_iou(2)).add(train::progress_bar());
  const train::FitResult result = trainer.fit(training, validation);
  std::cout << "intersection over union: " << result.best << '\n';
}
