// A small detector: finds rectangles in noisy images, and tells filled ones from frames.
//
// A convolutional network divides the image into 8 x 8 cells. Each cell says what it sees, nothing
// among the choices, and how far the box's four sides are from the cell's centre. The cells around
// the middle of a box learn to describe it. In the end several cells describe the same box, and
// nms() keeps the surest.
//
//   detector [STEPS [WEIGHTS]]      WEIGHTS: a file with the weights to begin from
// ref: Tian et al. 2019 (FCOS, arXiv:1904.01355).
#include <lathe/lathe.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <random>
#include <string>
#include <vector>

namespace nn = lathe::nn;
namespace optim = lathe::optim;
using lathe::Tensor;

constexpr int64_t kSize = 64, kStride = 8, kCells = kSize / kStride;
constexpr int64_t kClasses = 3;
const char* const kNames[kClasses] = {"nothing", "filled", "frame"};

// --- the model -----------------------------------------------------------------------------------

struct Predictions {
  Tensor scores;     // [N,cells,classes]
  Tensor distances;  // [N,cells,4]: left, top, right, bottom, in cells

  lathe::Tensors tensors() const { return {scores, distances}; }
};

struct Detector : nn::ModuleOf<Predictions(Tensor images)> {
  using ModuleOf::forward;
  // Convolution, batch norm and relu; each stride of 2 halves the image's sides.
  nn::Conv2dNormActivation stage1{*this, "stage1", 1, 16, {.stride = 2}};
  nn::Conv2dNormActivation stage2{*this, "stage2", 16, 32, {.stride = 2}};
  nn::Conv2dNormActivation stage3{*this, "stage3", 32, 64, {.stride = 2}};
  nn::Conv2dNormActivation stage4{*this, "stage4", 64, 64};
  nn::Conv2d scores{*this, "scores", 64, kClasses, {.kernel = 1}};
  nn::Conv2d distances{*this, "distances", 64, 4, {.kernel = 1}};

  Predictions forward(Tensor images) override {  // [N,1,64,64]
    const Tensor h = stage4(stage3(stage2(stage1(images))));
    return {scores(h).flatten(2).transpose(1, 2),
            lathe::softplus(distances(h)).flatten(2).transpose(1, 2)};
  }
};

/// → [cells,2]: x and y of the cells' centres, in pixels
Tensor centres() {
  std::vector<float> out;
  for (int64_t i = 0; i < kCells * kCells; ++i) {
    for (const int64_t at : {i % kCells, i / kCells}) {
      out.push_back((static_cast<float>(at) + 0.5f) * kStride);
    }
  }
  return lathe::tensor(out).view({-1, 2});
}

struct Boxes {
  Tensor corners;  // [K,4]: x1, y1, x2, y2
  Tensor labels;   // i64 [K]
};

/// What the model found in one image, from its scores [cells,classes] and distances [cells,4].
Boxes found_in(const Tensor& scores, const Tensor& distances) {
  const auto [score, best] = lathe::max(scores.softmax(1).narrow(1, 1, kClasses - 1), 1);
  const Tensor middle = centres(), pixels = distances * double(kStride);
  const Tensor corners =
      lathe::cat({middle - pixels.narrow(1, 0, 2), middle + pixels.narrow(1, 2, 2)}, 1);
  const Tensor sure = (score > 0.5).nonzero().flatten();
  const Tensor kept = sure.index_select(
      0, lathe::nms(corners.index_select(0, sure), score.index_select(0, sure), 0.5));
  return {corners.index_select(0, kept), best.index_select(0, kept) + 1};
}

// --- the images ----------------------------------------------------------------------------------

struct Object {
  int64_t label, x1, y1, x2, y2;

  bool touches(const Object& o) const {
    return x1 <= o.x2 && o.x1 <= x2 && y1 <= o.y2 && o.y1 <= y2;
  }
};

struct Scenes {
  Tensor images;                             // [N,1,64,64]
  std::vector<std::vector<Object>> objects;  // of each image, one at least
};

/// One to four rectangles that do not touch, of any brightness, under noise.
Scenes draw(int64_t count, std::mt19937& random) {
  const auto below = [&](uint32_t n) { return static_cast<int64_t>(random() % n); };
  std::vector<float> pixels;
  std::vector<std::vector<Object>> all;
  for (int64_t n = 0; n < count; ++n) {
    float image[kSize][kSize] = {};
    std::vector<Object> objects;
    for (int i = 0; i < 4; ++i) {
      const int64_t label = 1 + below(2), w = 12 + below(17), h = 12 + below(17);
      const int64_t x1 = below(kSize - 28), y1 = below(kSize - 28);
      const float light = 0.5f + static_cast<float>(below(256)) / 256;
      const Object o{label, x1, y1, x1 + w, y1 + h};
      const auto touches = [&](const Object& other) { return o.touches(other); };
      if (std::any_of(objects.begin(), objects.end(), touches)) continue;
      objects.push_back(o);
      for (int64_t y = o.y1; y < o.y2; ++y) {
        for (int64_t x = o.x1; x < o.x2; ++x) {
          const int64_t depth = std::min({x - o.x1, o.x2 - 1 - x, y - o.y1, o.y2 - 1 - y});
          if (label == 1 || depth < 3) image[y][x] = light;
        }
      }
    }
    for (const auto& row : image) {
      for (const float p : row) pixels.push_back(p + static_cast<float>(below(256)) / 256 - 0.5f);
    }
    all.push_back(objects);
  }
  return {lathe::tensor(pixels).view({count, 1, kSize, kSize}), all};
}

struct Targets {
  Tensor labels;     // i64 [N*cells]
  Tensor cells;      // i64 [P]: those of a box, as positions in labels
  Tensor distances;  // [P,4]
};

/// The cells whose centres are less than a cell from a box's middle, in x and in y, belong to it.
Targets targets_of(const Scenes& scenes) {
  std::vector<int64_t> labels(scenes.objects.size() * kCells * kCells), cells;
  std::vector<float> distances;
  for (size_t n = 0; n < scenes.objects.size(); ++n) {
    for (const Object& o : scenes.objects[n]) {
      for (int64_t i = 0; i < kCells * kCells; ++i) {
        const int64_t x = i % kCells * kStride + kStride / 2,
                      y = i / kCells * kStride + kStride / 2;
        const int64_t off = std::max(std::abs(2 * x - o.x1 - o.x2), std::abs(2 * y - o.y1 - o.y2));
        if (off >= 2 * kStride) continue;
        const size_t at = n * kCells * kCells + static_cast<size_t>(i);
        labels[at] = o.label;
        cells.push_back(static_cast<int64_t>(at));
        for (const int64_t d : {x - o.x1, y - o.y1, o.x2 - x, o.y2 - y}) {
          distances.push_back(static_cast<float>(d) / kStride);
        }
      }
    }
  }
  return {lathe::tensor(labels), lathe::tensor(cells), lathe::tensor(distances).view({-1, 4})};
}

Boxes boxes_of(const std::vector<Object>& objects) {
  std::vector<float> corners;
  std::vector<int64_t> labels;
  for (const Object& o : objects) {
    for (const int64_t c : {o.x1, o.y1, o.x2, o.y2}) corners.push_back(static_cast<float>(c));
    labels.push_back(o.label);
  }
  return {lathe::tensor(corners).view({-1, 4}), lathe::tensor(labels)};
}

/// Prints how many of the boxes the model finds, and what it finds in the first image.
void report(Detector& model, const Scenes& test, lathe::Device device) {
  const lathe::NoGrad off;
  const Predictions said = model(test.images.to(device));
  const Tensor scores = said.scores.cpu(), distances = said.distances.cpu();
  int64_t there = 0, named = 0, found = 0, right = 0;
  for (int64_t n = 0; n < scores.size(0); ++n) {
    const Boxes truth = boxes_of(test.objects[size_t(n)]);
    const Boxes boxes = found_in(scores[n], distances[n]);
    const Tensor same_label = boxes.labels.unsqueeze(1) == truth.labels.unsqueeze(0);
    const Tensor match = (lathe::box_iou(boxes.corners, truth.corners) > 0.5) & same_label;
    there += truth.labels.numel();
    named += boxes.labels.numel();
    found += match.any(0).sum().item<int64_t>();
    right += match.any(1).sum().item<int64_t>();
  }
  std::cout << "found " << found << " of " << there << " boxes, and " << named - right
            << " that are not there\n";

  std::cout.precision(3);
  const auto print = [](const Boxes& boxes, const char* how) {
    for (int64_t k = 0; k < boxes.labels.numel(); ++k) {
      std::cout << how << kNames[boxes.labels[k].item<int64_t>()] << " at";
      for (const float c : boxes.corners[k].to_vector<float>()) std::cout << ' ' << c;
      std::cout << '\n';
    }
  };
  print(boxes_of(test.objects[0]), "there: ");
  print(found_in(scores[0], distances[0]), "found: ");
}

int main(int argc, char** argv) {
  const int64_t steps = argc > 1 ? std::atoll(argv[1]) : 200;
  const lathe::Device device = lathe::cuda_is_available() ? "cuda" : "cpu";
  lathe::manual_seed(1);
  std::mt19937 random(1);
  Detector model;
  if (argc > 2) nn::load(model, argv[2]);
  model.to(device);
  // A larger eps than usual: the step of a weight whose gradient is all rounding stays small.
  optim::Adam opt(model.parameters(), {.lr = 3e-3, .eps = 1e-4});
  std::cout.precision(8);
  for (int64_t step = 1; step <= steps; ++step) {
    const Scenes scenes = draw(16, random);
    const auto [labels, cells, distances] = targets_of(scenes);
    const Predictions said = model(scenes.images.to(device));
    const Tensor near = said.distances.flatten(0, 1).index_select(0, cells.to(device));
    const Tensor loss = lathe::cross_entropy(said.scores.flatten(0, 1), labels.to(device)) +
                        lathe::smooth_l1_loss(near, distances.to(device));
    opt.zero_grad();
    loss.backward();
    opt.step();
    if (step <= 10 || step % 50 == 0) {
      std::cout << "step " << step << "  loss " << loss.item<float>() << std::endl;
    }
  }

  model.eval();  // batch norm: the running statistics from now on
  report(model, draw(200, random), device);
}
