// Folders of JPEG and PNG files. The files are Pillow's (golden_images.py), and so is what they
// decode to.
#include "lathe/data/images/image_folder.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>

#include "files.h"
#include "golden_images.h"
#include "hash_image.h"
#include "lathe/core/ceil_div.h"
#include "lathe/data/batch.h"
#include "lathe/data/images/decode.h"
#include "lathe/data/images/image_file.h"
#include "lathe/data/images/image_files.h"

namespace lathe::data {
namespace {

namespace fs = std::filesystem;
using testing::fnv;
using testing::message_of;
using testing::TempDir;
using testing::write_file;

/// Builds may lack a decoder.
bool can_read(const golden::ImageBytes& g) {
  const bool png = std::string(g.name).starts_with("kPng");
  const std::string why = message_of<DataError>([&] {
    const FileBytes bytes(g.bytes, static_cast<size_t>(g.size));
    png ? png_spec(bytes, "x") : jpeg_spec(bytes, "x");
  });
  if (!why.empty()) CHECK(why.find("build again") != std::string::npos);
  return why.empty();
}

bool can_read_all() {
  for (const auto& g : golden::kImages)
    if (!can_read(g)) return false;
  return true;
}

std::string content(const golden::ImageBytes& g) {
  return {reinterpret_cast<const char*>(g.bytes), static_cast<size_t>(g.size)};
}

std::vector<uint8_t> pixels_of(const ImageFile& file, const ImageSpec& spec) {
  return {file.pixels(), file.pixels() + spec.pixels()};
}

/// cat: the JPEG files, one of them deeper; dog: the PNG files.
void make_folder(const TempDir& root) {
  fs::create_directories(root / "cat/deep");
  fs::create_directories(root / "dog");
  for (size_t k = 0; k < std::size(golden::kImages); ++k) {
    const auto& g = golden::kImages[k];
    const bool png = std::string(g.name).starts_with("kPng");
    const std::string folder = png ? "dog/" : k == 1 ? "cat/deep/" : "cat/";
    write_file(root / (folder + std::to_string(k) +
                       (png      ? ".png"
                        : k == 0 ? ".JPEG"
                                 : ".jpg")),
               content(g));
  }
}

const Transform kBytes = center_crop(29, 37);
const ImageFolderOptions kWhole = {.transform = kBytes};

TEST_CASE("image file: JPEG and PNG files decode to Pillow's pixels, whole and at half size") {
  const TempDir dir;
  for (const auto& g : golden::kImages) {
    if (!can_read(g)) continue;
    CAPTURE(g.name);
    write_file(dir / "image", content(g));
    ImageFile file;
    file.open(dir / "image", {});
    CHECK(file.spec() == ImageSpec{3, golden::kImageHeight, golden::kImageWidth});
    for (const double detail : {1.0, 0.51}) {
      const ImageSpec whole = file.decode(detail);
      CHECK(whole == file.spec());
      CHECK(fnv(pixels_of(file, whole)) == g.whole);
    }
    if (g.half == 0) continue;
    for (const double detail : {0.5, 0.26}) {
      const ImageSpec half = file.decode(detail);
      CHECK(half == ImageSpec{3, (golden::kImageHeight + 1) / 2, (golden::kImageWidth + 1) / 2});
      CHECK(fnv(pixels_of(file, half)) == g.half);
    }
    CHECK(file.decode(0.01) == ImageSpec{3, 4, 5});
  }
}

TEST_CASE("image file: the limit counts the pixels that are decoded, whole blocks of a JPEG file") {
  const TempDir dir;
  for (const auto& g : golden::kImages) {
    if (!can_read(g)) continue;
    CAPTURE(g.name);
    write_file(dir / "image", content(g));
    const bool is_jpeg = static_cast<uint8_t>(content(g)[0]) == 0xff;
    const int64_t block = is_jpeg ? 32 : 1;
    const int64_t pixels =
        round_up(golden::kImageHeight, block) * round_up(golden::kImageWidth, block);
    ImageFile file;
    file.open(dir / "image", {.pixels = pixels});
    CHECK(file.decode(1) == file.spec());
    CHECK(message_of<DataError>([&] {
            file.open(dir / "image", {.pixels = pixels - 1});
          }).find(concat("the limit is ", pixels - 1, " pixels")) != std::string::npos);
  }
}

TEST_CASE("image folder: classes and files come in the order of their names") {
  if (!can_read_all()) return;
  const TempDir root;
  make_folder(root);
  write_file(root / "dog/notes.txt", "not an image");
  write_file(root / "dog/.hidden.png", "not looked at");
  write_file(root / "README.md", "beside the classes");
  fs::create_directories(root / ".cache");
  fs::create_directories(root / "10");
  write_file(root / "10/a.png", content(golden::kImages[5]));

  const ImageFolder folder(root.path(), kWhole);
  CHECK(folder.class_names() == std::vector<std::string>{"10", "cat", "dog"});
  CHECK(folder.size() == 10);
  std::vector<std::string> names;
  for (int64_t i = 0; i < folder.size(); ++i)
    names.push_back(fs::relative(folder.path(i), root.path()).string());
  CHECK(names == std::vector<std::string>{"10/a.png", "cat/0.JPEG", "cat/2.jpg", "cat/3.jpg",
                                          "cat/4.jpg", "cat/deep/1.jpg", "dog/5.png", "dog/6.png",
                                          "dog/7.png", "dog/8.png"});
  const std::vector<int64_t> all = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  const Batch batch = read_batch(folder, all);
  CHECK(batch.y.to_vector<int64_t>() == std::vector<int64_t>{0, 1, 1, 1, 1, 1, 2, 2, 2, 2});
  CHECK(batch.x.shape() == Shape{10, 3, 29, 37});
  const auto* first = batch.x.data<uint8_t>();
  CHECK(fnv({first, first + 3 * 29 * 37}) == golden::kImages[5].whole);
}

TEST_CASE(
    "image folder: the files of a folder come before those of its folders, whose paths decide") {
  if (!can_read_all()) return;
  const TempDir root;
  for (const char* name : {"class/b/1.png", "class/a/c/3.png", "class/a/2.png"}) {
    fs::create_directories((root.path() / name).parent_path());
    write_file(root / name, content(golden::kImages[5]));
  }
  const ImageFolder folder(root.path(), kWhole);
  REQUIRE(folder.size() == 3);
  CHECK(folder.path(0) == root.path() / "class/a/2.png");
  CHECK(folder.path(1) == root.path() / "class/a/c/3.png");
  CHECK(folder.path(2) == root.path() / "class/b/1.png");
}

TEST_CASE("image folder: scaled decoding looks like the whole image made smaller") {
  if (!can_read_all()) return;
  const TempDir root;
  make_folder(root);
  const std::vector<int64_t> jpeg = {0};
  ImageFolderOptions options = {.transform = resize(14, 18)};
  const Batch scaled = read_batch(ImageFolder(root.path(), options), jpeg);
  options.scaled_decoding = false;
  const Batch whole = read_batch(ImageFolder(root.path(), options), jpeg);
  double sum = 0;
  const auto a = scaled.x.to_vector<double>(), b = whole.x.to_vector<double>();
  for (size_t k = 0; k < a.size(); ++k) sum += std::abs(a[k] - b[k]);
  CHECK(sum > 0);  // half the size was decoded
  CHECK(sum / static_cast<double>(a.size()) < 10);
}

TEST_CASE("image folder: the same bytes from any thread, and others in another epoch") {
  if (!can_read_all()) return;
  const TempDir root;
  make_folder(root);
  const ImageFolder folder(root.path(), {.transform = compose(random_resized_crop(16), hflip())});
  const std::vector<int64_t> all = {8, 7, 6, 5, 4, 3, 2, 1, 0}, last = {0};
  const auto once = read_batch(folder, all, 1, 0).x.to_vector<double>();
  CHECK(read_batch(folder, all, 1, 0).x.to_vector<double>() == once);
  CHECK(read_batch(folder, all, 1, 1).x.to_vector<double>() != once);
  CHECK(read_batch(folder, all, 2, 0).x.to_vector<double>() != once);
  const auto alone = read_batch(folder, last, 1, 0).x.to_vector<double>();
  CHECK(std::equal(alone.begin(), alone.end(), once.end() - 3 * 16 * 16));
}

TEST_CASE(
    "image folder: a broken file is refused by name, or its place is taken and it is counted") {
  if (!can_read_all()) return;
  const TempDir root;
  make_folder(root);
  const std::string jpeg = content(golden::kImages[0]);
  struct Broken {
    std::string bytes, says;
  };
  const Broken kinds[] = {
      {jpeg.substr(0, jpeg.size() / 2), ": is a damaged JPEG file: "},
      {jpeg.substr(0, 12), ": is a damaged JPEG file: "},
      {"", ": is empty"},
      {"GIF89a and more", ": is neither JPEG, PNG nor WebP"},
      {content(golden::kImages[5]).substr(0, 200), ": is a damaged PNG file: "},
  };
  const std::vector<int64_t> indices = {1, 2};
  for (const Broken& kind : kinds) {
    write_file(root / "cat/2.jpg", kind.bytes);
    const ImageFolder strict(root.path(), kWhole);
    const std::string text = message_of<DataError>([&] { read_batch(strict, indices); });
    CHECK_MESSAGE(text.find((root / "cat/2.jpg").string() + kind.says) != std::string::npos, text);

    ImageFolderOptions skip = kWhole;
    skip.broken = BrokenImage::kSkip;
    const ImageFolder lenient(root.path(), skip);
    CHECK(lenient.broken().empty());
    const Batch batch = read_batch(lenient, indices);
    const size_t half = static_cast<size_t>(batch.x.numel()) / 2;
    const auto x = batch.x.to_vector<double>();
    CHECK(std::equal(x.begin(), x.begin() + static_cast<int64_t>(half),
                     x.begin() + static_cast<int64_t>(half)));  // both are file 2
    CHECK(lenient.broken() == std::vector<std::string>{root / "cat/2.jpg"});
  }
  fs::remove(root / "cat/2.jpg");
  const ImageFolder gone = [&] {
    write_file(root / "cat/2.jpg", jpeg);
    ImageFolder listed(root.path(), kWhole);
    fs::remove(root / "cat/2.jpg");
    return listed;
  }();
  CHECK_THROWS_AS(read_batch(gone, indices), FileError);
}

TEST_CASE("image folder: the files that are kept replace each other, and no others do") {
  if (!can_read_all()) return;
  const TempDir root;
  make_folder(root);
  ImageFolderOptions skip = kWhole;
  skip.broken = BrokenImage::kSkip;
  const ImageFolder all(root.path(), skip);
  ImageFolder some(root.path(), skip);
  const int64_t last = all.size() - 1;
  some.keep({last, 0, 1});
  CHECK(some.size() == 3);
  CHECK(some.classes() == all.classes());
  CHECK(some.path(0) == all.path(last));
  CHECK(some.label(0) == all.label(last));
  write_file(some.path(0), "neither");
  const Batch batch = read_batch(some, std::vector<int64_t>{0});  // after the last comes image 0
  CHECK(batch.x.to_vector<double>() ==
        read_batch(all, std::vector<int64_t>{0}).x.to_vector<double>());
  CHECK_THROWS_AS(some.keep({3}), IndexError);
  CHECK(some.size() == 3);
}

TEST_CASE("image files: samples are those of a folder, and a broken one is zeros with label -1") {
  if (!can_read_all()) return;
  const TempDir root;
  make_folder(root);
  const ImageFolder folder(root.path(), kWhole);
  std::vector<std::string> files;  // in the folder's order, which goes by class
  for (const char* name : {"cat", "dog"}) {
    const std::vector<std::string> found = images_below(root / name);
    files.insert(files.end(), found.begin(), found.end());
  }
  REQUIRE(std::ssize(files) == folder.size());
  write_file(root / "text.jpg", "neither");
  files.insert(files.begin() + 1, {root / "text.jpg", root / "missing.png"});
  const ImageFiles set(files, {.transform = kBytes});
  std::vector<int64_t> indices(files.size());
  std::iota(indices.begin(), indices.end(), 0);
  const Batch batch = read_batch(set, indices);
  const auto labels = batch.y.to_vector<int64_t>();
  for (const int64_t i : indices) {
    CAPTURE(i);
    const bool broken = i == 1 || i == 2;
    CHECK(labels[static_cast<size_t>(i)] == (broken ? -1 : i));
    CHECK(set.error(i).empty() != broken);
    const auto x = batch.x.select(0, i).to_vector<int>();
    if (broken) {
      CHECK(x == std::vector<int>(x.size(), 0));
    } else {
      const Batch same = read_batch(folder, std::vector<int64_t>{i == 0 ? 0 : i - 2});
      CHECK(x == same.x.select(0, 0).to_vector<int>());
    }
  }
  CHECK(set.error(1).find("text.jpg: is neither") != std::string::npos);
  CHECK(set.error(2).find("missing.png") != std::string::npos);
  const ImageFiles grey(files, {.transform = kBytes.then(grayscale()), .one_channel = true});
  const Batch one = read_batch(grey, std::vector<int64_t>{0});
  CHECK(one.x.shape() == Shape{1, 1, 29, 37});
}

TEST_CASE("image folder: when the first file or every file is broken") {
  if (!can_read_all()) return;
  const TempDir root;
  fs::create_directories(root / "a");
  write_file(root / "a/0.png", "no");
  write_file(root / "a/1.png", content(golden::kImages[5]));
  CHECK_THROWS_AS(ImageFolder(root.path(), kWhole), DataError);
  ImageFolderOptions later = kWhole;
  later.broken = BrokenImage::kRefuseWhenRead;
  const ImageFolder opened(root.path(), later);
  CHECK_THROWS_AS(read_batch(opened, std::vector<int64_t>{0}), DataError);
  CHECK(read_batch(opened, std::vector<int64_t>{1}).size() == 1);
  ImageFolderOptions skip = kWhole;
  skip.broken = BrokenImage::kSkip;
  const ImageFolder folder(root.path(), skip);
  const std::vector<int64_t> both = {0, 1};
  CHECK(read_batch(folder, both).size() == 2);
  write_file(root / "a/1.png", "neither");
  CHECK(message_of<DataError>([&] { read_batch(folder, both); }).find("none of 2 images") !=
        std::string::npos);
  const std::string none = message_of<DataError>([&] { ImageFolder(root.path(), skip); });
  CHECK_MESSAGE(none.starts_with("none of 2 images can be read; the first: " +
                                 (root / "a/0.png").string() + ": is neither"),
                none);
  const ImageFolder unread(root.path(), later);
  std::vector<uint8_t> pixels;
  for (int64_t i = 0; i < 2; ++i) CHECK_THROWS_AS(unread.load(i, pixels), DataError);
}

TEST_CASE(
    "image folder: what is too large, of another size or not there is an error with the value") {
  if (!can_read_all()) return;
  const TempDir root;
  make_folder(root);
  CHECK(message_of<DataError>([&] {
          ImageFolder(root.path(), {.limit_pixels = 1000});
        }).find("0.JPEG: is an image of 29x37; the limit is 1000 pixels") != std::string::npos);
  // A header that promises more than the file holds costs nothing.
  std::string huge = content(golden::kImages[5]);
  huge[16] = huge[20] = 0x7f;
  write_file(root / "cat/2.jpg", huge);
  const ImageFolder large(root.path(), kWhole);
  CHECK_THROWS_AS(read_batch(large, std::vector<int64_t>{1}), DataError);

  write_file(root / "cat/2.jpg", content(golden::kImages[0]));
  fs::create_directories(root / "bird");
  CHECK(message_of<DataError>([&] { ImageFolder(root.path(), kWhole); }) ==
        (root / "bird").string() + ": a class without images (.jpg, .jpeg, .png, .webp)");
  fs::create_directory_symlink(root.path(), root / "bird/loop");
  CHECK(message_of<DataError>([&] { ImageFolder(root.path(), kWhole); }).find("folders deep") !=
        std::string::npos);
  CHECK(message_of<DataError>([&] { ImageFolder(root / "dog", kWhole); }).find("has no folders") !=
        std::string::npos);
  CHECK_THROWS_AS(ImageFolder(root / "nowhere", kWhole), FileError);
}

TEST_CASE("image file: a file without its tables does not get those of the one before") {
  if (!can_read_all()) return;
  const TempDir dir;
  std::string bytes = content(golden::kImages[0]);
  write_file(dir / "good", bytes);
  for (size_t at = bytes.find("\xff\xdb"); at != std::string::npos; at = bytes.find("\xff\xdb"))
    bytes.erase(
        at, 2 + static_cast<uint8_t>(bytes[at + 2]) * 256u + static_cast<uint8_t>(bytes[at + 3]));
  write_file(dir / "bare", bytes);
  ImageFile file;
  file.open(dir / "good", {});
  file.decode(1);
  CHECK_THROWS_AS((file.open(dir / "bare", {}), file.decode(1)), DataError);
  file.open(dir / "good", {});
  CHECK(fnv(pixels_of(file, file.decode(1))) == golden::kImages[0].whole);
}

TEST_CASE("image file: no cut and no flipped bit crashes a decoder") {
  const TempDir dir;
  for (const auto& g : golden::kImages) {
    if (!can_read(g)) continue;
    int refused = 0;
    const auto attempt = [&](const std::string& bytes) {
      write_file(dir / "image", bytes);
      ImageFile file;
      try {
        file.open(dir / "image", {.pixels = 1'000'000});
        file.decode(1);
      } catch (const DataError&) {
        ++refused;
      }
    };
    // The end of a PNG file is empty, and so is the end marker of a JPEG file.
    const int64_t needed = g.size - (g.half == 0 ? 16 : 2);
    for (int64_t length = 0; length < needed; length += 7)
      attempt(content(g).substr(0, static_cast<size_t>(length)));
    CHECK(refused == (needed + 6) / 7);  // whatever is cut off is refused
    for (size_t at = 0; at < static_cast<size_t>(g.size); at += 3) {
      std::string damaged = content(g);
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << at % 8));
      attempt(damaged);
    }
  }
}

}  // namespace
}  // namespace lathe::data
