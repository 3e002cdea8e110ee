#include "lathe/tools/cli/training/run_folder.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <thread>

#include "lathe/core/error.h"
#include "lathe/core/files/scratch_folder.h"
#include "lathe/tests/cli/temporary_folder.h"
#include "lathe/tools/cli/exit_codes.h"

using namespace lathe::cli;
using lathe::test::TemporaryFolder;
namespace fs = std::filesystem;

TEST_CASE("run folder: the default name takes the first free number") {
  const TemporaryFolder folder;
  const fs::path before = fs::current_path();
  fs::current_path(folder.path());
  CHECK(make_run_folder("", "mnist-resnet8", "20260131") == "runs/mnist-resnet8-20260131-1");
  CHECK(make_run_folder("", "mnist-resnet8", "20260131") == "runs/mnist-resnet8-20260131-2");
  CHECK(fs::is_directory("runs/mnist-resnet8-20260131-2"));
  fs::current_path(before);
}

TEST_CASE("run folder: a folder that holds a run is not written over") {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "a" / "b").string();
  fs::create_directories(path);
  CHECK(make_run_folder(path, "x", "y") == path);
  CHECK_THROWS_WITH_AS(make_run_folder(path, "x", "y"),
                       doctest::Contains("already holds a run (log.txt)"), UsageError);
  for (const char* file : {"config.toml", "env.json", "metrics.jsonl", "metrics.csv",
                           "last.safetensors", "best.safetensors"}) {
    fs::remove_all(path);
    fs::create_directories(path);
    fs::create_symlink("/nonexistent", fs::path(path) / file);  // a link is not replaced either
    CHECK_THROWS_WITH_AS(make_run_folder(path, "x", "y"), doctest::Contains(file), UsageError);
    CHECK_FALSE(fs::exists(fs::path(path) / "log.txt"));
  }
  const std::string file = folder.write("file", "");
  CHECK_THROWS_AS(make_run_folder(file + "/run", "x", "y"), lathe::FileError);
  CHECK_THROWS_WITH_AS(make_run_folder(std::string(300, 'x'), "x", "y"),
                       doctest::Contains("File name too long"), lathe::FileError);
}

TEST_CASE("scratch folders: of those that are made at once none is swept") {
  const TemporaryFolder folder;
  const char* const before = std::getenv("TMPDIR");
  const std::string kept = before ? before : "";
  setenv("TMPDIR", folder.path().c_str(), 1);
  std::atomic<int> gone{0};
  const auto make = [&gone] {
    for (int i = 0; i < 500; ++i) {
      const lathe::ScratchFolder scratch("x");
      gone += fs::exists(scratch.path()) ? 0 : 1;
    }
  };
  std::thread other(make);
  make();
  other.join();
  before ? setenv("TMPDIR", kept.c_str(), 1) : unsetenv("TMPDIR");
  CHECK(gone.load() == 0);
  CHECK(fs::is_empty(folder.path()));
}
