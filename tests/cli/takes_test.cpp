// Commands and the groups of settings that they take.
#include "lathe/tools/cli/settings/takes.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <string>

#include "lathe/tools/cli/settings/command.h"

using namespace lathe::cli;

TEST_CASE("takes: a command names keys of the table, and none that one of its groups has") {
  for (const Command& command : commands()) {
    CAPTURE(command.name);
    std::istringstream words{std::string(command.takes.also)};
    std::set<std::string> named;
    for (std::string key; words >> key;) {
      CAPTURE(key);
      CHECK(named.insert(key).second);
      const Setting* const setting = find_setting(key);
      REQUIRE(setting != nullptr);
      CHECK(setting->key == key);
      CHECK_FALSE(Takes{.base = command.takes.base, .groups = command.takes.groups}.has(*setting));
    }
  }
}

TEST_CASE("takes: each setting is one of some command") {
  for (const Setting& setting : all_settings()) {
    CAPTURE(setting.key);
    CHECK(std::ranges::any_of(commands(),
                              [&](const Command& command) { return command.takes.has(setting); }));
  }
}

TEST_CASE("takes: the groups, the keys and the base of a command, and nothing else") {
  const Takes base{.groups = {Group::kRoofline}, .also = "seed"};
  const Takes takes{.base = &base, .groups = {Group::kShape}, .also = "keep-f32 json"};
  std::string all;
  for (const Setting& setting : all_settings()) {
    if (takes.has(setting)) all += std::string(setting.key) + " ";
  }
  CHECK(all == "classes in-channels peak-gflops peak-gbytes seed keep-f32 json ");
  for (const Setting& setting : all_settings()) CHECK_FALSE(kNothing.has(setting));
}

TEST_CASE("takes: what repeats a training includes its settings") {
  std::string all;
  for (const Command& command : commands()) {
    if (command.takes.includes(kTrain)) all += std::string(command.name) + " ";
  }
  CHECK(all == "train doctor bench tips ckpt verify-resume ");
}
