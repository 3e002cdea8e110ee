#include "lathe/data/images/image_datasets.h"

#include <doctest/doctest.h>

#include <cmath>
#include <map>

#include "files.h"
#include "lathe/core/error.h"
#include "lathe/data/batch.h"
#include "lathe/data/images/byte_stream.h"
#include "lathe/data/images/image_subset.h"
#include "lathe/data/images/published_datasets.h"
#include "lathe/data/images/record_images.h"

namespace lathe::data {
namespace {

using namespace testing;

std::string counting(int n) {
  std::string out;
  for (int k = 0; k < n; ++k) out += static_cast<char>(k);
  return out;
}

TEST_CASE("image data sets: MNIST files, padded, normalised, with class names") {
  const TempDir root;
  write_file(root / "mnist/t10k-images-idx3-ubyte", idx({2, 28, 28}, counting(2 * 784)));
  write_file(root / "mnist/t10k-labels-idx1-ubyte.gz", idx({2}, std::string("\x03\x09")));
  const Mnist set(root.path(),
                  {.train = false, .transform = normalize({0.1307}, {0.3081}), .pad_to = 32});
  CHECK(set.size() == 2);
  CHECK(set.channels() == 1);
  CHECK(set.height() == 32);
  CHECK(set.width() == 32);
  CHECK(set.classes() == 10);
  CHECK(set.class_names()[9] == "9");
  CHECK(set.label(1) == 9);
  const Batch batch = read_batch(set, std::vector<int64_t>{1});
  CHECK(batch.x.shape() == Shape{1, 1, 32, 32});
  CHECK(batch.y.item<int64_t>() == 9);
  const auto x = batch.x.to_vector<float>();
  for (int r = 0; r < 32; ++r)
    for (int k = 0; k < 32; ++k) {
      const bool border = r < 2 || r >= 30 || k < 2 || k >= 30;
      const int value = border ? 0 : (784 + (r - 2) * 28 + (k - 2)) % 256;
      CHECK(std::abs(x[static_cast<size_t>(32 * r + k)] - (value / 255.0 - 0.1307) / 0.3081) <
            1e-6);
    }
}

TEST_CASE("image data sets: CIFAR files that are found as .gz are read as such" *
          doctest::skip(!gzip_available())) {
  const TempDir root;
  const auto ten = root / "cifar10/test_batch.bin.gz", hundred = root / "cifar100/test.bin.gz";
  write_file(ten, gzip(std::string(800'000, 'x')));
  write_file(hundred, gzip(std::string(40'000, '\0')));
  CHECK(message_of<DataError>([&] { Cifar10(root.path(), {.train = false}); }) ==
        ten.string() + ": record 0 has label 120, but CIFAR-10 labels are 0 to 9");
  CHECK(message_of<DataError>([&] {
          Cifar100(root.path(), {.train = false});
        }).starts_with(hundred.string() + ": ends after 40000 bytes of records"));
}

TEST_CASE("image data sets: CIFAR-10 needs only the files of its split") {
  const TempDir root;
  write_sparse_file(root / "cifar-10-batches-bin/test_batch.bin", 30'730'000);
  patch_file(root / "cifar-10-batches-bin/test_batch.bin", 3073 * 9999, "\x07\xff");
  const Cifar10 set(root.path(), {.train = false});
  CHECK(set.size() == 10'000);
  CHECK(set.label(9999) == 7);
  CHECK(set.class_names()[7] == "horse");
  const Batch batch = read_batch(set, std::vector<int64_t>{9999});
  CHECK(batch.x.dtype() == kU8);
  CHECK(batch.x.to_vector<int>()[0] == 255);
  const std::string text = message_of<DataError>([&] { Cifar10{root.path()}; });
  CHECK(text == "CIFAR-10 not found in " + root.path().string() + "; " +
                    (root / "cifar-10-batches-bin").string() +
                    " lacks data_batch_1.bin, data_batch_2.bin, data_batch_3.bin, "
                    "data_batch_4.bin, data_batch_5.bin");
}

TEST_CASE("record images: the samples of stored ones, from mapped files") {
  const TempDir root;
  write_file(root / "t10k-images-idx3-ubyte", idx({3, 28, 28}, counting(3 * 784)));
  write_file(root / "t10k-labels-idx1-ubyte", idx({3}, std::string("\x03\x09\x01")));
  write_sparse_file(root / "test.bin", 30'740'000);
  patch_file(root / "test.bin", 3074 * 9998, "\x13\x63" + counting(3072) + "\x01\x02xyz");
  for (const char* name : {"mnist", "cifar100"}) {
    CAPTURE(name);
    for (const Transform& transform : {Transform(), hflip(1.0)}) {
      const ImageOptions options{.train = false, .transform = transform, .pad_to = 32};
      const StoredImages stored(name, root.path(), options);
      const RecordImages records(name, root.path(), options);
      REQUIRE(records.size() == stored.size());
      CHECK(records.class_names() == stored.class_names());
      const std::vector<int64_t> some = {0, 1, stored.size() - 2, stored.size() - 1};
      const Batch a = read_batch(stored, some), b = read_batch(records, some);
      CHECK(a.x.shape() == b.x.shape());
      CHECK(a.x.to_vector<uint8_t>() == b.x.to_vector<uint8_t>());
      CHECK(a.y.to_vector<int64_t>() == b.y.to_vector<int64_t>());
      std::vector<uint8_t> one, other;
      CHECK(stored.load(1, one).label == records.load(1, other).label);
      CHECK(one == other);
    }
  }
  const RecordImages records("cifar100", root.path(), {.train = false});
  std::filesystem::resize_file(root / "test.bin", 3074 * 20);
  CHECK(read_batch(records, std::vector<int64_t>{19}).size() == 1);
  CHECK(message_of<FileError>([&] {
          read_batch(records, std::vector<int64_t>{20});
        }).find("test.bin: was cut off while it was in use") != std::string::npos);
  CHECK_THROWS_AS(RecordImages("cifar100", root.path(), {.train = false}), DataError);
}

TEST_CASE("record images: gzip files are refused with what helps" *
          doctest::skip(!gzip_available())) {
  const TempDir root;
  write_file(root / "t10k-images-idx3-ubyte.gz", gzip(idx({1, 2, 2}, "abcd")));
  write_file(root / "t10k-labels-idx1-ubyte", idx({1}, "\x03"));
  CHECK(message_of<DataError>([&] {
          RecordImages("mnist", root.path(), {.train = false});
        }).find("t10k-images-idx3-ubyte.gz: is compressed") != std::string::npos);
}

TEST_CASE("image data sets: CIFAR-100 with classes and superclasses") {
  const TempDir root;
  write_sparse_file(root / "test.bin", 30'740'000);
  patch_file(root / "test.bin", 3074 * 5, "\x13\x63");
  const Cifar100 fine(root.path(), {.train = false}),
      coarse(root.path(), {.train = false, .coarse = true});
  CHECK(fine.classes() == 100);
  CHECK(fine.label(5) == 99);
  CHECK(fine.class_names()[99] == "worm");
  CHECK(coarse.classes() == 20);
  CHECK(coarse.label(5) == 19);
}

TEST_CASE("image data sets: images of the caller, checked") {
  const ImageSet images{1, 2, 2, {1, 2, 3, 4, 5, 6, 7, 8}, {0, 1}};
  const StoredImages set(images, {"a", "b"}, {0.5}, {0.25});
  CHECK(read_batch(set, std::vector<int64_t>{1}).x.to_vector<int>() ==
        std::vector<int>{5, 6, 7, 8});
  CHECK(message_of<DataError>([&] { StoredImages(images, {"a"}, {0.5}, {0.25}); }) ==
        "StoredImages: record 1 has label 1, but there are 1 classes");
  ImageSet short_one = images;
  short_one.pixels.pop_back();
  CHECK_THROWS_AS(StoredImages(short_one, {"a", "b"}, {0.5}, {0.25}), DataError);
}

TEST_CASE("image data sets: a transform that does not fit leaves the old one") {
  Synthetic set({.size = 3});
  set.set_transform(hflip());
  CHECK_THROWS_AS(set.set_transform(normalize({0.5}, {0.5})), ShapeError);
  CHECK(set.spec().fields[0].dtype == kU8);
  set.set_transform(compose(pad_crop(24, 0), normalize(set.mean(), set.std())));
  CHECK(set.spec().fields[0].dtype == kF32);
  CHECK(set.height() == 24);
}

TEST_CASE("image subset: the chosen images in their order, with the transform of both") {
  const auto source =
      std::make_shared<Synthetic>(SyntheticOptions{.size = 9, .height = 4, .width = 4});
  ImageSubset subset(source, {7, 2});
  CHECK(subset.size() == 2);
  CHECK(subset.classes() == source->classes());
  CHECK(subset.label(0) == source->label(7));
  std::vector<uint8_t> image, expected;
  subset.load(1, image);
  source->load(2, expected);
  CHECK(image == expected);
  subset.set_transform(center_crop(2).then(to_float()));
  CHECK(subset.height() == 2);
  const Batch all = read_batch(*source, std::vector<int64_t>{7, 2});
  const Batch part = read_batch(subset, std::vector<int64_t>{0, 1});
  CHECK(part.x.shape() == Shape{2, 3, 2, 2});
  CHECK(part.x.to_vector<float>() == all.x.to_vector<float>());
  CHECK(part.y.to_vector<int>() == all.y.to_vector<int>());
  CHECK_THROWS_AS(ImageSubset(source, {9}), IndexError);
  CHECK_THROWS_AS(ImageSubset(nullptr, {}), ValueError);
}

TEST_CASE("image data sets: known sets have the right number of class names") {
  const std::map<std::string, size_t> classes = {
      {"cifar10", 10}, {"cifar100", 100}, {"mnist", 10}, {"fashion-mnist", 10}};
  for (const auto& [name, count] : classes) {
    CHECK(dataset_info(name).class_names.size() == count);
    CHECK(dataset_info(name).mean.size() == static_cast<size_t>(dataset_info(name).channels));
  }
  CHECK(cifar100_superclasses().size() == 20);
  CHECK(message_of<ValueError>([] { dataset_info("cifar"); }) ==
        "unknown data set \"cifar\"; known are cifar10, cifar100, mnist, fashion-mnist");
}

TEST_CASE("synthetic: images are a function of seed and index, classes about equally frequent") {
  const SyntheticOptions options{.size = 1000, .classes = 7, .seed = 5};
  std::vector<uint8_t> a(3072), b(3072), c(3072);
  synthetic_image(options, 3, a.data());
  synthetic_image(options, 3, b.data());
  CHECK(a == b);
  synthetic_image({.size = 10, .classes = 7, .seed = 5}, 3, c.data());  // the size does not matter
  CHECK(a == c);
  synthetic_image({.size = 1000, .classes = 7, .seed = 6}, 3, c.data());
  CHECK(a != c);
  std::map<int64_t, int> counts;
  for (int64_t i = 0; i < 7000; ++i) ++counts[synthetic_label(options, i)];
  CHECK(counts.size() == 7);
  for (const auto& [label, count] : counts)
    CHECK(std::abs(count - 1000) < 150);  // 5 standard deviations
}

TEST_CASE("synthetic: mean and standard deviation are about what the header says") {
  const SyntheticOptions options;
  double sum = 0, squares = 0;
  std::vector<uint8_t> image(3072);
  for (int64_t i = 0; i < 500; ++i) {
    synthetic_image(options, i, image.data());
    for (const uint8_t v : image) {
      sum += v / 255.0;
      squares += v / 255.0 * v / 255.0;
    }
  }
  const double mean = sum / (500 * 3072), std = std::sqrt(squares / (500 * 3072) - mean * mean);
  CHECK(std::abs(mean - kSyntheticMean) < 0.03);
  CHECK(std::abs(std - kSyntheticStd) < 0.03);
}

TEST_CASE("synthetic: options out of range are refused") {
  CHECK(message_of<ValueError>([] { Synthetic({.classes = 0}); }) ==
        "Synthetic: classes must be 1 to 200, got 0");
  CHECK_THROWS_AS(Synthetic({.size = -1}), ValueError);
  CHECK_THROWS_AS(Synthetic({.channels = 17}), ValueError);
  CHECK_THROWS_AS(Synthetic({.height = 0}), ValueError);
  CHECK_THROWS_AS(Synthetic({.noise = NAN}), ValueError);
}

}  // namespace
}  // namespace lathe::data
