// The search with its file: the second start searches nothing, and no state of the file changes
// what is computed.
#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "fake_library.h"
#include "lathe/core/error.h"
#include "lathe/ops/conv/search/conv_cache_file.h"
#include "temporary_file.h"

namespace lathe {
namespace {

// One start of a program: a search of its own.
struct Start {
  explicit Start(FakeLibrary& l, const std::string& path) : library(l), search(100, l.clock()) {
    search.set_file(path);
  }
  int64_t operator()(const ConvKey& key) { return run(search, library, key); }

  FakeLibrary& library;
  ConvSearch search;
};

TEST_CASE("search with a file: the second start searches nothing") {
  const TemporaryFile file;
  const std::vector<ConvKey> keys = example_keys(5);
  FakeLibrary first;
  first.engines = {fake_engine(1, 2), fake_engine(2, 1)};
  Start one(first, file.path);
  for (const ConvKey& key : keys) CHECK(one(key) == 2);
  CHECK(one.search.stats().searches == 5);

  FakeLibrary second;
  second.engines = first.engines;
  Start two(second, file.path);
  for (const ConvKey& key : keys) CHECK(two(key) == 2);
  CHECK(second.lists == 0);
  CHECK(second.timed_runs == 0);
  CHECK(two.search.stats().searches == 0);
  CHECK(two.search.stats().from_file == 5);
  CHECK(two.search.choices().size() == 5);
  CHECK(*two.search.find(keys[0]) == *one.search.find(keys[0]));
}

TEST_CASE("search with a file: a choice that is used stays young, and the file is seldom written") {
  const TemporaryFile file;
  FakeLibrary library;
  library.engines = {fake_engine(1, 2), fake_engine(2, 1)};
  Start(library, file.path)(example_key());
  const auto used = [&] { return read_conv_cache(file.path).choices.at(example_key()).used; };
  const auto first = used();
  CHECK(first > std::chrono::sys_days{});
  ConvCache cache = read_conv_cache(file.path);
  for (const int days : {30, 7, 3}) {  // 7: old enough
    const auto before = first - std::chrono::days(days);
    cache.choices.at(example_key()).used = before;
    add_to_conv_cache(file.path, cache);
    Start second(library, file.path);
    CHECK(second(example_key()) == 2);
    CHECK(second.search.stats().from_file == 1);
    if (days >= 7) {
      CHECK(used() >= first);
    } else {
      CHECK(used() == before);
    }
  }
}

TEST_CASE("search with a file: heuristic and deterministic modes neither read nor write it") {
  const TemporaryFile file;
  for (const ConvMode mode : {ConvMode::kHeuristic, ConvMode::kDeterministic}) {
    FakeLibrary library;
    library.engines = {fake_engine(1, 2)};
    Start start(library, file.path);
    start(example_key(mode));
    CHECK(!file.exists());
  }
}

TEST_CASE("search with a file: provisional choices are not written") {
  const TemporaryFile file;
  FakeLibrary library;
  library.engines = {fake_engine(1, 1, 1000), fake_engine(2, 2)};
  library.available_bytes = 100;
  Start start(library, file.path);
  CHECK(start(example_key()) == 2);
  CHECK(!file.exists());

  library.available_bytes = INT64_MAX;
  Start hurried(library, file.path);
  hurried.search.set_limits({.ms = 1});  // cut short after the first
  CHECK(hurried(example_key()) == 1);
  CHECK(!file.exists());
  Start again(library, file.path);
  CHECK(again(example_key()) == 1);
  CHECK(file.exists());
}

TEST_CASE("search with a file: an engine that can no longer be made ready is searched again") {
  const TemporaryFile file;
  FakeLibrary library;
  library.engines = {fake_engine(1, 2), fake_engine(2, 1)};
  Start(library, file.path)(example_key());
  struct Row {
    const char* what;
    void (*change)(FakeEngine&);
  };
  for (const Row& row :
       {Row{"refused", [](FakeEngine& e) { e.refuses_to_prepare = "not any more"; }},
        {"gone",
         [](FakeEngine& e) {
           e.info.engine.index = 77;
           e.ms = 9;
         }},
        {"larger", [](FakeEngine& e) { e.real_workspace_bytes = int64_t{1} << 31; }}}) {
    INFO(row.what);
    const std::string text = file.text();
    FakeLibrary changed;
    changed.engines = library.engines;
    row.change(changed.engines[1]);
    Start start(changed, file.path);
    CHECK(start(example_key()) == 1);
    CHECK(start.search.stats().searches == 1);
    file.put(text);
  }
}

TEST_CASE("search with a file: when all that it names fail in use, a search of our own follows") {
  const TemporaryFile file;
  const Warnings warnings;
  FakeLibrary library;
  library.engines = {fake_engine(1, 2), fake_engine(2, 1)};
  Start(library, file.path)(example_key());
  FakeLibrary changed;
  changed.engines = {fake_engine(1, 2), fake_engine(2, 1), fake_engine(3, 5)};
  changed.engines[0].fails_when_executed = changed.engines[1].fails_when_executed = "no";
  Start start(changed, file.path);
  CHECK(start(example_key()) == 3);
  CHECK(start.search.stats().searches == 1);
}

TEST_CASE("search with a file: engines that the key's filters refuse are not taken from it") {
  const TemporaryFile file;
  FakeLibrary library;
  library.engines = {fake_engine(1, 2), fake_engine(2, 1)};
  ConvChoice choice = choose(library, example_key());
  choice.engines[0].info.down_converts = true;
  add_to_conv_cache(file.path, {versions_of(*example_key().machine), {{example_key(), choice}}});
  library.lists = 0;
  Start start(library, file.path);
  start(example_key());
  CHECK(library.lists == 1);
}

TEST_CASE("search with a file: damaged, cut off or foreign, the result is that of no file") {
  const TemporaryFile file;
  const Warnings warnings;
  FakeLibrary library;
  library.engines = {fake_engine(1, 2), fake_engine(2, 1)};
  Start(library, file.path)(example_key());
  const std::string text = file.text();
  std::vector<std::string> texts = {
      "", "\n", "{}", "[1,2", "\xff\xfe", text + text, "#!/bin/sh\nexit\n", std::string(100, '\0')};
  for (size_t size = 0; size < text.size(); size += 97) texts.push_back(text.substr(0, size));
  // Engine 1 in the place of engine 2: well-formed, and only the checksum tells.
  std::string forged = text;
  forged.replace(forged.find("\"engine\": \"2\""), 13, "\"engine\": \"1\"");
  texts.push_back(forged);
  for (const std::string& bad : texts) {
    INFO(bad);
    file.put(bad);
    FakeLibrary again;
    again.engines = library.engines;
    Start start(again, file.path);
    CHECK(start(example_key()) == 2);
    CHECK(start.search.stats().from_file == 0);
    CHECK(start.search.stats().searches == 1);
  }
  CHECK(warnings.lines.size() == 2);  // not read; not written: once each, whatever happens
}

TEST_CASE("search with a file: a folder that cannot be written costs a warning, not the result") {
  const TemporaryFile file;
  const Warnings warnings;
  FakeLibrary library;
  library.engines = {fake_engine(1, 1)};
  Start start(library, (file.folder / "no" / "folder" / "algos.json").string());
  for (const ConvKey& key : example_keys(3)) CHECK(start(key) == 1);
  CHECK(warnings.lines.size() == 1);
}

TEST_CASE("search with a file: another file is read in its place") {
  const TemporaryFile empty, file;
  FakeLibrary library;
  library.engines = {fake_engine(1, 1)};
  Start(library, file.path)(example_key());
  Start start(library, empty.path);
  start(example_keys(1)[0]);  // reads the first
  start.search.set_file(file.path);
  start(example_key());
  CHECK(start.search.stats().from_file == 1);
}

TEST_CASE("search with a file: it can be changed and left") {
  const TemporaryFile file;
  FakeLibrary library;
  library.engines = {fake_engine(1, 1)};
  const std::vector<ConvKey> keys = example_keys(3);
  Start start(library, file.path);
  start(keys[0]);
  start.search.set_file("");
  CHECK(start.search.file().empty());
  start(keys[1]);
  start.search.set_file(file.path);
  start(keys[2]);
  CHECK(read_conv_cache(file.path).choices.size() == 2);
}

TEST_CASE("search with measured files: those of these libraries serve, and are only read") {
  const TemporaryFile own, measured;
  const Warnings warnings;
  const std::vector<ConvKey> keys = example_keys(3);
  FakeLibrary first;
  first.engines = {fake_engine(1, 2), fake_engine(2, 1)};
  Start(first, measured.path)(keys[0]);
  const ConvCache cache = read_conv_cache(measured.path);
  const std::filesystem::path folder = std::filesystem::path(measured.path).parent_path();
  const auto key_of = [](ConvKey key, ConvMachine machine) {
    key.machine = machine;
    return key;
  };
  ConvMachine newer = *keys[0].machine, other_driver = newer;
  newer.library = "cudnn 99.0.0";
  other_driver.driver = "99.0";
  add_to_conv_cache((folder / "other.json").string(),
                    {versions_of(newer), {{key_of(keys[0], newer), cache.choices.at(keys[0])}}});
  const std::string text = measured.text();

  FakeLibrary second;
  second.engines = {fake_engine(1, 1), fake_engine(2, 2)};  // our own search takes 1
  Start start(second, own.path);
  start.search.set_measured(folder.string());
  CHECK(start.search.measured() == folder.string());
  CHECK(start(keys[0]) == 2);
  CHECK(start.search.stats().from_file == 1);
  CHECK(!own.exists());
  CHECK(start(keys[1]) == 1);  // not measured: searched, and in our own file from now on
  CHECK(read_conv_cache(own.path).choices.size() == 1);
  CHECK(start.search.stats().searches == 1);
  CHECK(measured.text() == text);
  CHECK(warnings.lines.empty());

  // Without a file of our own it serves as well; our own file comes first.
  Start plain(second, "");
  plain.search.set_measured(folder.string());
  CHECK(plain(keys[0]) == 2);
  CHECK(plain(key_of(keys[0], other_driver)) == 1);
  Start mine(second, own.path);
  CHECK(mine(keys[0]) == 1);
  Start both(second, own.path);
  both.search.set_measured(folder.string());
  CHECK(both(keys[0]) == 1);

  // An engine of it that fails in use is given up, and a search follows.
  second.engines[1].fails_when_executed = "no";
  Start failing(second, "");
  failing.search.set_measured(folder.string());
  CHECK(failing(keys[0]) == 1);

  // A damaged file is named once and does no harm.
  measured.put(text.substr(0, text.size() / 2));
  Start damaged(second, "");
  damaged.search.set_measured(folder.string());
  CHECK(damaged(keys[0]) == 1);
  CHECK(warnings.lines.size() == 2);  // and the engine above
}

TEST_CASE("search with measured files: heuristic and deterministic modes do not read them") {
  const TemporaryFile measured;
  FakeLibrary library;
  library.engines = {fake_engine(1, 2), fake_engine(2, 1)};
  Start(library, measured.path)(example_key());
  for (const ConvMode mode : {ConvMode::kHeuristic, ConvMode::kDeterministic}) {
    Start start(library, "");
    start.search.set_measured(std::filesystem::path(measured.path).parent_path().string());
    start(example_key(mode));
    CHECK(start.search.stats().from_file == 0);
  }
}

TEST_CASE("search with measured files: those beside the program are looked at by default") {
  CHECK(conv_search().measured().ends_with("/share/lathe/algos"));
}

}  // namespace
}  // namespace lathe
