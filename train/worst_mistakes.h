// WorstMistakes: the images that an evaluation got most wrong.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "lathe/core/config.h"
#include "lathe/core/tensor.h"
#include "lathe/data/images/image_datasets.h"

namespace lathe::train {

struct Mistake {
  int64_t index;  // in the data set
  int64_t label, predicted;
  double probability;  // of `predicted`
  double loss;         // -log of the label's probability
};

/// Keeps the `most` wrong predictions with the highest loss. If losses are equal, it keeps those
/// that came first.
class LATHE_API WorstMistakes {
 public:
  explicit WorstMistakes(int64_t most) : most_(static_cast<size_t>(most)) {}

  /// Adds the next batch: `scores` [N,C], `labels` [N]. Waits for the device.
  void add(const Tensor& scores, const Tensor& labels);

  /// The mistakes, worst first.
  const std::vector<Mistake>& found() const { return found_; }

 private:
  size_t most_;
  int64_t seen_ = 0;
  std::vector<Mistake> found_;
};

/// The files from which the images of `mistakes` were read, in the same order; empty if the images
/// have no files of their own.
LATHE_API std::vector<std::string> files_of(const std::vector<Mistake>& mistakes,
                                            const data::ImageDataset& images);

/// Writes the images of `mistakes`, without the transform, into a new folder. The first file has a
/// name like "001-cat-taken-for-dog.png". In class names all characters but letters, digits, '-',
/// '_' and '.' become '_'.
/// throws: FileError; DataError in a build without libpng.
LATHE_API void write_mistakes(const std::filesystem::path& folder,
                              const std::vector<Mistake>& mistakes,
                              const data::ImageDataset& images);

}  // namespace lathe::train
