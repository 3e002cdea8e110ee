// The file of the search: what goes in comes out; anything else is refused as a whole.
#include "lathe/ops/conv/search/conv_cache_file.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "fake_library.h"
#include "lathe/core/error.h"
#include "lathe/core/files/file.h"
#include "temporary_file.h"

namespace lathe {
namespace {

const ConvVersions kVersions = versions_of(*example_key().machine);

// Choices with every outcome in them.
ConvCache example_cache(int keys = 2) {
  FakeLibrary library;
  library.engines = {fake_engine(1, 2.125), fake_engine(2, 1.0 / 3, 1 << 20),    fake_engine(3, 4),
                     fake_engine(4, 5),     fake_engine(5, 6, int64_t{1} << 31), fake_engine(2, 7)};
  library.engines[0].info.engine.setting = {{2, 5}, {24, 10}};
  library.engines[1].info.tensor_cores = true;
  library.engines[2].refuses_to_prepare = "not \"supported\"\n on this device";
  library.engines[3].info.down_converts = true;
  library.engines[5].info.engine.setting = {{1, 1}};  // untried: another setting of engine 2
  ConvCache cache{.versions = kVersions, .choices = {}};
  for (const ConvKey& key : example_keys(keys))
    cache.choices[key] = choose(library, key, {.per_engine = 1, .of_first = 1});
  return cache;
}

std::chrono::sys_days date(int year, unsigned month, unsigned day) {
  return std::chrono::year(year) / static_cast<int>(month) / static_cast<int>(day);
}

// The worked example of docs/conv-search.md, which example_cache.json holds. Its times are made up.
ConvCache worked_example() {
  FakeLibrary library;
  library.engines = {fake_engine(0, 0.181),
                     fake_engine(34, 0.093, 1'179'648),
                     fake_engine(34, 0.088, 4'718'592),
                     fake_engine(21, 0.0952),
                     fake_engine(58, 0.2),
                     fake_engine(1, 0.61, int64_t{3} << 30),
                     fake_engine(12, 0.07)};
  const auto set = [&](size_t at, auto change) { change(library.engines[at]); };
  for (const size_t at : {1, 2, 3}) {
    set(at, [](FakeEngine& e) { e.info.tensor_cores = true; });
  }
  set(1, [](FakeEngine& e) { e.info.engine.setting = {{2, 1}, {24, 8}}; });
  set(2, [](FakeEngine& e) { e.info.engine.setting = {{2, 4}, {24, 8}}; });
  set(3, [](FakeEngine& e) { e.info.deterministic = false; });
  set(4, [](FakeEngine& e) { e.refuses_to_prepare = "not supported on this device"; });
  set(6, [](FakeEngine& e) { e.info.down_converts = true; });
  ConvChoice choice = choose(library, example_key());
  choice.search_ms = 46.5;
  choice.used = date(2026, 1, 31);
  return {kVersions, {{example_key(), choice}}};
}

void check_same(const ConvCache& a, const ConvCache& b) {
  CHECK(a.versions == b.versions);
  CHECK(a.choices == b.choices);
}

TEST_CASE("cache file: what is written is read back, to the last digit") {
  for (const int keys : {0, 1, 7}) {
    const ConvCache cache = example_cache(keys);
    check_same(parse_conv_cache(conv_cache_text(cache)), cache);
  }
}

TEST_CASE("cache file: the example in the repository is what is written today") {
  const std::string text = conv_cache_text(worked_example());
  CHECK_MESSAGE(read_file(LATHE_EXAMPLE_CACHE, 1 << 20) == text, text);
}

TEST_CASE("cache file: added choices join those that are there, and replace their own") {
  const TemporaryFile file;
  ConvCache all = example_cache(3), first{kVersions, {}}, second{kVersions, {}};
  for (auto& [key, choice] : all.choices)
    (key.x.dims[0] < 3 ? first : second).choices[key] = choice;
  add_to_conv_cache(file.path, first);
  add_to_conv_cache(file.path, second);
  check_same(read_conv_cache(file.path), all);
  ConvChoice& changed = all.choices.begin()->second;
  changed.chosen = 1;
  add_to_conv_cache(file.path, {kVersions, {*all.choices.begin()}});
  check_same(read_conv_cache(file.path), all);
}

TEST_CASE("cache file: it never becomes too large to be read, and what is added stays") {
  const TemporaryFile file;
  const ConvCache all = example_cache(20);
  const auto room = std::ssize(conv_cache_text(example_cache(10)));
  for (const auto& entry : all.choices) {
    add_to_conv_cache(file.path, {kVersions, {entry}}, {.bytes = room});
    CHECK(std::ssize(read_file(file.path, 1 << 30)) <= room);
    const ConvCache kept = read_conv_cache(file.path);
    CHECK(kept.choices.contains(entry.first));
  }
  CHECK(read_conv_cache(file.path).choices.size() > 5);
}

TEST_CASE("cache file: what was not used for longest makes room, never what is added") {
  const TemporaryFile file;
  ConvCache all = example_cache(6);
  const int ages[] = {3, 1, 5, 2, 4, 0};  // in years; the last one is added
  std::vector<std::pair<ConvKey, ConvChoice>> entries;
  for (auto& [key, choice] : all.choices) {
    choice.used = date(2026 - ages[entries.size()], 2, 28);
    entries.emplace_back(key, choice);
  }
  ConvCache first = all;
  first.choices.erase(entries[5].first);
  add_to_conv_cache(file.path, first);
  entries[5].second.used = {};  // older than all others
  add_to_conv_cache(file.path, {kVersions, {{entries[5].first, entries[5].second}}},
                    {.choices = 4});
  const ConvChoices left = read_conv_cache(file.path).choices;
  CHECK(left.size() == 4);
  for (const size_t at : {0, 1, 3, 5}) CHECK(left.contains(entries[at].first));
}

TEST_CASE("cache file: one of the first schema is read; its choices have no dates") {
  const ConvCache cache = worked_example();
  std::string text = conv_cache_text(cache);
  const auto change = [&](const std::string& from, const std::string& to) {
    text.replace(text.find(from), from.size(), to);
  };
  change("   \"used\": \"2026-01-31\",\n", "");
  change("\"schema\": 2", "\"schema\": 1");
  const size_t sum = text.find("crc32c ");
  text.replace(sum, text.find('"', sum) - sum, "crc32c 205013339");  // as such a file had it
  const ConvCache old = parse_conv_cache(text);
  REQUIRE(old.choices.size() == 1);
  ConvChoice choice = old.choices.begin()->second;
  CHECK(choice.used == std::chrono::sys_days{});
  choice.used = cache.choices.begin()->second.used;
  CHECK(choice == cache.choices.begin()->second);
}

TEST_CASE("cache file: dates are written one way") {
  CHECK(date_text({}) == "1970-01-01");
  CHECK(date_text(date(2028, 2, 29)) == "2028-02-29");
  ConvCache cache = example_cache(1);
  cache.choices.begin()->second.used = date(2027, 11, 3);
  check_same(parse_conv_cache(conv_cache_text(cache)), cache);
}

TEST_CASE("cache file: a missing file is empty without a word") {
  const TemporaryFile file;
  const Warnings warnings;
  CHECK(load_conv_cache(file.path, kVersions).empty());
  CHECK(warnings.lines.empty());
  CHECK_THROWS_AS(read_conv_cache(file.path), FileError);
}

TEST_CASE("cache file: other versions reject the whole file, warn once, and replace it") {
  const TemporaryFile file;
  add_to_conv_cache(file.path, example_cache());
  for (const auto& change :
       {&ConvVersions::library, &ConvVersions::runtime, &ConvVersions::driver}) {
    const Warnings warnings;
    ConvVersions other = kVersions;
    other.*change = "12.5";
    CHECK(load_conv_cache(file.path, other).empty());
    CHECK(load_conv_cache(file.path, other).empty());
    CHECK(warnings.lines.size() == (change == &ConvVersions::library ? 1 : 0));  // once per file
  }
  ConvKey key = example_key();
  change_machine(key, [](ConvMachine& m) { m.library = "cudnn 10.0.0"; });
  const ConvCache newer{versions_of(*key.machine),
                        {{key, example_cache().choices.begin()->second}}};
  add_to_conv_cache(file.path, newer);
  check_same(read_conv_cache(file.path), newer);
}

TEST_CASE("cache file: another device's choices stay beside ours") {
  const TemporaryFile file;
  ConvCache ours = example_cache(1), theirs{kVersions, {}};
  ConvKey key = example_key();
  change_machine(key, [](ConvMachine& m) { m.device = "NVIDIA L4"; });
  theirs.choices[key] = ours.choices.begin()->second;
  add_to_conv_cache(file.path, ours);
  add_to_conv_cache(file.path, theirs);
  CHECK(load_conv_cache(file.path, kVersions).size() == 2);
}

TEST_CASE("cache file: cut off anywhere it is refused, and replaced by the next search") {
  const std::string text = conv_cache_text(example_cache(1));
  const TemporaryFile file;
  const Warnings warnings;
  for (size_t size = 0; size + 2 < text.size(); ++size) {  // the last two: "}" and the line's end
    CHECK_THROWS_AS(parse_conv_cache(text.substr(0, size)), DataError);
    if (size % 64 != 0) continue;
    file.put(text.substr(0, size));
    CHECK(load_conv_cache(file.path, kVersions).empty());
    add_to_conv_cache(file.path, example_cache(1));
    CHECK(file.text() == text);
  }
  CHECK(warnings.lines.size() == 1);
}

TEST_CASE("cache file: a changed byte is noticed or changes nothing") {
  const ConvCache cache = example_cache(2);
  const std::string text = conv_cache_text(cache);
  std::mt19937 random(3);
  int refused = 0;
  const auto feed = [&](const std::string& changed) {
    try {
      const ConvCache read = parse_conv_cache(changed);
      check_same(read, cache);
    } catch (const DataError&) {
      ++refused;
    }
  };
  for (size_t at = 0; at < text.size(); ++at) {
    std::string changed = text;
    changed[at] = static_cast<char>(changed[at] ^ (1 << random() % 8));
    feed(changed);
  }
  for (int i = 0; i < 2000; ++i) {
    std::string changed = text;
    for (auto n = random() % 5 + 1; n > 0; --n)
      changed[random() % changed.size()] = static_cast<char>(random());
    feed(changed);
  }
  CHECK(refused > 2000);
}

TEST_CASE("cache file: valid JSON that is no cache is refused") {
  const std::string text = conv_cache_text(example_cache(1));
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    return changed.replace(changed.find(from), from.size(), to);
  };
  for (const std::string& changed :
       {std::string("{}"), std::string("[]"), std::string("null"), std::string("\"text\""),
        std::string("{\"format\": 3}"), with("lathe convolution", "other convolution"),
        with("\"schema\": 2", "\"schema\": 3"), with("\"schema\": 2", "\"schema\": 0"),
        with("\"schema\": 2", "\"schema\": \"2\""), with("\"schema\": 2", "\"schema\": 2.5"),
        with("\"schema\": 2", "\"schema\": 6.7e45"),
        with("\"schema\": 2", "\"schema\": 18446744073709551615"),
        with("\"schema\": 2", "\"schema\": true"), with("\"chosen\": 0", "\"chosen\": 1"),
        with("crc32c ", "crc32c 1"), text + "x", text + text})
    CHECK_THROWS_AS(parse_conv_cache(changed), DataError);
  CHECK_THROWS_AS(parse_conv_cache(std::string(1'000'000, '[')), DataError);
}

TEST_CASE("cache file: what is not as it is written is said in our own words") {
  const std::string good = conv_cache_text({});
  const auto with = [&](std::string_view from, std::string_view to) {
    std::string text = good;
    const size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    return text.replace(at, from.size(), to);
  };
  const struct {
    std::string text, message;
  } cases[] = {
      {"", "is not valid JSON at its byte 1"},
      {"{\"format\": nul}", "is not valid JSON at its byte 15"},
      {"[]", "holds an array where an object with \"format\" is expected"},
      {"{}", "has no \"format\""},
      {"{\"format\": 3}", "\"format\" is 3, not a string"},
      {with("\"lathe conv", "\"other conv"), "of another format"},
      {with("\"schema\": 2", "\"schema\": 2.5"), "\"schema\" is 2.5, not an integer that fits"},
      {with("\"schema\": 2", "\"schema\": []"), "\"schema\" is an array, not an integer that fits"},
      {with("\"schema\"", "\"schemas\""), "has no \"schema\""},
      {with("\"choices\": []", "\"choices\": {}"), "\"choices\" is an object, not an array"},
      {with("\"library\": \"\"", "\"library\": null"), "\"library\" is null, not a string"},
  };
  for (const auto& [text, message] : cases) {
    CAPTURE(text);
    try {
      parse_conv_cache(text);
      FAIL("it was taken");
    } catch (const DataError& error) {
      CHECK(error.message() == "convolution cache: " + message);
    }
  }
}

TEST_CASE(
    "cache file: choices that cannot have been made are refused although their checksum fits") {
  const ConvCache good = example_cache(1);
  const ConvKey key = good.choices.begin()->first;
  for (const size_t chosen : {size_t{2}, size_t{3}, size_t{4}, size_t{6}, size_t{1000}}) {
    ConvCache bad = good;
    bad.choices[key].chosen = chosen;
    CHECK_THROWS_WITH_AS(parse_conv_cache(conv_cache_text(bad)),
                         doctest::Contains("which cannot be"), DataError);
  }
  ConvCache other = good;
  other.versions.driver = "14.0";
  CHECK_THROWS_WITH_AS(parse_conv_cache(conv_cache_text(other)),
                       doctest::Contains("but holds the key backward_weight"), DataError);
}

TEST_CASE("cache file: what never was a cache is neither read, overwritten nor removed") {
  const TemporaryFile file;
  const Warnings warnings;
  for (const char* text : {"export PATH=/bin\n", "{\"format\": \"something else\"}", "{}", " "}) {
    file.put(text);
    CHECK(load_conv_cache(file.path, kVersions).empty());
    CHECK_THROWS_WITH_AS(add_to_conv_cache(file.path, example_cache()),
                         doctest::Contains("holds something else and is left as it is"), FileError);
    CHECK_THROWS_AS(remove_conv_cache(file.path), FileError);
    CHECK(file.text() == text);
  }
  CHECK(warnings.lines.size() == 1);
}

TEST_CASE("cache file: removed whatever its state, if it is ours") {
  const TemporaryFile file;
  CHECK(!remove_conv_cache(file.path));
  for (const std::string& text :
       {conv_cache_text(example_cache()), std::string(), std::string("{\n")}) {
    file.put(text);
    CHECK(remove_conv_cache(file.path));
    CHECK(!file.exists());
  }
}

TEST_CASE("cache file: a write that fails leaves the old file") {
  const TemporaryFile file;
  add_to_conv_cache(file.path, example_cache(1));
  const std::string before = file.text();
  FileFaults& faults = file_faults();
  for (FaultPoint* point : {&faults.write, &faults.sync, &faults.rename}) {
    const ArmedFault fault(*point, 1);
    CHECK_THROWS_AS(add_to_conv_cache(file.path, example_cache(3)), FileError);
    CHECK(file.text() == before);
  }
}

TEST_CASE("cache file: processes that write at once lose nothing of each other") {
  const TemporaryFile file;
  constexpr int kProcesses = 4, kEach = 5;
  const ConvCache all = example_cache(kProcesses * kEach);
  pid_t children[kProcesses];
  for (int p = 0; p < kProcesses; ++p) {
    children[p] = ::fork();
    REQUIRE(children[p] >= 0);
    if (children[p] != 0) continue;
    int failed = 0;
    for (const auto& [key, choice] : all.choices) {
      if (key.x.dims[0] % kProcesses != p) continue;
      try {
        add_to_conv_cache(file.path, {kVersions, {{key, choice}}});
      } catch (const std::exception&) {
        failed = 1;
      }
    }
    ::_exit(failed);
  }
  for (const pid_t child : children) {
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(status == 0);
  }
  check_same(read_conv_cache(file.path), all);
}

}  // namespace
}  // namespace lathe
