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

TEST_CASE("published data sets: files have the sizes that their formats give") {
  for (const auto& source : dataset_sources()) {
    CAPTURE(source.name);
    const int64_t image = source.info.channels * source.info.side * source.info.side;
    int64_t images[2] = {0, 0};  // for testing and for training
    for (const auto& file : source.files) {
      CAPTURE(file.name);
      if (file.name.find("labels-idx1") != std::string::npos) {
        CHECK(file.bytes == 8 + (file.train ? 60'000 : 10'000));
        continue;
      }
      const bool is_idx = file.name.find("images-idx3") != std::string::npos;
      const int64_t head = is_idx ? 16 : 0, labels = is_idx ? 0 : source.name == "cifar100" ? 2 : 1;
      CHECK((file.bytes - head) % (image + labels) == 0);
      images[file.train] += (file.bytes - head) / (image + labels);
    }
    CHECK(images[true] == (image == 784 ? 60'000 : 50'000));
    CHECK(images[false] == 10'000);
  }
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
        }).find("CIFAR-100 not found in " + loop.string() + "; ") == 0);
}

}  // namespace
}  // namespace lathe::data
