// Facts about each known image data set: class names, sizes, channel statistics.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/core/config.h"

namespace lathe::data {

struct DatasetInfo {
  std::vector<std::string> class_names;
  int64_t channels;
  int64_t side;              // images are side x side
  std::vector<double> mean;  // of x / 255 over the training images, per channel
  std::vector<double> std;
};

/// cifar10, cifar100, mnist, fashion-mnist.
/// throws: ValueError listing the known names.
LATHE_API const DatasetInfo& dataset_info(std::string_view name);

/// The 20 superclasses of CIFAR-100.
LATHE_API const std::vector<std::string>& cifar100_superclasses();

}  // namespace lathe::data
