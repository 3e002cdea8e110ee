#include "lathe/train/metrics_files.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>

#include "lathe/core/error.h"
#include "lathe/tests/cli/file_size_limit.h"
#include "lathe/tests/cli/temporary_folder.h"

using namespace lathe::train;
using lathe::test::FileSizeLimit;
using lathe::test::TemporaryFolder;

namespace {

/// A row with the columns of a classifier.
Row metrics(MetricsRow row) {
  if (row.metrics.empty()) row.metrics = {{"accuracy", 0.0}};
  return to_row(row);
}

const Row kColumns = metrics({});

}  // namespace

TEST_CASE("metrics files: metrics go to both files, the CSV with one header") {
  const TemporaryFolder folder;
  MetricsFiles files(folder.path(), kColumns);
  const std::string header =
      "epoch,step,split,loss,accuracy,lr,images_per_second,time,memory_peak_bytes,"
      "memory_peak_other,memory_peak_weights,memory_peak_gradients,memory_peak_optimiser_state,"
      "memory_peak_activations,memory_peak_workspace,memory_peak_data,memory_reserved_bytes,"
      "schema\n";
  CHECK(folder.read("metrics.csv") == header);  // before the first row
  files.add(metrics({.epoch = 1,
                     .step = 50,
                     .split = "train",
                     .loss = 2.25,
                     .metrics = {{"accuracy", 0.125}},
                     .lr = 0.1,
                     .samples_per_second = 300,
                     .time = "then",
                     .memory = {.peak = 90, .at_peak = {1, 2, 3, 4, 5, 6, 7}, .reserved = 99}}));
  files.add(metrics({.epoch = 1,
                     .step = 60,
                     .split = "val",
                     .loss = 2,
                     .metrics = {{"accuracy", 0.5}},
                     .lr = 0.1,
                     .samples_per_second = 600,
                     .time = "now"}));
  CHECK(folder.read("metrics.csv") ==
        header +
            "1,50,train,2.25,0.125,0.1,300,then,90,1,2,3,4,5,6,7,99,1\n"
            "1,60,val,2,0.5,0.1,600,now,0,0,0,0,0,0,0,0,0,1\n");
  CHECK(folder.read("metrics.jsonl")
            .starts_with("{\"epoch\":1,\"step\":50,\"split\":\"train\",\"loss\":2.25,"));
  CHECK_THROWS_AS(MetricsFiles(folder.path(), kColumns), lathe::FileError);  // exists
}

TEST_CASE("metrics files: a run that goes on keeps the rows up to where it was, and appends") {
  const TemporaryFolder folder;
  const auto row = [](int64_t step) {
    return metrics({.epoch = 1, .step = step, .split = "train", .loss = 2, .lr = 0.1});
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
    "metrics files: a row that does not fit on the disk is in neither file, and can come again") {
  const TemporaryFolder folder;
  MetricsFiles files(folder.path(), kColumns);
  const auto row = [](int64_t step) {
    return metrics({.epoch = 1, .step = step, .split = "train", .loss = 2, .lr = 0.1});
  };
  std::string jsonl, csv = folder.read("metrics.csv");
  for (const int64_t step : {10, 20}) {
    for (const rlim_t room : {0, 1, 20}) {
      CAPTURE(room);
      const FileSizeLimit full(csv.size() + room);
      CHECK_THROWS_WITH_AS(files.add(row(step)), doctest::Contains("File too large"),
                           lathe::FileError);
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

TEST_CASE("metrics files: the CSV of an earlier version keeps its columns") {
  const TemporaryFolder folder;
  const std::string old = "epoch,step,loss_scale,loss\n1,10,8,2\n";
  folder.write("metrics.csv", old);
  folder.write("metrics.jsonl", "{\"epoch\":1}\n");
  MetricsFiles files(folder.path(), kColumns, true);
  files.cut(1);
  files.add(metrics({.epoch = 2, .step = 20, .loss = 1.5}));
  CHECK(folder.read("metrics.csv") == old + "2,20,,1.5\n");  // without a loss scale: an empty field
  CHECK(folder.read("metrics.jsonl").find("\"schema\":1") != std::string::npos);
}

TEST_CASE("metrics files: a header that a kill left incomplete is written again") {
  const TemporaryFolder folder;
  folder.write("metrics.csv", "epoch,st");
  const MetricsFiles files(folder.path(), kColumns, true);
  CHECK(folder.read("metrics.csv") == csv_header(kColumns) + "\n");
}

TEST_CASE("metrics files: a header that does not fit on the disk is an error at once") {
  const TemporaryFolder folder;
  const FileSizeLimit full(10);
  CHECK_THROWS_WITH_AS(MetricsFiles(folder.path(), kColumns), doctest::Contains("File too large"),
                       lathe::FileError);
}

TEST_CASE("metrics files: metrics that are no regular file are an error, not a wait") {
  const TemporaryFolder folder;
  for (const char* name : {"metrics.jsonl", "metrics.csv"}) {
    const std::filesystem::path path = folder.path() / name;
    const std::string refusal = path.string() + ": not a regular file";
    REQUIRE(mkfifo(path.c_str(), 0600) == 0);
    CHECK_THROWS_WITH_AS(MetricsFiles(folder.path(), kColumns, true),
                         doctest::Contains(refusal.c_str()), lathe::FileError);
    std::filesystem::remove(path);
    std::filesystem::create_symlink("/dev/zero", path);  // endless
    CHECK_THROWS_WITH_AS(MetricsFiles(folder.path(), kColumns, true),
                         doctest::Contains(refusal.c_str()), lathe::FileError);
    std::filesystem::remove(path);
  }
  CHECK_NOTHROW(MetricsFiles(folder.path(), kColumns, true));
}

TEST_CASE("metrics row: times are those of UTC, to the millisecond") {
  using std::chrono::milliseconds, std::chrono::system_clock;
  CHECK(time_text(system_clock::time_point(milliseconds(0))) == "1970-01-01T00:00:00.000Z");
  CHECK(time_text(system_clock::time_point(milliseconds(1'709'251'199'007))) ==
        "2024-02-29T23:59:59.007Z");
  CHECK(time_text(system_clock::time_point(milliseconds(-1))) == "1969-12-31T23:59:59.999Z");
}
