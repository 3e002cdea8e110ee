// What is at a path: each kind, and that a path that cannot be looked at is never "nothing".
#include "lathe/core/files/paths.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "lathe/core/error.h"

namespace lathe {
namespace {

namespace fs = std::filesystem;
using doctest::Contains;

// A file, a folder, a pipe, a link to the file, one to nothing, and two that lead to each other.
struct Places {
  Places() {
    std::string pattern = (fs::temp_directory_path() / "lathe-paths-XXXXXX").string();
    REQUIRE(::mkdtemp(pattern.data()) != nullptr);
    root = pattern;
    std::ofstream(root / "file") << "x";
    fs::create_directory(root / "folder");
    REQUIRE(::mkfifo((root / "pipe").c_str(), 0600) == 0);
    fs::create_symlink("file", root / "link");
    fs::create_symlink("unmounted/file", root / "nowhere");
    fs::create_symlink("b", root / "a");
    fs::create_symlink("a", root / "b");
  }
  ~Places() { fs::remove_all(root); }
  fs::path root;
};

TEST_CASE("paths: each kind") {
  const Places at;
  const std::pair<const char*, PathKind> kinds[] = {
      {"file", PathKind::kFile},      {"folder", PathKind::kFolder},
      {"pipe", PathKind::kOther},     {"link", PathKind::kFile},
      {"none", PathKind::kNothing},   {"none/x", PathKind::kNothing},
      {"file/x", PathKind::kNothing}, {"nowhere", PathKind::kNowhere}};
  for (const auto& [name, kind] : kinds) {
    CAPTURE(name);
    CHECK(path_kind(at.root / name) == kind);
    if (kind == PathKind::kNowhere) continue;
    CHECK(is_there(at.root / name) == (kind != PathKind::kNothing));
    CHECK(is_file(at.root / name) == (kind == PathKind::kFile));
    CHECK(is_folder(at.root / name) == (kind == PathKind::kFolder));
  }
}

TEST_CASE("paths: what cannot be looked at is an error with path and reason") {
  const Places at;
  for (const fs::path& path : {at.root / "a", at.root / "a" / "x", at.root / std::string(300, 'n'),
                               at.root / std::string("file\0x", 6)}) {
    CAPTURE(path);
    CHECK_THROWS_WITH_AS(path_kind(path), Contains(": cannot look at: "), FileError);
    CHECK_THROWS_WITH_AS(path_kind(path), Contains(path.string().substr(0, 20).c_str()), FileError);
    CHECK_THROWS_AS(is_there(path), FileError);
    CHECK_THROWS_AS(is_file(path), FileError);
    CHECK_THROWS_AS(is_folder(path), FileError);
    CHECK_THROWS_AS(is_same_file(path, at.root / "file"), FileError);
    CHECK_THROWS_AS(is_same_file(at.root / "file", path), FileError);
  }
  CHECK_THROWS_WITH_AS(path_kind(at.root / "a"), Contains("Too many levels of symbolic links"),
                       FileError);
}

TEST_CASE("paths: a link to what is not there is an error that names both") {
  const Places at;
  for (const auto ask : {is_there, is_file, is_folder})
    CHECK_THROWS_WITH_AS(
        ask(at.root / "nowhere"),
        Contains("/nowhere: is a symbolic link to unmounted/file, which is not there"), FileError);
}

TEST_CASE(
    "paths: of the entries of a folder only a link without ending may be a folder elsewhere") {
  const Places at;
  fs::create_symlink("folder", at.root / "v1.0");
  fs::create_symlink("unmounted/notes.txt", at.root / "notes.txt");
  const auto asked = [&](const char* name) { return is_folder_entry(at.root / name); };
  CHECK(asked("folder"));
  CHECK(asked("v1.0"));
  CHECK(!asked("file"));
  CHECK(!asked("link"));
  CHECK(!asked("notes.txt"));
  CHECK_THROWS_WITH_AS(asked("nowhere"), Contains("which is not there"), FileError);
}

TEST_CASE("paths: the end of links") {
  const Places at;
  fs::create_symlink("../link", at.root / "folder/deep");
  fs::create_symlink(at.root / "link", at.root / "folder/absolute");
  CHECK(end_of_links(at.root / "folder/deep") == at.root / "folder/../file");
  CHECK(end_of_links(at.root / "folder/absolute") == at.root / "file");
  CHECK(end_of_links(at.root / "nowhere") == at.root / "unmounted/file");
  CHECK(end_of_links(at.root / "none") == at.root / "none");
  CHECK_THROWS_WITH_AS(end_of_links(at.root / "a"),
                       Contains("/a: cannot follow: Too many levels of symbolic links"), FileError);
}

TEST_CASE("paths: one file under two names, and the content of a folder") {
  const Places at;
  CHECK(is_same_file(at.root / "file", at.root / "link"));
  CHECK(!is_same_file(at.root / "file", at.root / "folder"));
  CHECK(!is_same_file(at.root / "none", at.root / "none"));
  CHECK(!is_same_file(at.root / "nowhere", at.root / "file"));
  CHECK(!is_same_file(at.root / "nowhere", at.root / "nowhere"));
  CHECK(names_in(at.root) ==
        std::vector<std::string>{"a", "b", "file", "folder", "link", "nowhere", "pipe"});
  CHECK(names_in(at.root / "folder").empty());
  CHECK_THROWS_WITH_AS(names_in(at.root / "none"), Contains("No such file or directory"),
                       FileError);
  CHECK_THROWS_WITH_AS(names_in(at.root / "a"), Contains("a: cannot list: "), FileError);
  make_folders(at.root / "x/y");
  make_folders(at.root / "x/y");
  CHECK(is_folder(at.root / "x/y"));
  CHECK_THROWS_WITH_AS(make_folders(at.root / "file/y"),
                       Contains("file/y: cannot make the folder: "), FileError);
  CHECK_THROWS_WITH_AS(remove_path(at.root / "x"), Contains("x: cannot remove: "), FileError);
  remove_path(at.root / "x/y");
  remove_path(at.root / "x/y");
  CHECK(!is_there(at.root / "x/y"));
}

}  // namespace
}  // namespace lathe
