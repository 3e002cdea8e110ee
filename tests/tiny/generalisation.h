// The experiment of docs/tour/generalisation.md: a small network learns few images, some of which have wrong labels.
#pragma once

#include "../../tiny/loader.h"
#include "../../tiny/net.h"
#include "../../tiny/sgd.h"

namespace tiny {

/// 12 x 12 pixels of noise with a bright line of five pixels anywhere. Its direction is the class:
/// 0 is -, 1 is |, 2 is \ and 3 is /. With `wrong_labels` images 0, 5, 10, … are labelled as another
/// class, drawn at random.
inline Dataset lines(int64_t size, uint64_t seed, bool wrong_labels) {
  constexpr int64_t kSide = 12, kLength = 5;
  Dataset set{.height = kSide, .width = kSide, .classes = 4, .mean = 0.3, .deviation = 0.2};
  for (int64_t i = 0; i < size; ++i) {
    Random random(seed, 0, i, 0);
    const int64_t shape = random.below(4);
    const int64_t top = random.below(kSide - kLength + 1), left = random.below(kSide - kLength + 1);
    for (int64_t h = -top; h < kSide - top; ++h)
      for (int64_t w = -left; w < kSide - left; ++w) {
        const bool inside = h >= 0 && h < kLength && w >= 0 && w < kLength;
        const bool on_line[] = {h == 2, w == 2, h == w, h + w == 4};
        set.pixels.push_back(
            static_cast<uint8_t>((inside && on_line[shape] ? 100 : 0) + random.below(120)));
      }
    const bool wrong = wrong_labels && i % 5 == 0;
    set.labels.push_back(static_cast<uint8_t>(wrong ? (shape + 1 + random.below(3)) % 4 : shape));
  }
  return set;
}

/// Each image moved by up to `most` pixels up or down, and left or right. What comes in at a border
/// repeats the border. A function of (set, most, epoch).
inline Dataset shifted(const Dataset& set, int64_t most, uint64_t epoch) {
  Dataset out = set;
  for (int64_t i = 0; i < set.size(); ++i) {
    Random random(3, epoch, i, 1);
    const int64_t down = random.below(2 * most + 1) - most,
                  right = random.below(2 * most + 1) - most;
    for (int64_t h = 0; h < set.height; ++h)
      for (int64_t w = 0; w < set.width; ++w) {
        const int64_t from_h = std::clamp<int64_t>(h - down, 0, set.height - 1),
                      from_w = std::clamp<int64_t>(w - right, 0, set.width - 1);
        out.pixels[(i * set.height + h) * set.width + w] =
            set.pixels[(i * set.height + from_h) * set.width + from_w];
      }
  }
  return out;
}

struct Look {
  double loss = 0, accuracy = 0;
};

/// The mean loss of the images, and the share that gets its label, in evaluation.
inline Look look(Net& net, const Dataset& set) {
  const NoGrad off;
  Look sum;
  Epoch batches(set, {.batch_size = 100}, 0);
  while (const std::optional<Batch> batch = batches.next()) {
    const Tensor scores = net.forward(batch->x, false);
    sum.loss += cross_entropy(scores, batch->labels).item() * batch->labels.size();
    for (size_t n = 0; n < batch->labels.size(); ++n) {
      const double* row = scores.data() + n * set.classes;
      sum.accuracy += std::max_element(row, row + set.classes) - row == batch->labels[n];
    }
  }
  return {sum.loss / set.size(), sum.accuracy / set.size()};
}

struct Recipe {
  int64_t epochs = 40;
  double weight_decay = 0;
  int64_t shift = 0;  // of the images, in pixels: see shifted()
  uint64_t seed = 0;  // of the first weights
};

/// Trains a new network, and calls after_epoch(net, epoch) after each epoch, 1 to recipe.epochs.
template <class F>
void train(const Dataset& set, const Recipe& recipe, F after_epoch) {
  Generator random(recipe.seed);
  Net net(set.height, set.width, set.classes, random, 4);
  Sgd sgd(net.parameters(), {.momentum = 0.9, .weight_decay = recipe.weight_decay});
  for (int64_t epoch = 1; epoch <= recipe.epochs; ++epoch) {
    sgd.set_lr(0.01 * (recipe.epochs - epoch + 1) / recipe.epochs);
    const Dataset now = recipe.shift ? shifted(set, recipe.shift, epoch) : set;
    Epoch batches(now, {.batch_size = 20, .shuffle = true, .seed = 1}, epoch);
    while (const std::optional<Batch> batch = batches.next()) {
      sgd.zero_grad();
      backward(cross_entropy(net.forward(batch->x, true), batch->labels));
      sgd.step();
    }
    after_epoch(net, epoch);
  }
}

}  // namespace tiny
