// How the files of a folder of images are named to people. data_test.py has the folders themselves.
#include "lathe/tools/cli/training/folder_images.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "lathe/core/error.h"
#include "lathe/tests/cli/temporary_folder.h"

using namespace lathe::cli;
namespace fs = std::filesystem;

TEST_CASE("folder images: a file is named from the working directory if it lies below that") {
  const lathe::test::TemporaryFolder folder;
  const fs::path before = fs::current_path();
  fs::create_directories(folder.path() / "work");
  fs::current_path(folder.path() / "work");
  const std::string here = fs::current_path().string();
  CHECK(shown_path(here + "/pets/cat 1.png") == "pets/cat 1.png");
  for (const std::string& as_it_is : {here + "/../1.png", here + "more/1.png",
                                      std::string("/elsewhere/1.png"), std::string("pets/1.png")})
    CHECK(shown_path(as_it_is) == as_it_is);
  fs::remove(here);  // a working directory that is gone
  CHECK(shown_path(here + "/1.png") == here + "/1.png");
  fs::current_path(before);
}

namespace {

/// Makes files, and the folders that they lie in.
void make(const fs::path& root, const std::vector<std::string>& files) {
  for (const std::string& file : files) {
    fs::create_directories((root / file).parent_path());
    std::ofstream(root / file) << "x";
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
    const lathe::test::TemporaryFolder root;
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
       "/pets has folders of images: name it with --data-root"},
      {{"PetImages/Cat/1.jpg", "PetImages/Dog/1.jpg", "docs/a/b.txt"},
       L::kOther,
       "/PetImages has folders of images"},
      {{"deep/pets/cat/1.jpg", "deep/pets/dog/1.jpg"}, L::kOther, ""},
      {{"list.txt", "test/unit/main.cpp"}, L::kOther, ""},
  };
  for (const auto& c : kCases) {
    CAPTURE(c.files);
    const lathe::test::TemporaryFolder root;
    make(root.path(), c.files);
    const ImageFolders found = look_into(root.path());
    CHECK(found.layout == c.layout);
    CHECK(found.problem.empty() == c.problem.empty());
    CHECK(found.problem.find(c.problem) != std::string::npos);
    CHECK(found.holds_images() == (c.layout == L::kClasses || !c.problem.empty()));
  }
  const lathe::test::TemporaryFolder root;
  CHECK(look_into(root.path() / "nowhere").layout == L::kMissing);
  make(root.path(), {"file"});
  CHECK(look_into(root.path() / "file").layout == L::kOther);
  fs::create_directory_symlink("loop", root.path() / "loop");
  CHECK_THROWS_AS(look_into(root.path() / "loop"), lathe::FileError);  // it cannot be looked at
}
