// The page of a run that a program trains.
#include <doctest/doctest.h>

#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>

#include "lathe/core/files/file.h"
#include "lathe/lathe.h"
#include "lathe/train.h"
#include "lathe/train/report/report_page.h"
#include "lathe/train/report/run_view.h"
#include "small_training.h"

using namespace lathe;
using namespace lathe::test;
namespace fs = std::filesystem;

namespace {

struct Folder {
  fs::path path = fs::temp_directory_path() / ("lathe_report_" + std::to_string(getpid()));
  Folder() { fs::remove_all(path); }
  ~Folder() { fs::remove_all(path); }
};

std::string page_in(const fs::path& folder) {
  return read_file((folder / "report.html").string(), int64_t{1} << 24);
}

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

}  // namespace

TEST_CASE("report_file: a page after each epoch, with the curves of a program's own metrics") {
  const Folder folder;
  struct Pages : train::Observer {
    size_t after_first = 0;
    void on_epoch(train::Trainer& trainer, const train::EpochReport& report) override {
      if (report.epoch == 1) after_first = page_in(trainer.folder()).size();
    }
  };
  const auto pages = std::make_shared<Pages>();
  Net net;
  train::Trainer trainer(net.model, *net.optimizer, {.epochs = 3, .run_dir = folder.path.string()});
  trainer.add(train::mean("twice", [](const train::Result& r) { return r.loss * 2; }))
      .add(train::metrics_files())
      .add(train::report_file())
      .add(pages);
  trainer.fit(net.train, net.test);
  CHECK(pages->after_first > 0);
  const std::string page = page_in(folder.path);
  CHECK(page.size() >= pages->after_first);
  CHECK(page.starts_with("<!DOCTYPE html>"));
  const size_t once = count(page, ">Loss<");
  CHECK(once > 0);
  CHECK(count(page, ">Accuracy, %<") == once);
  CHECK(count(page, ">twice<") == once);
  CHECK(count(page, "class=\"remarks\"") ==
        0);  // files that only the command writes are not missed
  CHECK(count(page, "best accuracy") == 1);
}

TEST_CASE("report_file: at the end the page has the test samples; without a folder there is none") {
  const Folder folder;
  Net net;
  train::Trainer trainer(net.model, *net.optimizer, {.run_dir = folder.path.string()});
  trainer.add(train::metrics_files()).add(train::report_file());
  trainer.fit(net.train, net.test, net.test);
  CHECK(count(page_in(folder.path), "accuracy, test") == 1);

  struct Warnings : train::Observer {
    int count = 0;
    void on_message(train::Trainer&, train::MessageKind, std::string_view) override { ++count; }
  };
  const auto warnings = std::make_shared<Warnings>();
  Net other;
  train::Trainer without(other.model, *other.optimizer);
  without.add(train::report_file()).add(warnings).fit(other.train);
  CHECK(warnings->count == 0);
}

TEST_CASE("report_file: a page that cannot be written is one warning") {
  const Folder folder;
  fs::create_directories(folder.path / "report.html" / "x");
  struct Warnings : train::Observer {
    int count = 0;
    void on_message(train::Trainer&, train::MessageKind kind, std::string_view text) override {
      count += kind == train::MessageKind::kWarning && text.starts_with("report.html cannot be");
    }
  };
  const auto warnings = std::make_shared<Warnings>();
  Net net;
  train::Trainer trainer(net.model, *net.optimizer, {.epochs = 2, .run_dir = folder.path.string()});
  trainer.add(train::report_file()).add(warnings);
  CHECK(trainer.fit(net.train).epochs == 2);
  CHECK(warnings->count == 1);
}

TEST_CASE("run files: what is missing, damaged or unknown is said, and the rest is read") {
  const Folder folder;
  CHECK_THROWS_AS(report::read_run_files(folder.path), FileError);
  fs::create_directories(folder.path);
  CHECK_THROWS_WITH_AS(report::read_run_files(folder.path), doctest::Contains("is an empty folder"),
                       DataError);
  std::ofstream(folder.path / "other") << "file";
  CHECK_THROWS_WITH_AS(report::read_run_files(folder.path), doctest::Contains("holds no run"),
                       DataError);
  CHECK_THROWS_WITH_AS(report::read_run_files(folder.path / "other"),
                       doctest::Contains("other: is no folder"), FileError);
  std::ofstream(folder.path / "metrics.jsonl")
      << R"({"epoch":1,"step":4,"split":"val","loss":2,"perplexity":7.5,"lr":0.1,)"
      << R"("time":"2020-01-01T00:00:00.000Z"})"
      << "\nno row\n";
  const report::RunFiles run = report::read_run_files(folder.path);
  REQUIRE(run.metrics.size() == 1);
  CHECK(run.metrics[0].loss == 2);
  CHECK(run.metrics[0].metrics == train::Values{{"perplexity", 7.5}});
  REQUIRE(run.remarks.size() == 2);
  CHECK(run.remarks[0] ==
        "1 of 2 lines of metrics.jsonl cannot be read, the first of them line 2.");
  CHECK(run.remarks[1] == "log.txt is missing.");
  const report::RunFiles of_command =
      report::read_run_files(folder.path, [](const std::string&) -> report::RunFiles::Entries {
        return {{"epochs", "2"}, {"model", "net"}};
      });
  CHECK(of_command.setting("model") == "net");
  CHECK(of_command.remarks.size() == 4);  // config.toml and env.json are missing, too
  CHECK(report::part_done(of_command) == 0.5);
  const report::RunActivity activity = report::activity_of(of_command);
  CHECK_FALSE(activity.training);
  constexpr double kTimeOfRow = 1'577'836'800;  // seconds since 1970
  CHECK(activity.seconds_since_row.value() ==
        doctest::Approx(static_cast<double>(std::time(nullptr)) - kTimeOfRow).epsilon(1e-6));
}

TEST_CASE("report_file: a task without classes has samples, and the run's view says so") {
  const Folder folder;
  nn::Sequential model;
  model.add<nn::Linear>(4, 4);
  optim::SGD optimizer(model.parameters(), {.lr = 0.1});
  train::Trainer trainer(model, optimizer, {.epochs = 2, .run_dir = folder.path.string()});
  trainer.loss<test::Pair>(
      [&](const test::Pair& p) { return mean(square(model(p.x) - p.wanted)); });
  trainer.add(train::metrics_files()).add(train::report_file());
  auto batches = pairs(6);
  trainer.fit(batches);
  const report::RunFiles run = report::read_run_files(folder.path);
  REQUIRE_FALSE(run.metrics.empty());
  CHECK_FALSE(run.metrics[0].of_images);
  CHECK(run.metrics[0].images_per_second > 0);
  const std::string rows = read_file((folder.path / "metrics.csv").string(), 1 << 20);
  CHECK(rows.find("samples_per_second") != std::string::npos);
  CHECK(rows.find("images_per_second") == std::string::npos);
  const std::string page = page_in(folder.path);
  CHECK(count(page, ">Samples per second<") == count(page, ">Loss<"));
  const auto view = report::run_view(run, report::activity_of(run), 0, true);
  CHECK(count(view.at(1), " samples/s") == 1);
}
