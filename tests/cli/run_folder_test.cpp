#include "lathe/tools/cli/training/run_folder.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <thread>

#include "lathe/core/error.h"
#include "lathe/tests/cli/file_size_limit.h"
#include "lathe/tests/cli/temporary_folder.h"
#include "lathe/tools/cli/exit_codes.h"
#include "lathe/tools/cli/scratch_folder.h"

using namespace lathe::cli;
using lathe::test::FileSizeLimit;
using lathe::test::TemporaryFolder;
namespace fs = std::filesystem;

static const Row kColumns = metrics_row({});

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

TEST_CASE("run folder: metrics go to both files, the CSV with one header") {
  const TemporaryFolder folder;
  MetricsFiles files(folder.path(), kColumns);
  const std::string header =
      "epoch,step,split,loss,accuracy,lr,images_per_second,time,memory_peak_bytes,"
      "memory_peak_other,memory_peak_weights,memory_peak_gradients,memory_peak_optimiser_state,"
      "memory_peak_activations,memory_peak_workspace,memory_peak_data,memory_reserved_bytes,"
      "schema\n";
  CHECK(folder.read("metrics.csv") == header);  // before the first row
  files.add(
      metrics_row({.epoch = 1,
                   .step = 50,
                   .split = "train",
                   .loss = 2.25,
                   .accuracy = 0.125,
                   .lr = 0.1,
                   .images_per_second = 300,
                   .time = "then",
                   .memory = {.peak = 90, .at_peak = {1, 2, 3, 4, 5, 6, 7}, .reserved = 99}}));
  files.add(metrics_row({.epoch = 1,
                         .step = 60,
                         .split = "val",
                         .loss = 2,
                         .accuracy = 0.5,
                         .lr = 0.1,
                         .images_per_second = 600,
                         .time = "now"}));
  CHECK(folder.read("metrics.csv") ==
        header +
            "1,50,train,2.25,0.125,0.1,300,then,90,1,2,3,4,5,6,7,99,1\n"
            "1,60,val,2,0.5,0.1,600,now,0,0,0,0,0,0,0,0,0,1\n");
  CHECK(folder.read("metrics.jsonl")
            .starts_with("{\"epoch\":1,\"step\":50,\"split\":\"train\",\"loss\":2.25,"));
  CHECK_THROWS_AS(MetricsFiles(folder.path(), kColumns), lathe::FileError);  // exists
}

TEST_CASE("run folder: a run that goes on keeps the rows up to where it was, and appends") {
  const TemporaryFolder folder;
  const auto row = [](int64_t step) {
    return metrics_row({.epoch = 1, .step = step, .split = "train", .loss = 2, .lr = 0.1});
  };
  {
    MetricsFiles files(folder.path(), kColumns);
    for (const int64_t step : {10, 20, 30}) files.add(row(step));
    CHECK(files.rows() == 3);
  }
  const std::string jsonl = folder.read("metrics.jsonl"), csv = folder.read("metrics.csv");
  folder.write("metrics.jsonl", jsonl + "{\"epoch\":1,\"st");  // killed while it wrote
  MetricsFiles files(folder.path(), kColumns, true);
  files.cut(2);
  CHECK(files.rows() == 2);
  files.add(row(30));
  CHECK(folder.read("metrics.jsonl") == jsonl);
  CHECK(folder.read("metrics.csv") == csv);
  files.cut(100);
  CHECK(files.rows() == 3);
  files.cut(0);
  files.add(row(10));
  CHECK(folder.read("metrics.csv").starts_with("epoch,step,"));
  CHECK(files.rows() == 1);
}

TEST_CASE(
    "run folder: a row that does not fit on the disk is in neither file, and can come again") {
  const TemporaryFolder folder;
  MetricsFiles files(folder.path(), kColumns);
  const auto row = [](int64_t step) {
    return metrics_row({.epoch = 1, .step = step, .split = "train", .loss = 2, .lr = 0.1});
  };
  std::string jsonl, csv = folder.read("metrics.csv");
  for (const int64_t step : {10, 20}) {
    for (const rlim_t room : {0, 1, 20}) {
      CAPTURE(room);
      const FileSizeLimit full(csv.size() + room);
      CHECK_THROWS_WITH_AS(files.add(row(step)), doctest::Contains("File too large"), CommandError);
      CHECK(folder.read("metrics.jsonl") == jsonl);
      CHECK(folder.read("metrics.csv") == csv);
      CHECK(files.rows() == step / 10 - 1);
    }
    files.add(row(step));
    CHECK(files.rows() == step / 10);
    jsonl = folder.read("metrics.jsonl");
    csv = folder.read("metrics.csv");
  }
  CHECK(csv.starts_with("epoch,step,"));
  CHECK(std::ranges::count(csv, '\n') == 3);
  CHECK(std::ranges::count(jsonl, '\n') == 2);
}

TEST_CASE("run folder: the CSV of an earlier version keeps its columns") {
  const TemporaryFolder folder;
  const std::string old = "epoch,step,loss_scale,loss\n1,10,8,2\n";
  folder.write("metrics.csv", old);
  folder.write("metrics.jsonl", "{\"epoch\":1}\n");
  MetricsFiles files(folder.path(), kColumns, true);
  files.cut(1);
  files.add(metrics_row({.epoch = 2, .step = 20, .loss = 1.5}));
  CHECK(folder.read("metrics.csv") == old + "2,20,,1.5\n");  // without a loss scale: an empty field
  CHECK(folder.read("metrics.jsonl").find("\"schema\":1") != std::string::npos);
}

TEST_CASE("run folder: a header that a kill left incomplete is written again") {
  const TemporaryFolder folder;
  folder.write("metrics.csv", "epoch,st");
  const MetricsFiles files(folder.path(), kColumns, true);
  CHECK(folder.read("metrics.csv") == csv_header(kColumns) + "\n");
}

TEST_CASE("run folder: a header that does not fit on the disk is an error at once") {
  const TemporaryFolder folder;
  const FileSizeLimit full(10);
  CHECK_THROWS_WITH_AS(MetricsFiles(folder.path(), kColumns), doctest::Contains("File too large"),
                       CommandError);
}

TEST_CASE("run folder: times are those of UTC, to the millisecond") {
  using std::chrono::milliseconds, std::chrono::system_clock;
  CHECK(time_text(system_clock::time_point(milliseconds(0))) == "1970-01-01T00:00:00.000Z");
  CHECK(time_text(system_clock::time_point(milliseconds(1'709'251'199'007))) ==
        "2024-02-29T23:59:59.007Z");
  CHECK(time_text(system_clock::time_point(milliseconds(-1))) == "1969-12-31T23:59:59.999Z");
}

TEST_CASE("run folder: metrics that are no regular file are an error, not a wait") {
  const TemporaryFolder folder;
  for (const char* name : {"metrics.jsonl", "metrics.csv"}) {
    const fs::path path = folder.path() / name;
    const std::string refusal = path.string() + ": not a regular file";
    REQUIRE(mkfifo(path.c_str(), 0600) == 0);
    CHECK_THROWS_WITH_AS(MetricsFiles(folder.path(), kColumns, true),
                         doctest::Contains(refusal.c_str()), lathe::FileError);
    fs::remove(path);
    fs::create_symlink("/dev/zero", path);  // endless
    CHECK_THROWS_WITH_AS(MetricsFiles(folder.path(), kColumns, true),
                         doctest::Contains(refusal.c_str()), lathe::FileError);
    fs::remove(path);
  }
  CHECK_NOTHROW(MetricsFiles(folder.path(), kColumns, true));
}

TEST_CASE("scratch folders: of those that are made at once none is swept") {
  const TemporaryFolder folder;
  const char* const before = std::getenv("TMPDIR");
  const std::string kept = before ? before : "";
  setenv("TMPDIR", folder.path().c_str(), 1);
  std::atomic<int> gone{0};
  const auto make = [&gone] {
    for (int i = 0; i < 500; ++i) {
      const ScratchFolder scratch("x");
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
