// The CIFAR-10 and CIFAR-100 binary files. The data sets over them are in image_datasets.h.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "lathe/core/config.h"
#include "lathe/data/images/image_set.h"

namespace lathe::data {

/// A record is its label bytes, then 3072 bytes: the red, green and blue planes of a 32x32 image,
/// row by row.
struct CifarFormat {
  std::string name;              // for messages
  int64_t records;               // in every file
  int64_t label_bytes;           // 1: the class; 2: superclass, then class
  int64_t label_at;              // index of the label byte that becomes the label
  std::vector<int64_t> classes;  // number of classes, per label byte
};

/// Files of 10,000 records each.
LATHE_API CifarFormat cifar10_format();
/// One file of 50,000 records for training, one of 10,000 for testing. coarse: the labels are the
/// 20 superclasses.
LATHE_API CifarFormat cifar100_train_format(bool coarse = false);
LATHE_API CifarFormat cifar100_test_format(bool coarse = false);

/// The records of all files, in order; a gzip file is inflated. Each file must have exactly the
/// format's size, and every label byte must name a class.
/// throws: DataError naming file, record and value; FileError.
/// ref: Krizhevsky 2009, "Learning multiple layers of features from tiny images".
LATHE_API ImageSet read_cifar(const std::vector<std::filesystem::path>& files,
                              const CifarFormat& format);

}  // namespace lathe::data
