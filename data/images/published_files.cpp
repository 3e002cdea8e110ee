// Which published files hold which part of CIFAR-10, CIFAR-100, MNIST and Fashion-MNIST.
#include "lathe/data/images/published_files.h"

#include "lathe/core/error.h"
#include "lathe/data/images/dataset_info.h"
#include "lathe/data/images/sources.h"

namespace lathe::data {
namespace {

namespace fs = std::filesystem;

fs::path need_file(const fs::path& directory, const std::string& name) {
  const auto path = find_file(directory, name);
  LATHE_CHECK(DataError, path.has_value(), directory.string(), ": has no ", name);
  return *path;
}

}  // namespace

PublishedFiles find_published(const std::string& name, const fs::path& root, bool train) {
  const Split split = train ? Split::kTrain : Split::kTest;
  const fs::path directory = require_dataset(dataset_source(name), root.string(), split);
  PublishedFiles files;
  if (name == "cifar10" && train) {
    for (const char k : {'1', '2', '3', '4', '5'})
      files.images.push_back(need_file(directory, std::string("data_batch_") + k + ".bin"));
  } else if (name == "cifar10") {
    files.images = {need_file(directory, "test_batch.bin")};
  } else if (name == "cifar100") {
    files.images = {need_file(directory, train ? "train.bin" : "test.bin")};
  } else {
    const std::string prefix = train ? "train" : "t10k";
    files.images = {need_file(directory, prefix + "-images-idx3-ubyte")};
    files.labels = need_file(directory, prefix + "-labels-idx1-ubyte");
  }
  return files;
}

CifarFormat cifar_format(const std::string& name, bool train, bool coarse) {
  return name == "cifar10" ? cifar10_format()
         : train           ? cifar100_train_format(coarse)
                           : cifar100_test_format(coarse);
}

std::vector<std::string> published_classes(const std::string& name, bool coarse) {
  return name == "cifar100" && coarse ? cifar100_superclasses() : dataset_info(name).class_names;
}

}  // namespace lathe::data
