#include "lathe/tools/cli/settings/without_effect.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

using namespace lathe::cli;

namespace {

using Remarks = std::vector<std::string>;

Remarks remarks_of(std::map<std::string, std::string, std::less<>> flags, const char* saved = "") {
  SettingSources sources;
  sources.flags = std::move(flags);
  sources.saved_config = saved;
  return flags_without_effect(merge_settings(sources, kTrain), sources);
}

}  // namespace

TEST_CASE("without effect: every row names settings, and values that can be chosen") {
  for (const Dependence& row : all_dependences()) {
    CAPTURE(row.key);
    const Setting* const key = find_setting(row.key);
    const Setting* const chooser = find_setting(row.chooser);
    REQUIRE(key != nullptr);
    REQUIRE(chooser != nullptr);
    CHECK((key->takes & chooser->takes) != 0);
    if (chooser->choices.empty()) continue;
    for (size_t begin = 0; begin < row.values.size();) {
      const size_t end = std::min(row.values.find('|', begin), row.values.size());
      Settings settings;
      CHECK_NOTHROW(assign(settings, *chooser, row.chooser, row.values.substr(begin, end - begin)));
      begin = end + 1;
    }
  }
}

TEST_CASE("without effect: a flag that decides nothing is named, with what it is for") {
  CHECK(remarks_of({{"power", "2"}}) ==
        Remarks{"--power has no effect with --scheduler cosine, only with poly"});
  CHECK(remarks_of({{"momentum", "0.9"}, {"optimizer", "adam"}}) ==
        Remarks{"--momentum has no effect with --optimizer adam, only with sgd, lars or rmsprop"});
  CHECK(remarks_of({{"init-scale", "8"}, {"loss-scale", "8"}}) ==
        Remarks{"--init-scale has no effect with --amp off, only with fp16"});
  CHECK(remarks_of({{"init-scale", "8"}, {"loss-scale", "8"}, {"amp", "fp16"}}) ==
        Remarks{"--init-scale has no effect with --loss-scale 8, only with dynamic"});
  CHECK(remarks_of({{"skip-broken", "true"}, {"dataset", "mnist"}}) ==
        Remarks{"--skip-broken has no effect with --dataset mnist, only with folder"});
}

TEST_CASE("without effect: what counts, is off, is not known yet or stands in a file is let pass") {
  CHECK(remarks_of({{"power", "2"}, {"scheduler", "poly"}}).empty());
  CHECK(remarks_of({{"power", "2"}}, "scheduler = \"poly\"").empty());
  CHECK(remarks_of({{"gamma", "0.5"}, {"scheduler", "plateau"}}).empty());
  CHECK(remarks_of({{"nesterov", "false"}, {"optimizer", "adam"}}).empty());
  CHECK(remarks_of({{"skip-broken", "true"}}).empty());
  CHECK(remarks_of({{"optimizer", "adam"}}, "momentum = 0.8\npower = 3").empty());
}
