// Which layouts of folders of images are understood, and what is said of others.
#include "lathe/data/images/image_folders.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "files.h"
#include "lathe/core/error.h"

using namespace lathe;
using namespace lathe::data;
using data::testing::TempDir;
namespace fs = std::filesystem;

namespace {

/// Makes files, and the folders that they lie in.
void make(const fs::path& root, const std::vector<std::string>& files) {
  for (const std::string& file : files) {
    fs::create_directories((root / file).parent_path());
    data::testing::write_file(root / file, "x");
  }
}

}  // namespace

TEST_CASE("folder images: parts have the usual names, in letters of any case") {
  const struct {
    std::vector<std::string> files;
    std::string train, val, test;
  } kCases[] = {
      {{"train/a/1.jpg", "valid/a/1.jpg", "test/a/1.jpg"}, "train", "valid", "test"},
      {{"training/a/1.png", "validation/a/1.png"}, "training", "validation", ""},
      {{"Train/a/1.JPG", "TEST/a/1.webp"}, "Train", "", "TEST"},
      {{"train/a/1.jpg", "Testing/a/1.jpg", "eval/a/1.jpg"}, "train", "eval", "Testing"},
      {{"train/a/1.jpg", "train/labels.jpg", "samples/1.jpg"}, "train", "", ""},
  };
  for (const auto& c : kCases) {
    CAPTURE(c.files);
    const TempDir root;
    make(root.path(), c.files);
    const ImageFolders found = look_into(root.path());
    CHECK(found.layout == FolderLayout::kParts);
    CHECK(found.train.filename() == c.train);
    CHECK(found.val.filename() == c.val);
    CHECK(found.test.filename() == c.test);
    CHECK(found.divides_three() == (!c.val.empty() && !c.test.empty()));
  }
}

TEST_CASE("folder images: classes are told from parts, and what is neither is named") {
  using L = FolderLayout;
  const struct {
    std::vector<std::string> files;
    FolderLayout layout;
    std::string problem;  // a part of it
  } kCases[] = {
      {{"cat/1.jpg", "dog/1.jpg"}, L::kClasses, ""},
      {{"bus/1.jpg", "car/1.jpg", "train/1.jpg"}, L::kClasses, ""},
      {{"bus/1.jpg", "train/1.jpg"}, L::kOther, "if train is a class itself, give it another name"},
      {{"train/1.jpg", "test/1.jpg", "sample/1.jpg", "more/1.jpg"},
       L::kOther,
       "train holds 1 image, and"},
      {{"train/1.jpg", "train/2.jpg", "test/1.jpg"},
       L::kOther,
       "train holds 2 images, and no folders"},
      {{"train/a/1.jpg", "Training/a/1.jpg"},
       L::kOther,
       "has Training and train, which are two names of one part"},
      {{"train/a/1.jpg", "dev/a/1.jpg", "eval/a/1.jpg"},
       L::kOther,
       "has dev and eval, which are two names of one part"},
      {{"train/a/1.jpg", "val/a/1.jpg", "valid/a/1.jpg"},
       L::kOther,
       "has val and valid, which are"},
      {{"val/a/1.jpg", "test/a/1.jpg"},
       L::kOther,
       "has the folders test, val; wanted are train and test"},
      {{"1.jpg", "2.jpeg", "list.txt"}, L::kOther, "holds 2 images, and no folders"},
      {{"cat/1.jpg"}, L::kOther, "has the folder cat; wanted are"},
      {{"cat/1.bmp", "dog/1.bmp"}, L::kOther, ""},
      {{"pets/train/cat/1.jpg", "pets/test/cat/1.jpg", "list.txt"},
       L::kOther,
       "/pets has folders of images"},
      {{"PetImages/Cat/1.jpg", "PetImages/Dog/1.jpg", "docs/a/b.txt"},
       L::kOther,
       "/PetImages has folders of images"},
      {{"deep/pets/cat/1.jpg", "deep/pets/dog/1.jpg"}, L::kOther, ""},
      {{"list.txt", "test/unit/main.cpp"}, L::kOther, ""},
  };
  for (const auto& c : kCases) {
    CAPTURE(c.files);
    const TempDir root;
    make(root.path(), c.files);
    const ImageFolders found = look_into(root.path());
    CHECK(found.layout == c.layout);
    CHECK(found.problem.empty() == c.problem.empty());
    CHECK(found.problem.find(c.problem) != std::string::npos);
    CHECK(found.below.empty() ==
          (found.problem.find("has folders of images") == std::string::npos));
    CHECK(found.holds_images() == (c.layout == L::kClasses || !c.problem.empty()));
  }
  const TempDir root;
  CHECK(look_into(root / "nowhere").layout == L::kMissing);
  make(root.path(), {"file"});
  CHECK(look_into(root.path() / "file").layout == L::kOther);
  fs::create_directory_symlink("loop", root.path() / "loop");
  CHECK_THROWS_AS(look_into(root.path() / "loop"), FileError);  // it cannot be looked at
}

TEST_CASE("folder images: a part is opened, and what DIR lacks is said with what is wanted") {
  const ImageFolderOptions unread{.broken = BrokenImage::kRefuseWhenRead};
  const TempDir root;
  make(root.path(), {"train/cat/1.jpg", "train/cat/2.jpg", "train/dog/1.jpg", "train/dog/x.bmp",
                     "val/cat/1.jpg", "val/dog/2.jpg", "val/dog/3.jpg"});
  const auto train = open_image_folder(root.path(), Part::kTrain, unread);
  const auto val = open_image_folder(root.path(), Part::kVal, unread);
  CHECK(train->class_names() == std::vector<std::string>{"cat", "dog"});
  CHECK(train->size() == 3);
  CHECK(val->label(2) == 1);
  CHECK(open_image_folder(root.path(), Part::kTest, unread)->path(0) == val->path(0));
  CHECK(files_of(*train, {2, 0}) == std::vector<std::string>{train->path(2), train->path(0)});
  CHECK(left_out_text({train.get(), val.get(), train.get()}) ==
        "left out: 1 .bmp; images are .jpg, .jpeg, .png and .webp files");

  fs::remove_all(root / "val/dog");
  CHECK_THROWS_WITH_AS(open_image_folder(root.path(), Part::kVal, unread),
                       doctest::Contains("has 1 classes that are not the 2 of"), DataError);
  fs::remove_all(root / "val");
  CHECK_THROWS_WITH_AS(open_image_folder(root.path(), Part::kVal, unread),
                       doctest::Contains("has the folder train; wanted are train and test"),
                       DataError);
  const auto classes = open_image_folder(root / "train", Part::kTrain, unread);
  CHECK(classes->size() == 3);
  CHECK_THROWS_WITH_AS(open_image_folder(root / "train", Part::kTest, unread),
                       doctest::Contains("has the folders cat, dog; wanted are"), DataError);
}
