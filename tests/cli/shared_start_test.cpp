// What a rank takes of rank 0's settings, and what of its own. ranks_test.py has ranks that train.
#include "lathe/tools/cli/training/shared_start.h"

#include <doctest/doctest.h>

#include <map>
#include <string>

#include "lathe/core/thread_pool.h"
#include "lathe/tests/cli/temporary_folder.h"
#include "lathe/tools/cli/settings/config_file.h"

using namespace lathe::cli;

TEST_CASE(
    "ranks: what belongs to a machine is as its rank was called, also where that is a default") {
  Settings first;
  first.epochs = 7;
  first.workers = 5;
  first.threads = 3;
  first.data_root = "of/first";
  first.device = "cpu";
  const std::string config = config_text(first, kTrain);

  const Settings plain = settings_beside_first(config, {});
  CHECK(plain.epochs == 7);
  CHECK(plain.workers == 5);
  CHECK(plain.device == "cpu");
  CHECK(plain.data_root == "of/first");
  CHECK(plain.quiet);

  const lathe::test::TemporaryFolder folder;
  SettingSources own;
  own.flags["device"] = Settings().device;
  own.flags["epochs"] = "9";  // no matter of the machine
  own.environment = [](const char* name) {
    const std::string_view key = name;
    return key == "LATHE_WORKERS" ? "2" : key == "LATHE_SEED" ? "77" : nullptr;
  };
  own.config_path = folder.write("run.toml", "workers = 1\nthreads = 2\n");
  const Settings called = settings_beside_first(config, own);
  CHECK(called.device == Settings().device);
  CHECK(called.data_root == "of/first");
  CHECK(called.workers == 2);
  CHECK(called.threads == 2);
  CHECK(called.epochs == 7);
  CHECK(called.seed == first.seed);

  own.config_path = folder.write("run.toml", "data_root = \"of/second\"\nthreads = auto\n");
  own.flags["workers"] = "auto";  // open: as rank 0 has chosen it
  own.environment = {};
  const Settings open = settings_beside_first(config, own, true);
  CHECK(open.data_root == "of/second");
  CHECK(open.workers == 5);
  CHECK(open.threads == 3);
}

TEST_CASE(
    "ranks: a run that goes on has the threads of rank 0, unless a rank was called with others") {
  Settings first;
  first.threads = 3;
  const std::string config = config_text(first, kTrain);
  CHECK(settings_beside_first(config, {}).threads == lathe::num_threads());
  CHECK(settings_beside_first(config, {}, true).threads == 3);
  SettingSources own;
  own.flags["threads"] = "2";
  CHECK(settings_beside_first(config, own, true).threads == 2);
}
