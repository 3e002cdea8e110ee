// A run as lines of text, and the files that it is read from.
#include "lathe/train/report/run_view.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "lathe/core/format.h"
#include "lathe/train/progress.h"
#include "lathe/train/run_lock.h"
#include "made_run.h"

using namespace lathe;
using namespace lathe::report;
using lathe::test::made_run;
using lathe::test::row_of;
namespace fs = std::filesystem;

namespace {

using Lines = std::vector<std::string>;

struct Folder {
  fs::path path = fs::temp_directory_path() / ("lathe_view_" + std::to_string(getpid()));
  Folder() {
    fs::remove_all(path);
    fs::create_directories(path);
  }
  ~Folder() { fs::remove_all(path); }
  void write(const char* name, const std::string& text) const {
    std::ofstream(path / name) << text;
  }
};

RunFiles read(const Folder& folder) {
  return read_run_files(folder.path, [](const std::string&) { return RunFiles::Entries(); });
}

bool has(const Lines& lines, const std::string& line) {
  return std::ranges::find(lines, line) != lines.end();
}

}  // namespace

TEST_CASE("run view: the newest rows, the best evaluation and the time that is left") {
  RunFiles run = made_run();
  for (size_t i = 0; i < run.metrics.size(); ++i)
    run.metrics[i].time = "2026-01-31T00:00:" + std::to_string(10 + 5 * i) + ".500Z";
  run.metrics[2].images_per_second = 1234;
  // Half of 40 steps are done. From step 5, an eighth of all, to step 20 it took 15 s: 3/8 of all.
  CHECK(part_done(run) == 0.5);
  const std::string left = "  ETA " + train::duration_text(20);
  const std::string rate = "  " + train::rate_text(1234) + " img/s";
  CHECK(
      run_view(run, {.training = true, .seconds_since_row = 65}, 0, true) ==
      Lines{"/nowhere/runs/a  net on pets: training, last row " + train::duration_text(65) + " ago",
            "  epoch 2/4  step 15  loss 1  acc 75.0 %  lr 0.1" + rate + left,
            "  evaluation 40.00 %, loss 1.25; best 50.00 % in epoch 1"});
  run.metrics.push_back(row_of(2, 20, "test", 1, 0.3));
  run.remarks = {"log.txt is missing."};
  const Lines all = run_view(run, {}, 0, true);
  CHECK(all[0].ends_with(": no process on this machine is training it"));
  CHECK(has(all, "  evaluation 40.00 %, loss 1.25; best 50.00 % in epoch 1; test 30.00 %"));
  CHECK(has(all, "  log.txt is missing."));

  run.metrics.clear();
  CHECK(has(run_view(run, {}, 0, true), "  nothing yet"));
  run.last_lines = {"first", "chosen: --threads 2"};
  CHECK(has(run_view(run, {}, 0, true), "  chosen: --threads 2"));
}

TEST_CASE("run view: what is done is known after the first evaluation, and is at most all") {
  RunFiles run = made_run();
  run.metrics.resize(1);
  CHECK_FALSE(part_done(run).has_value());  // a row of training is in the middle of an epoch
  run = made_run();
  run.metrics.back().step = 100;
  CHECK(part_done(run) == 1.0);
  run.config.clear();
  CHECK_FALSE(part_done(run).has_value());
}

TEST_CASE("run view: who holds the folder's lock trains in it; how old the newest row is") {
  const Folder folder;
  RunFiles run = made_run();
  run.folder = folder.path;
  {
    const train::RunLock lock(folder.path);
    CHECK(activity_of(run).training);
  }
  CHECK_FALSE(activity_of(run).training);
  CHECK_FALSE(activity_of(run).seconds_since_row.has_value());
  const auto age = [] {  // of what was written 100.5 s after 1970 began
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()) -
           std::chrono::duration<double>(100.5);
  };
  run.metrics.back().time = "1970-01-01T00:01:40.500Z";
  const double before = age().count();
  const double found = activity_of(run).seconds_since_row.value_or(-1);
  CHECK(found >= before);
  CHECK(found <= age().count());
}

TEST_CASE("run view: the memory of the highest peak, with the three tags that hold most") {
  RunFiles run = made_run();
  run.metrics[0].memory = 8 << 20;
  run.metrics[2].memory = 4 << 20;
  for (size_t tag = 0; tag < 4; ++tag)
    run.metrics[0].memory_of_tag[tag] = static_cast<double>((tag + 1) << 10);
  std::string line = "  memory at the peak " + readable_bytes(8 << 20);
  for (const int tag : {3, 2, 1}) {
    line += ", " + std::string(profile::name_of(static_cast<profile::MemoryTag>(tag))) + " " +
            readable_bytes(static_cast<uint64_t>((tag + 1) << 10));
  }
  CHECK(has(run_view(run, {}, 0, true), line));
}

TEST_CASE("run view: the losses of training as blocks, each the mean of its rows") {
  RunFiles run = made_run();
  run.metrics.clear();
  for (const double loss : {4.0, 2.0, 3.0, 1.0, 1.0, 1.0, 1.0})  // means of 2, 2 and 3: 3, 2, 1
    run.metrics.push_back(row_of(1, 1, "train", loss, 0));
  run.metrics.push_back(row_of(1, 1, "val", 100, 0));
  CHECK(run_view(run, {}, 6, false).back() == "  \u2588\u2585\u2581");
  CHECK(run_view(run, {}, 0, true).back().find("\u2588") == std::string::npos);
  run.metrics.resize(1);  // nothing to compare with
  CHECK(run_view(run, {}, 0, false).back().find("\u2581") == std::string::npos);
}

TEST_CASE("run files: the best and the largest row, the name, and a setting") {
  RunFiles run = made_run();
  CHECK(run.best("val")->step == 10);
  run.metrics.push_back(row_of(3, 30, "val", 1, 0.5));
  CHECK(run.best("val")->step == 10);  // the first of equal ones
  CHECK(run.best("test") == nullptr);
  CHECK(run.largest() == nullptr);
  run.metrics[1].memory = 5;
  run.metrics[2].memory = 7;
  run.metrics[3].memory = 6;
  CHECK(run.largest() == &run.metrics[2]);
  CHECK(run.name() == "a");
  run.folder = "/nowhere/runs/a/../b";
  CHECK(run.name() == "b");
  CHECK(run.setting("model") == "net");
  CHECK(run.setting("stem").empty());
}

TEST_CASE("run files: what is damaged or unfinished is a remark, and the rest is read") {
  const Folder folder;
  folder.write("config.toml", "x");
  folder.write(
      "metrics.jsonl",
      "1\nno row\n{\"epoch\":1,\"split\":\"val\",\"memory_peak_bytes\":3,\"f1\":0.5}\n{\"ep");
  folder.write("env.json", "[]");
  std::string log;
  for (int i = 1; i <= 30; ++i) log += "line " + std::to_string(i) + "\n";
  folder.write("log.txt", log);
  folder.write("op_table.txt", "conv2d 3 ms\n");
  const RunFiles run = read(folder);
  CHECK(run.remarks ==
        Lines{"3 of 4 lines of metrics.jsonl cannot be read, the first of them line 1.",
              "The last line of metrics.jsonl is still being written, or was cut off.",
              "env.json holds no JSON object."});
  REQUIRE(run.metrics.size() == 1);
  CHECK(run.metrics[0].memory == 3);
  CHECK(run.metrics[0].metrics == train::Values{{"f1", 0.5}});
  CHECK(run.last_lines.size() == 20);
  CHECK(run.last_lines.front() == "line 11");
  CHECK(run.op_table == "conv2d 3 ms\n");

  folder.write("metrics.jsonl", "\n");
  folder.write("env.json", R"({"gpu": "H200", "threads": 2})");
  fs::remove(folder.path / "log.txt");
  REQUIRE(mkfifo((folder.path / "log.txt").c_str(), 0600) == 0);  // reading it would wait
  const RunFiles other = read(folder);
  CHECK(other.environment == RunFiles::Entries{{"gpu", "H200"}, {"threads", "2"}});
  REQUIRE(other.remarks.size() == 2);
  CHECK(other.remarks[0] ==
        "1 of 1 lines of metrics.jsonl cannot be read, the first of them line 1.");
  CHECK(other.remarks[1].find("log.txt: is no regular file") != std::string::npos);
}
