// train::Trainer on text: a network that predicts the next character from the eight before it. The
// text is one that repeats; a file can take its place.
//
//   fit_language [EPOCHS] [FILE]
#include <lathe/lathe.h>
#include <lathe/train.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>

namespace nn = lathe::nn;
namespace train = lathe::train;
using lathe::Tensor;

constexpr int64_t kContext = 8, kBytes = 256;

std::string text_of(int argc, char** argv) {
  if (argc > 2) {
    std::ifstream file(argv[2], std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  std::string text;
  for (int i = 0; i < 150; ++i) text += "one two three four five six seven eight nine ten. ";
  return text;
}

int main(int argc, char** argv) {
  lathe::manual_seed(1);
  const std::string text = text_of(argc, argv);
  std::vector<int64_t> bytes(text.begin(), text.end());
  for (int64_t& byte : bytes) byte &= 255;
  const auto set = lathe::data::from_function(int64_t(bytes.size()) - kContext, [&](int64_t i) {
    const auto at = bytes.begin() + i;
    return lathe::data::Example{lathe::tensor(std::vector<int64_t>(at, at + kContext)),
                                lathe::full({}, at[kContext], {.dtype = lathe::kI64})};
  });
  const auto parts =
      lathe::data::random_split(set, {set.size() - set.size() / 10, set.size() / 10}, 1);
  lathe::data::DataLoader training(parts[0], {.batch_size = 64, .shuffle = true});
  lathe::data::DataLoader validation(parts[1], {.batch_size = 64});

  nn::Sequential net;
  net.add<nn::Embedding>(kBytes, 16);
  net.add<nn::Flatten>();
  net.add<nn::Linear>(16 * kContext, 128);
  net.add<nn::GELU>();
  net.add<nn::Linear>(128, kBytes);
  lathe::optim::AdamW optimizer(net.parameters(), {.lr = 2e-3});

  train::Trainer trainer(net, optimizer,
                         {.epochs = argc > 1 ? std::atoi(argv[1]) : 3, .clip_grad_norm = 1});
  trainer.add(train::perplexity()).add(train::progress_bar());
  const train::FitResult result = trainer.fit(training, validation);
  std::cout << "perplexity: " << train::value_of(result.metrics, "perplexity") << '\n';
}
