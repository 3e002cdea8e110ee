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

/// Keeps the wrong predictions with the highest loss; of equal ones those that came first.
class LATHE_API WorstMistakes {
 public:
  explicit WorstMistakes(int64_t most) : most_(static_cast<size_t>(most)) {}

  /// The next batch: `scores` [N,C], `labels` [N]. Waits for a GPU.
  void add(const Tensor& scores, const Tensor& labels);

  /// The worst first.
  const std::vector<Mistake>& found() const { return found_; }

 private:
  size_t most_;
  int64_t seen_ = 0;
  std::vector<Mistake> found_;
};

/// The files that they were read from, in this order; nothing if the images have no files of their
/// own.
LATHE_API std::vector<std::string> files_of(const std::vector<Mistake>& mistakes,
                                            const data::ImageDataset& images);

/// Writes the images, as they are before the transform, into a new folder:
/// "001-cat-taken-for-dog.png" is the worst one. In a class's name anything but letters, digits,
/// '-', '_' and '.' becomes '_'.
/// throws: FileError; DataError in a build without libpng.
LATHE_API void write_mistakes(const std::filesystem::path& folder,
                              const std::vector<Mistake>& mistakes,
                              const data::ImageDataset& images);

}  // namespace lathe::train
