// WorstMistakes, and their images as files.
#include "lathe/train/worst_mistakes.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "lathe/core/files/paths.h"
#include "lathe/core/tensor.h"
#include "lathe/core/text/formatted.h"
#include "lathe/data/images/image.h"
#include "lathe/data/images/image_folders.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/softmax.h"

namespace lathe::train {
namespace {

namespace fs = std::filesystem;

std::string file_name(std::string name) {
  constexpr size_t kMost = 60;  // bytes, so that two fit into a name
  name.resize(std::min(name.size(), kMost));
  for (char& c : name) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0;
    if (!plain && c != '-' && c != '_' && c != '.') c = '_';
  }
  return name;
}

}  // namespace

void WorstMistakes::add(const Tensor& scores, const Tensor& labels) {
  const std::vector<float> logs = log_softmax(scores, 1).to_vector<float>();
  const std::vector<int64_t> classes = labels.to_vector<int64_t>();
  const auto width = static_cast<size_t>(scores.dim(1));
  for (size_t i = 0; i < classes.size(); ++i, ++seen_) {
    const auto row = logs.begin() + static_cast<std::ptrdiff_t>(i * width);
    const auto best = std::max_element(row, row + static_cast<std::ptrdiff_t>(width));
    const double loss = -static_cast<double>(row[static_cast<std::ptrdiff_t>(classes[i])]);
    if (best - row == classes[i] || std::isnan(loss)) continue;
    found_.push_back({.index = seen_,
                      .label = classes[i],
                      .predicted = best - row,
                      .probability = std::exp(static_cast<double>(*best)),
                      .loss = loss});
  }
  std::ranges::stable_sort(found_, std::greater(), &Mistake::loss);
  if (found_.size() > most_) found_.resize(most_);
}

std::vector<std::string> files_of(const std::vector<Mistake>& mistakes,
                                  const data::ImageDataset& images) {
  std::vector<int64_t> indices;
  for (const Mistake& m : mistakes) indices.push_back(m.index);
  return data::files_of(images, indices);
}

void write_mistakes(const fs::path& folder, const std::vector<Mistake>& mistakes,
                    const data::ImageDataset& images) {
  make_folders(folder);
  int rank = 0;
  std::vector<uint8_t> pixels;
  for (const Mistake& m : mistakes) {
    const data::ImageSpec spec = images.load(m.index, pixels).spec;
    const Tensor image = empty({spec.channels, spec.height, spec.width}, {.dtype = kU8});
    std::ranges::copy(pixels, image.data<uint8_t>());
    const auto name = [&](int64_t k) {
      return file_name(images.class_names()[static_cast<size_t>(k)]);
    };
    image::write(
        folder / formatted("{:03}-{}-taken-for-{}.png", ++rank, name(m.label), name(m.predicted)),
        image);
  }
}

}  // namespace lathe::train
