// Which state is known to be good, and what may overwrite what.
#include "lathe/train/run_folder.h"

#include <doctest/doctest.h>

#include "lathe/core/files/file.h"
#include "lathe/tests/cli/temporary_folder.h"
#include "lathe/tests/train/saved_number.h"

using namespace lathe;
using namespace lathe::train;
using lathe::test::Number;
using lathe::test::TemporaryFolder;
namespace fs = std::filesystem;

namespace {

/// A training whose state in step n is the number n.
struct Training {
  TemporaryFolder folder;
  Number number;
  RunFolder saves{folder.path(), 1, [this] { return collect_checkpoint({{"model", number}}); }};

  void reach(int64_t step) { number.value.fill_(static_cast<double>(step)); }
  Checkpoint file(const char* name = "last") {
    saves.wait();
    return read_checkpoint((folder.path() / (std::string(name) + ".safetensors")).string());
  }
  float number_in(const char* name = "last") {
    return file(name).tensors.at("value").to_vector<float>()[0];
  }
};

bool has(const Checkpoint& checkpoint, std::string_view key) {
  return checkpoint.metadata.count(std::string(key)) > 0;
}

}  // namespace

TEST_CASE("run folder: after a bad loss the good state replaces a later file, and says so") {
  Training t;
  t.saves.begin(0);
  t.reach(50);
  t.saves.take_candidate();
  t.saves.accept_candidate(50);
  t.reach(60);
  t.saves.save("last", 60);
  CHECK(t.number_in() == 60);
  t.saves.loss_is_bad();
  CHECK(t.saves.save_good(61) == 50);
  CHECK(t.number_in() == 50);
  CHECK(has(t.file(), kWentBackKey));
}

TEST_CASE("run folder: a candidate whose loss stays unknown is not gone back to") {
  Training t;
  t.saves.begin(0);
  t.reach(50);
  t.saves.take_candidate();
  t.reach(55);
  CHECK(t.saves.save_good(55) == 0);
  CHECK(t.number_in() == 0);
}

TEST_CASE("run folder: a later file whose losses are all finite is kept") {
  Training t;
  t.saves.begin(0);
  t.reach(7);
  t.saves.losses_are_finite(7);
  t.saves.save("last", 7);
  t.reach(8);  // and then the GPU fails
  CHECK(t.saves.save_good(8) == 7);
  CHECK(t.number_in() == 7);
  CHECK_FALSE(has(t.file(), kWentBackKey));
  t.saves.save("last", 8);  // nothing is known of the losses of step 7
  CHECK(t.saves.save_good(8) == 0);
  CHECK(t.number_in() == 0);
}

TEST_CASE(
    "run folder: the state that training began with is no step back where nothing came after it") {
  Training t;
  t.reach(3);
  t.saves.begin(3);
  CHECK(t.saves.save_good(3) == 3);
  CHECK_FALSE(has(t.file(), kWentBackKey));
}

TEST_CASE("run folder: a sealed last stays, and a best that comes after it is inexact") {
  Training t;
  t.saves.begin(0);
  CHECK_FALSE(t.saves.has_last());
  t.reach(5);
  t.saves.save("last", 5);
  CHECK(t.saves.has_last());
  t.saves.seal_last();
  t.reach(6);
  t.saves.save("last", 6);
  t.saves.save("best", 6);
  CHECK(t.saves.count() == 2);
  CHECK(t.number_in("last") == 5);
  CHECK(t.number_in("best") == 6);
  CHECK_FALSE(has(t.file("last"), kInexactKey));
  CHECK(has(t.file("best"), kInexactKey));
  CHECK(t.saves.take_best_saved());
  CHECK_FALSE(t.saves.take_best_saved());
}

TEST_CASE("run folder: averages are marked as what cannot go on bit by bit") {
  Training t;
  t.saves.begin(0);
  t.saves.save("best", 1, true);
  CHECK(t.file("best").metadata.at(std::string(kInexactKey)).find("averages") != std::string::npos);
}

TEST_CASE(
    "run folder: a folder that is gone is a SaveError, from the save after it or from the wait") {
  Training t;
  t.saves.begin(0);
  fs::remove_all(t.folder.path());
  t.saves.save("last", 1);
  CHECK_THROWS_AS(t.saves.wait(), SaveError);
  CHECK_THROWS_AS(t.saves.save("last", 2), SaveError);
}
