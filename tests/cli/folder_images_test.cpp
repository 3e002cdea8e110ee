// How the files of a folder of images are named to people. data_test.py has the folders themselves.
#include "lathe/tools/cli/training/folder_images.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <string>

#include "temporary_folder.h"

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
