// The files of a known data set that hold the images of one part. Internal to data/: what reads
// them is in image_datasets.h and record_images.h.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "lathe/data/images/cifar.h"

namespace lathe::data {

struct PublishedFiles {
  std::vector<std::filesystem::path> images;  // with their labels, unless there is a file of these
  std::filesystem::path labels;               // of IDX files; empty for CIFAR
};

/// cifar10, cifar100, mnist, fashion-mnist; each file as it is or with .gz.
/// throws: ValueError for another name; DataError naming what was searched and is missing.
PublishedFiles find_published(const std::string& name, const std::filesystem::path& root,
                              bool train);

/// Of cifar10 or cifar100.
CifarFormat cifar_format(const std::string& name, bool train, bool coarse);

/// The names of the classes; of cifar100 with `coarse` the superclasses'.
std::vector<std::string> published_classes(const std::string& name, bool coarse);

}  // namespace lathe::data
