// The table of data sets, and the search for one on this machine. The checksums are the
// publishers'; for content that is published packed they are those of the unpacked official
// download.
#include "lathe/data/images/published_datasets.h"

#include <cstdlib>
#include <sstream>

#include "lathe/core/error.h"
#include "lathe/core/files/paths.h"

namespace lathe::data {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kCifar10FileBytes = int64_t{10'000} * 3073;
constexpr char kCifarUrl[] = "https://www.cs.toronto.edu/~kriz/";
constexpr char kMnistUrl[] = "https://storage.googleapis.com/cvdf-datasets/mnist/";
constexpr char kFashionUrl[] = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/";

constexpr char kCifar100Classes[] =
    "apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus "
    "butterfly camel can castle caterpillar cattle chair chimpanzee clock cloud cockroach couch "
    "crab crocodile cup dinosaur dolphin elephant flatfish forest fox girl hamster house kangaroo "
    "keyboard lamp lawn_mower leopard lion lizard lobster man maple_tree motorcycle mountain "
    "mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree plain "
    "plate poppy porcupine possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk "
    "skyscraper snail snake spider squirrel streetcar sunflower sweet_pepper table tank telephone "
    "television tiger tractor train trout tulip turtle wardrobe whale willow_tree wolf woman worm";

std::vector<std::string> words(const char* text) {
  std::vector<std::string> out;
  std::istringstream stream(text);
  for (std::string word; stream >> word;) out.push_back(word);
  return out;
}

/// What there is of CIFAR-10 and CIFAR-100 besides. torchvision and Keras bring the one for Python.
std::vector<OtherForm> forms_of_cifar(const std::string& name) {
  return {{name + "-batches-py", "the version for Python"},
          {name + "-python", "the version for Python"},
          {name + "-python.tar.gz", "the version for Python"},
          {name + "-batches-mat", "the version for Matlab"},
          {name + "-matlab", "the version for Matlab"},
          {name + "-matlab.tar.gz", "the version for Matlab"},
          {name + "-binary.tar.gz", "not unpacked"}};
}

DatasetSource cifar10() {
  return {
      .name = "cifar10",
      .title = "CIFAR-10",
      .folders = {"cifar-10-batches-bin", "cifar10", "cifar-10"},
      .downloads = {{std::string(kCifarUrl) + "cifar-10-binary.tar.gz", 170'052'171,
                     "c32a1d4ab5d03f1284b67883e8d87530", "cifar-10-batches-bin"}},
      .files = {{"data_batch_1.bin", kCifar10FileBytes, "e8800bf27ec6f45491f149f7317b9608", true},
                {"data_batch_2.bin", kCifar10FileBytes, "7d723ade99f73b811cfabf20cb43fa92", true},
                {"data_batch_3.bin", kCifar10FileBytes, "d89dc53bd17e60b84343cd94e9eafc38", true},
                {"data_batch_4.bin", kCifar10FileBytes, "456349a8730963b7930555350ebfd0f8", true},
                {"data_batch_5.bin", kCifar10FileBytes, "1c39cedb4666850d181538cfcd1008d1", true},
                {"test_batch.bin", kCifar10FileBytes, "4fd89b928a74095080b56355876466c0", false}},
      .other_forms = forms_of_cifar("cifar-10"),
      .debian_package = "",
      .info = {words("airplane automobile bird cat deer dog frog horse ship truck"),
               3,
               32,
               {0.4914, 0.4822, 0.4465},
               {0.2470, 0.2435, 0.2616}},
  };
}

DatasetSource cifar100() {
  return {
      .name = "cifar100",
      .title = "CIFAR-100",
      .folders = {"cifar-100-binary", "cifar100", "cifar-100"},
      .downloads = {{std::string(kCifarUrl) + "cifar-100-binary.tar.gz", 168'513'733,
                     "03b5dce01913d631647c71ecec9e9cb8", "cifar-100-binary"}},
      .files = {{"train.bin", int64_t{50'000} * 3074, "6172c7755cfe09b2fe270c85cebc1b15", true},
                {"test.bin", int64_t{10'000} * 3074, "4499cfba6c016c1be1438163640a0898", false}},
      .other_forms = forms_of_cifar("cifar-100"),
      .debian_package = "",
      .info = {words(kCifar100Classes), 3, 32, {0.5071, 0.4865, 0.4409}, {0.2673, 0.2564, 0.2762}},
  };
}

DatasetSource mnist() {
  return {
      .name = "mnist",
      .title = "MNIST",
      .folders = {"mnist", "MNIST/raw", "MNIST"},
      .downloads = {{std::string(kMnistUrl) + "train-images-idx3-ubyte.gz", 9'912'422,
                     "f68b3c2dcbeaaa9fbdd348bbdeb94873", ""},
                    {std::string(kMnistUrl) + "train-labels-idx1-ubyte.gz", 28'881,
                     "d53e105ee54ea40749a09fcbcd1e9432", ""},
                    {std::string(kMnistUrl) + "t10k-images-idx3-ubyte.gz", 1'648'877,
                     "9fb629c4189551a2d022fa330f9573f3", ""},
                    {std::string(kMnistUrl) + "t10k-labels-idx1-ubyte.gz", 4'542,
                     "ec29112dd5afa0611ce80d1b7f02629c", ""}},
      .files = {{"train-images-idx3-ubyte", 47'040'016, "6bbc9ace898e44ae57da46a324031adb", true},
                {"train-labels-idx1-ubyte", 60'008, "a25bea736e30d166cdddb491f175f624", true},
                {"t10k-images-idx3-ubyte", 7'840'016, "2646ac647ad5339dbf082846283269ea", false},
                {"t10k-labels-idx1-ubyte", 10'008, "27ae3e4e09519cfbb04c329615203637", false}},
      .other_forms = {},
      .debian_package = "",
      .info = {words("0 1 2 3 4 5 6 7 8 9"), 1, 28, {0.1307}, {0.3081}},
  };
}

DatasetSource fashion_mnist() {
  return {
      .name = "fashion-mnist",
      .title = "Fashion-MNIST",
      .folders = {"fashion-mnist", "FashionMNIST/raw", "FashionMNIST"},
      .downloads = {{std::string(kFashionUrl) + "train-images-idx3-ubyte.gz", 26'421'880,
                     "8d4fb7e6c68d591d4c3dfef9ec88bf0d", ""},
                    {std::string(kFashionUrl) + "train-labels-idx1-ubyte.gz", 29'515,
                     "25c81989df183df01b3e8a0aad5dffbe", ""},
                    {std::string(kFashionUrl) + "t10k-images-idx3-ubyte.gz", 4'422'102,
                     "bef4ecab320f06d8554ea6380940ec79", ""},
                    {std::string(kFashionUrl) + "t10k-labels-idx1-ubyte.gz", 5'148,
                     "bb300cfdad3c16e7a12a480ee83cd310", ""}},
      .files = {{"train-images-idx3-ubyte", 47'040'016, "f4a8712d7a061bf5bd6d2ca38dc4d50a", true},
                {"train-labels-idx1-ubyte", 60'008, "9018921c3c673c538a1fc5bad174d6f9", true},
                {"t10k-images-idx3-ubyte", 7'840'016, "8181f5470baa50b63fa0f6fddb340f0a", false},
                {"t10k-labels-idx1-ubyte", 10'008, "15d484375f8d13e6eb1aabb0c3f46965", false}},
      .other_forms = {},
      .debian_package = "dataset-fashion-mnist",
      .info = {{"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker",
                "Bag", "Ankle boot"},
               1,
               28,
               {0.2860},
               {0.3530}},
  };
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::vector<fs::path> candidates(const DatasetSource& source, const std::string& data_root) {
  std::vector<fs::path> out;
  for (const auto& root : data_roots(data_root)) {
    out.push_back(root);
    for (const auto& folder : source.folders) out.push_back(root / folder);
  }
  return out;
}

bool wanted(const DatasetFile& file, Split split) {
  return split == Split::kAll || (split == Split::kTrain) == file.train;
}

std::vector<std::string> missing_files(const DatasetSource& source, Split split,
                                       const fs::path& directory) {
  std::vector<std::string> missing;
  for (const auto& file : source.files)
    if (wanted(file, split) && !find_file(directory, file.name)) missing.push_back(file.name);
  return missing;
}

fs::path need_file(const fs::path& directory, const std::string& name) {
  const auto path = find_file(directory, name);
  LATHE_CHECK(DataError, path.has_value(), directory.string(), ": has no ", name);
  return *path;
}

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const auto& word : words) out += (out.empty() ? "" : ", ") + word;
  return out;
}

}  // namespace

const std::vector<DatasetSource>& dataset_sources() {
  static const std::vector<DatasetSource> sources = {cifar10(), cifar100(), mnist(),
                                                     fashion_mnist()};
  return sources;
}

const DatasetSource& dataset_source(std::string_view name) {
  std::vector<std::string> known;
  for (const auto& source : dataset_sources()) {
    if (source.name == name) return source;
    known.push_back(source.name);
  }
  LATHE_FAIL(ValueError, "unknown data set \"", name, "\"; known are ", joined(known));
}

const DatasetInfo& dataset_info(std::string_view name) { return dataset_source(name).info; }

const std::vector<std::string>& cifar100_superclasses() {
  static const std::vector<std::string> names = words(
      "aquatic_mammals fish flowers food_containers fruit_and_vegetables "
      "household_electrical_devices household_furniture insects large_carnivores "
      "large_man-made_outdoor_things large_natural_outdoor_scenes large_omnivores_and_herbivores "
      "medium_mammals non-insect_invertebrates people reptiles small_mammals trees vehicles_1 "
      "vehicles_2");
  return names;
}

std::vector<std::string> published_classes(const std::string& name, bool coarse) {
  return name == "cifar100" && coarse ? cifar100_superclasses() : dataset_info(name).class_names;
}

CifarFormat cifar_format(const std::string& name, bool train, bool coarse) {
  return name == "cifar10" ? cifar10_format()
         : train           ? cifar100_train_format(coarse)
                           : cifar100_test_format(coarse);
}

std::vector<fs::path> data_roots(const std::string& data_root) {
  if (!data_root.empty()) return {data_root};
  if (const std::string root = environment("LATHE_DATA_ROOT"); !root.empty()) return {root};
  std::vector<fs::path> roots = {"data"};
  if (const std::string cache = environment("XDG_CACHE_HOME"); !cache.empty())
    roots.push_back(fs::path(cache) / "lathe");
  else if (const std::string home = environment("HOME"); !home.empty())
    roots.push_back(fs::path(home) / ".cache" / "lathe");
  roots.push_back("/usr/share/datasets");
  return roots;
}

std::optional<fs::path> find_file(const fs::path& directory, const std::string& name) {
  for (const char* suffix : {"", ".gz"}) {
    const fs::path path = directory / (name + suffix);
    if (is_file(path)) return path;
  }
  return std::nullopt;
}

std::optional<fs::path> find_dataset(const DatasetSource& source, const std::string& data_root,
                                     Split split) {
  for (const auto& directory : candidates(source, data_root)) {
    try {
      if (missing_files(source, split, directory).empty()) return directory;
    } catch (const FileError&) {  // another place will do; require_dataset() says the reason
    }
  }
  return std::nullopt;
}

std::string other_form_of(const DatasetSource& source, const std::string& data_root) {
  for (const auto& root : data_roots(data_root)) {
    for (const OtherForm& form : source.other_forms) {
      const bool is_it = (root / "").lexically_normal().parent_path().filename() == form.name;
      const fs::path path = is_it ? root : root / form.name;
      std::error_code unreadable;  // require_dataset() says the reason
      if (!fs::exists(path, unreadable)) continue;
      return concat(path.string(), " is ", form.what, "; the binary version is wanted, a folder ",
                    source.folders[0], " with ", source.files[0].name);
    }
  }
  return "";
}

fs::path require_dataset(const DatasetSource& source, const std::string& data_root, Split split) {
  if (const auto found = find_dataset(source, data_root, split)) return *found;
  std::vector<std::string> places;
  for (const auto& root : data_roots(data_root)) places.push_back(root.string());
  std::string partly;
  for (const auto& directory : candidates(source, data_root)) {
    try {
      const auto missing = missing_files(source, split, directory);
      if (partly.empty() &&
          missing_files(source, Split::kAll, directory).size() < source.files.size())
        partly = "; " + directory.string() + " lacks " + joined(missing);
    } catch (const FileError& error) {
      if (partly.empty()) partly = "; " + error.message();
    }
  }
  const std::string other = other_form_of(source, data_root);
  LATHE_FAIL(DataError, source.title, " not found in ", joined(places), partly,
             other.empty() ? "" : "; ", other);
}

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

}  // namespace lathe::data
