#include "lathe/data/images/published_datasets.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <optional>

#include "files.h"
#include "lathe/core/error.h"

namespace lathe::data {
namespace {

using namespace testing;

/// Sets an environment variable for a scope.
class Environment {
 public:
  Environment(const char* name, const std::string& value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    value.empty() ? unsetenv(name) : setenv(name, value.c_str(), 1);
  }
  ~Environment() { old_ ? setenv(name_, old_->c_str(), 1) : unsetenv(name_); }

 private:
  const char* name_;
  std::optional<std::string> old_;
};

TEST_CASE("published data sets: the table is complete and well-formed") {
  for (const auto& source : dataset_sources()) {
    CHECK(&dataset_source(source.name) == &source);
    CHECK(!source.folders.empty());
    for (const auto& file : source.files) {
      CHECK(file.md5.size() == 32);
      CHECK(file.bytes > 0);
    }
    for (const auto& download : source.downloads) {
      CHECK(download.md5.size() == 32);
      CHECK(download.url.find("http") == 0);
    }
  }
  CHECK(message_of<ValueError>([] { dataset_source("cifar11"); }) ==
        "unknown data set \"cifar11\"; known are cifar10, cifar100, mnist, fashion-mnist");
}

TEST_CASE(
    "published data sets: --data-root goes before LATHE_DATA_ROOT, which goes before the usual "
    "places") {
  const Environment root("LATHE_DATA_ROOT", ""), cache("XDG_CACHE_HOME", ""),
      home("HOME", "/home/someone");
  using Paths = std::vector<std::filesystem::path>;
  CHECK(data_roots() == Paths{"data", "/home/someone/.cache/lathe", "/usr/share/datasets"});
  const Environment other_cache("XDG_CACHE_HOME", "/cache");
  CHECK(data_roots() == Paths{"data", "/cache/lathe", "/usr/share/datasets"});
  const Environment set("LATHE_DATA_ROOT", "/there");
  CHECK(data_roots() == Paths{"/there"});
  CHECK(data_roots("/here") == Paths{"/here"});
}

TEST_CASE(
    "published data sets: a set is found in the root itself and in every usual folder below it") {
  for (const auto& source : dataset_sources()) {
    auto folders = source.folders;
    folders.push_back("");
    for (const auto& folder : folders) {
      const TempDir dir;
      for (const auto& file : source.files) write_file(dir.path() / folder / file.name, "");
      REQUIRE(find_dataset(source, dir.path()).has_value());
      CHECK(std::filesystem::equivalent(*find_dataset(source, dir.path()), dir.path() / folder));
      std::filesystem::remove(dir.path() / folder / source.files.back().name);
      CHECK(!find_dataset(source, dir.path()));
      write_file(dir.path() / folder / (source.files.back().name + ".gz"), "");
      CHECK(find_dataset(source, dir.path()).has_value());
    }
  }
}

TEST_CASE("published data sets: what is not found names the places and what is missing where") {
  const TempDir dir;
  const auto& source = dataset_source("cifar100");
  CHECK(message_of<DataError>([&] { require_dataset(source, dir.path()); }) ==
        "CIFAR-100 not found in " + dir.path().string());
  write_file(dir / "cifar-100-binary/train.bin", "");
  CHECK(message_of<DataError>([&] { require_dataset(source, dir.path()); }) ==
        "CIFAR-100 not found in " + dir.path().string() + "; " +
            (dir / "cifar-100-binary").string() + " lacks test.bin");
  CHECK(require_dataset(source, dir.path(), Split::kTrain) == dir / "cifar-100-binary");

  const std::filesystem::path loop = dir.path() / "loop";
  std::filesystem::create_symlink("loop", loop);
  CHECK(message_of<DataError>([&] {
          require_dataset(source, loop);
        }).find("CIFAR-100 not found in " + loop.string() + "; file: cannot look at ") == 0);
}

}  // namespace
}  // namespace lathe::data
