// Data sets over packed files, and packing: the samples are those of the set that was packed.
#include "lathe/data/images/packed_images.h"

#include <doctest/doctest.h>

#include <numeric>

#include "files.h"
#include "lathe/core/error.h"
#include "lathe/data/batch.h"
#include "lathe/data/data_loader.h"
#include "lathe/data/images/cached_images.h"
#include "lathe/data/images/pack_images.h"
#include "lathe/data/images/verify.h"
#include "packed_bytes.h"

namespace lathe::data {
namespace {

using testing::message_of;
using testing::TempDir;

constexpr int64_t kImages = 30;

std::shared_ptr<Synthetic> images_of(int64_t side, const Transform& transform = {}) {
  return std::make_shared<Synthetic>(
      SyntheticOptions{.size = kImages, .classes = 4, .height = side, .width = side}, transform);
}

PackedInfo info_of(const ImageDataset& images) {
  return {images.channels(), images.class_names(), images.mean(), images.std()};
}

/// `train` and `test` in one file.
std::vector<std::string> pack(const std::filesystem::path& path, const ImageDataset& train,
                              const ImageDataset& test, const PackOptions& options = {}) {
  PackedWriter writer(path, info_of(train));
  std::vector<std::string> broken = pack_images(train, writer, options);
  writer.begin_test();
  for (const std::string& more : pack_images(test, writer, options)) broken.push_back(more);
  writer.commit();
  return broken;
}

Batch all_of(const Dataset& images, int64_t epoch = 0) {
  std::vector<int64_t> all(static_cast<size_t>(images.size()));
  std::iota(all.begin(), all.end(), 0);
  return read_batch(images, all, 7, epoch);
}

template <class T>
void check_same(const Batch& a, const Batch& b) {
  CHECK(a.x.shape() == b.x.shape());
  CHECK(a.x.to_vector<T>() == b.x.to_vector<T>());
  CHECK(a.y.to_vector<int64_t>() == b.y.to_vector<int64_t>());
}

/// Every third image cannot be read.
class Broken final : public ImageDataset {
 public:
  Broken()
      : ImageDataset({3, 8, 8, kU8}, {"a", "b", "c", "d"}, {0, 0, 0}, {1, 1, 1}),
        images_(images_of(8)) {
    set_transform({});
  }
  int64_t size() const override { return kImages; }
  int64_t label(int64_t i) const override { return images_->label(i); }
  StoredImage load(int64_t i, std::vector<uint8_t>& pixels) const override {
    if (i % 3 == 1) throw DataError("image " + std::to_string(i) + " is broken");
    return images_->load(i, pixels);
  }

 protected:
  int64_t read_image(int64_t, Key, void*) const override { return 0; }

 private:
  std::shared_ptr<Synthetic> images_;
};

TEST_CASE("packed images: the samples of the set that was packed, with every transform") {
  const TempDir dir;
  const auto train = images_of(32), test = images_of(24);
  CHECK(pack(dir / "f", *train, *test).empty());
  for (const Transform& transform :
       {Transform(), compose(pad_crop(32, 4), hflip()),
        compose(random_resized_crop(16), hflip(), normalize(train->mean(), train->std()))}) {
    for (const bool is_train : {true, false}) {
      const auto source = is_train ? train : test;
      if (!is_train && !transform.empty() && transform.output({3, 24, 24}).height == 32) {
        source->set_transform(pad_crop(24, 4));
      } else {
        source->set_transform(transform);
      }
      const PackedImages packed(dir / "f", is_train, source->transform());
      CHECK(packed.size() == kImages);
      CHECK(packed.has_one_size());
      CHECK(packed.class_names() == train->class_names());
      CHECK(packed.mean() == train->mean());
      for (const int64_t epoch : {0, 3}) {
        if (packed.spec().fields[0].dtype == kU8)
          check_same<uint8_t>(all_of(*source, epoch), all_of(packed, epoch));
        else
          check_same<float>(all_of(*source, epoch), all_of(packed, epoch));
      }
    }
  }
}

TEST_CASE("packed images: images of many sizes need a transform that makes one of them") {
  const TempDir dir;
  testing::write_file(dir / "f", testing::packed_bytes(testing::three_images(), 2, {"a", "b"}, 3));
  const PackedImages packed(dir / "f", true, resize(2, 2));
  CHECK_FALSE(packed.has_one_size());
  CHECK(all_of(packed).x.shape() == Shape{2, 3, 2, 2});
  CHECK(PackedImages(dir / "f", false).has_one_size());
  std::vector<uint8_t> pixels;
  CHECK(packed.load(1, pixels).spec == ImageSpec{3, 1, 2});
  CHECK(pixels == std::vector<uint8_t>{'0', '1', '2', '3', '4', '5'});
  const PackedImages as_they_are(dir / "f", true);
  CHECK(message_of<DataError>([&] {
          all_of(as_they_are);
        }).find("f: record 1: the transform makes 1x2 of an image of 1x2, but 2x3 of the first") !=
        std::string::npos);
}

TEST_CASE("packed images: a file without images of a part says so") {
  const TempDir dir;
  for (const size_t train : {size_t{0}, size_t{3}}) {
    testing::write_file(dir / "f",
                        testing::packed_bytes(testing::three_images(), train, {"a", "b"}, 3));
    const std::string message =
        message_of<DataError>([&] { PackedImages(dir / "f", train == 0, resize(2, 2)); });
    CHECK(message.find(train == 0 ? "no images for training" : "no images for testing") !=
          std::string::npos);
  }
}

TEST_CASE("pack_images: images with other channels than the file's are refused") {
  const TempDir dir;
  const auto large = images_of(21);
  PackedWriter one_channel(
      dir / "h", {.channels = 1, .class_names = large->class_names(), .mean = {0.5}, .std = {0.5}});
  CHECK(message_of<ValueError>([&] {
          pack_images(*large, one_channel);
        }).find("image 0 has 3 channels, but the file is for images of 1") != std::string::npos);
}

TEST_CASE("pack_images: one size if asked for, broken images refused or left out by name") {
  const TempDir dir;
  const auto large = images_of(21);
  pack(dir / "f", *large, *large, {.side = 10});
  large->set_transform(resize(10));
  check_same<uint8_t>(all_of(*large), all_of(PackedImages(dir / "f")));

  const Broken some;
  CHECK(message_of<DataError>([&] { pack(dir / "g", some, some); }).find("image 1 is broken") !=
        std::string::npos);
  CHECK(testing::names_in(dir.path()) == std::vector<std::string>{"f"});
  int64_t done = 0;
  const auto broken =
      pack(dir / "g", some, some, {.skip_broken = true, .progress = [&](int64_t n) { done = n; }});
  CHECK(broken.size() == 2 * kImages / 3);
  CHECK(broken[1] == "image 4 is broken");
  CHECK(done == kImages);
  const PackedImages packed(dir / "g");
  CHECK(packed.size() == 2 * kImages / 3);
  CHECK(packed.label(1) == some.label(2));
}

TEST_CASE(
    "verify_images: counts per class, names what is broken, the same hash for the same images") {
  const TempDir dir;
  const auto train = images_of(8), test = images_of(9);
  pack(dir / "f", *train, *test);
  const ImagesReport report = verify_images(*train);
  CHECK(report.broken_images() == 0);
  CHECK(std::accumulate(report.whole.begin(), report.whole.end(), int64_t{0}) == kImages);
  CHECK(report.sha256 == verify_images(PackedImages(dir / "f")).sha256);
  CHECK(report.sha256 != verify_images(PackedImages(dir / "f", false)).sha256);

  const ImagesReport some = verify_images(Broken());
  REQUIRE(some.broken_images() == kImages / 3);
  CHECK(some.messages[1] == "image 4 is broken");
  int64_t broken = 0;
  for (size_t k = 0; k < 4; ++k) {
    broken += some.broken[k];
    CHECK(some.whole[k] + some.broken[k] == report.whole[k]);
  }
  CHECK(broken == kImages / 3);
}

TEST_CASE("cached images: the samples of their source, each loaded once") {
  const TempDir dir;
  const auto train = images_of(16, compose(pad_crop(16, 2), hflip()));
  pack(dir / "f", *train, *train);
  const CachedImages cached(std::make_shared<PackedImages>(dir / "f", true, train->transform()));
  DataLoader loader(cached, {.batch_size = kImages, .num_workers = 2});
  for (int epoch = 0; epoch < 2; ++epoch) {
    const Batch expected = read_batch(*train, std::vector<int64_t>{3, 3, 29}, 7, epoch);
    check_same<uint8_t>(expected, read_batch(cached, std::vector<int64_t>{3, 3, 29}, 7, epoch));
    for (auto& [x, y] : loader) CHECK(x.dim(0) == kImages);
    testing::patch_file(dir / "f", 100, std::string(5000, 'x'));  // nobody looks there any more
  }
}

}  // namespace
}  // namespace lathe::data
