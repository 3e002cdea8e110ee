// The files of a known data set that hold the images of one part. Internal to data/: they are read
// in image_datasets.cpp and record_images.cpp.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "lathe/data/images/cifar.h"

namespace lathe::data {

struct PublishedFiles {
  std::vector<std::filesystem::path> images;  // with their labels, unless `labels` is set
  std::filesystem::path labels;               // of IDX files; empty for CIFAR
};

/// For cifar10, cifar100, mnist, fashion-mnist; each file plain or as .gz.
/// throws: ValueError for another name; DataError naming the places searched and what is missing.
PublishedFiles find_published(const std::string& name, const std::filesystem::path& root,
                              bool train);

/// The format of cifar10 or cifar100.
CifarFormat cifar_format(const std::string& name, bool train, bool coarse);

/// The names of the classes; for cifar100 with `coarse`, of the superclasses.
std::vector<std::string> published_classes(const std::string& name, bool coarse);

}  // namespace lathe::data
