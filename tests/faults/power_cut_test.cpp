// The power goes at any moment of a save or a download: the name holds a whole old checkpoint or a
// whole new one, and once the save has returned the new one. What a disk may forget is in
// crash_disk.h.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string>

#include "crash_disk.h"
#include "lathe/core/files/hash.h"
#include "lathe/data/images/fetch.h"
#include "lathe/nn/checkpoint.h"
#include "lathe/nn/linear.h"
#include "lathe/tests/data/files.h"
#include "lathe/tests/data/http_server.h"

namespace lathe {
namespace {

using data::testing::read_file;
using data::testing::TempDir;
using data::testing::write_file;
using test::CrashDisk;
using test::Folder;

constexpr char kName[] = "last.safetensors";

/// What a save may leave under the name.
struct Outcome {
  std::set<std::string> during, after;  // "" for no file
  size_t calls = 0;
};

Outcome outcome_of(const TempDir& dir, const std::function<void()>& save) {
  Outcome out;
  const CrashDisk disk(dir.path());
  save();
  out.calls = disk.calls();
  for (size_t n = 0; n <= out.calls; ++n) {
    for (const Folder& folder : disk.after_crash(n)) {
      const auto found = folder.find(kName);
      const std::string content = found == folder.end() ? std::string() : found->second;
      (n == out.calls ? out.after : out.during).insert(content);
    }
  }
  return out;
}

TEST_CASE(
    "power cut: after any call of a save the name holds a whole old or a whole new checkpoint") {
  const TempDir dir, reopened;
  const std::string path = dir / kName;
  nn::Linear model(40, 2000);  // more than one write
  for (const bool exists : {false, true}) {
    CAPTURE(exists);
    const std::string old = exists ? read_file(path) : "";
    const Outcome outcome = outcome_of(dir, [&] {
      save_checkpoint(path, {{"model", model}}, {{"n", exists ? "2" : "1"}});
    });
    const std::string fresh = read_file(path);
    CHECK(outcome.calls >= 6);  // create, two writes, sync, rename, sync
    CHECK(fresh != old);
    CHECK(outcome.during == std::set<std::string>{old, fresh});
    CHECK(outcome.after == std::set<std::string>{fresh});
    for (const std::string& content : outcome.during) {
      if (content.empty()) continue;
      write_file(reopened / kName, content);
      nn::Linear back(40, 2000);
      load_checkpoint(reopened / kName, {{"model", back}});
      CHECK(back.weight.to_vector<float>() == model.weight.to_vector<float>());
    }
  }
}

TEST_CASE(
    "power cut: a download's name holds nothing or the whole file, and once it has returned the "
    "file" *
    doctest::skip(!data::fetch_available()) * doctest::description("this build has no libcurl")) {
  std::string content;
  for (int k = 0; k < 20'000; ++k) content += static_cast<char>(k * 7 + k / 256);
  const data::testing::HttpServer server({.content = content});
  const data::Download download{server.url(), static_cast<int64_t>(content.size()),
                                md5_hex(content), ""};
  const TempDir dir;
  const Outcome outcome = outcome_of(dir, [&] { data::fetch_file(download, dir / kName); });
  CHECK(outcome.during == std::set<std::string>{"", content});
  CHECK(outcome.after == std::set<std::string>{content});
}

/// A save with its steps in any order: w(rite), f(sync of the file), r(ename), d(irectory's fsync).
void save_in_order(const TempDir& dir, const std::string& content, std::string_view steps) {
  const std::string to = dir / kName, from = to + ".tmp";
  const int file = ::open(from.c_str(), O_WRONLY | O_CREAT | O_EXCL, 0666);
  for (const char step : steps) {
    if (step == 'w')
      REQUIRE(::write(file, content.data(), content.size()) ==
              static_cast<ssize_t>(content.size()));
    if (step == 'f') REQUIRE(::fsync(file) == 0);
    if (step == 'r') REQUIRE(std::rename(from.c_str(), to.c_str()) == 0);
    if (step == 'd') {
      const int folder = ::open(dir.path().c_str(), O_RDONLY | O_DIRECTORY);
      REQUIRE(::fsync(folder) == 0);
      ::close(folder);
    }
  }
  ::close(file);
}

TEST_CASE("power cut: a save without one of its two syncs, or in another order, would be noticed") {
  const std::set<std::string> old_or_new = {"old content", "new content"}, fresh = {"new content"};
  struct Row {
    const char* steps;
    bool whole, lasting;
  };
  for (const Row& row :
       {Row{"wfrd", true, true}, Row{"wrd", false, false}, Row{"wfr", true, false},
        Row{"wrfd", false, true}, Row{"wfdr", true, false}, Row{"fwrd", false, false}}) {
    CAPTURE(row.steps);
    const TempDir dir;
    write_file(dir / kName, "old content");
    const Outcome outcome = outcome_of(dir, [&] { save_in_order(dir, "new content", row.steps); });
    CHECK(std::ranges::includes(old_or_new, outcome.during) == row.whole);
    CHECK((outcome.after == fresh) == row.lasting);
  }
}

}  // namespace
}  // namespace lathe
