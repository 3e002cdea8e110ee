#include "lathe/train/progress.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

using namespace lathe::train;

namespace {

const ProgressState kState{.label = "epoch 3/10",
                           .done = 117,
                           .total = 468,
                           .loss = 0.41234,
                           .metrics = {{"accuracy", 0.8525}},
                           .lr = 0.05,
                           .samples_per_second = 2345.6,
                           .eta_seconds = 83.4};

}  // namespace

TEST_CASE("progress: the bar shows rate, ETA, loss and accuracy in the room there is") {
  CHECK(bar_text(kState, 120, false, "img") ==
        "epoch 3/10 [#######-----------------------] 117/468  loss 0.412  acc 85.2 %  lr 0.05  "
        "2346 img/s  ETA 1:23");
  CHECK(bar_text(kState, 120, true, "img").find("\033[32m#######\033[0m---") != std::string::npos);
  for (int width = 1; width <= 200; ++width) {
    CAPTURE(width);
    // A terminal shows ^C of Ctrl-C after it.
    CHECK(static_cast<int>(bar_text(kState, width, false, "img").size()) <= std::max(width - 3, 0));
  }
}

TEST_CASE("progress: the bar keeps its length during an epoch") {
  const double rates[] = {0.1, 0.0976, 0.05, 0.00123};
  for (const int width : {60, 80, 100, 120}) {
    CAPTURE(width);
    std::set<size_t> ends;
    ProgressState state = kState;
    for (state.done = 0; state.done <= state.total; ++state.done) {
      const auto i = static_cast<double>(state.done);
      state.loss = 7.5 / (1 + i);
      state.metrics = {{"accuracy", i / 470}};
      state.lr = rates[state.done % 4];
      state.samples_per_second = 700 + i;
      state.eta_seconds = 3500 - 7 * i;
      ends.insert(bar_text(state, width, false, "img").find(']'));
    }
    CHECK(ends.size() == 1);
  }
}

TEST_CASE("progress: beginning, end and beyond stay inside the bar") {
  ProgressState state = kState;
  state.done = 0;
  CHECK(bar_text(state, 120, false, "img").find("[------------------------------]") !=
        std::string::npos);
  state.done = state.total;
  CHECK(bar_text(state, 120, false, "img").find("[##############################]") !=
        std::string::npos);
  state.done = state.total + 5;
  CHECK(bar_text(state, 120, false, "img").find("[##############################]") !=
        std::string::npos);
  state.total = 0;
  CHECK(bar_text(state, 120, false, "img").find("[------------------------------]") !=
        std::string::npos);
}

TEST_CASE("progress: on a narrow terminal the wait for data makes room for the bar") {
  ProgressState state = kState;
  const std::string without = bar_text(state, 90, false, "img");
  CHECK(without.find("[") != std::string::npos);
  state.data_wait = 0.124;
  CHECK(bar_text(state, 90, false, "img") == without);
  CHECK(bar_text(state, 120, false, "img").find("waits for data 12 %") != std::string::npos);
  CHECK(bar_text(state, 120, false, "img").find("[###") != std::string::npos);
}

TEST_CASE(
    "progress: what a narrow terminal has no room for is left out, the least important first") {
  ProgressState state = kState;
  state.data_wait = 0.124;
  CHECK(bar_text(state, 80, false, "img") ==
        "epoch 3/10 [##------] 117/468  loss 0.412  acc 85.2 %  2346 img/s  ETA 1:23");
  CHECK(bar_text(state, 70, false, "img") ==
        "epoch 3/10 117/468  loss 0.412  acc 85.2 %  2346 img/s  ETA 1:23");
  CHECK(bar_text(state, 60, false, "img") ==
        "epoch 3/10 117/468  loss 0.412  acc 85.2 %  ETA 1:23");
}

TEST_CASE("progress: an epoch's line has 80 columns at most") {
  EpochReport state{.epoch = 3,
                    .epochs = 10,
                    .train_loss = 1.2346,
                    .train_metrics = {{"accuracy", 0.5678}},
                    .lr = 0.05,
                    .seconds = 83};
  CHECK(epoch_text(state) == "epoch 3/10  train 1.235 56.8 %  lr 0.05  1:23");
  state.evaluated = true;
  state.val_loss = 1.3;
  state.val_metrics = {{"accuracy", 0.5}};
  state.best_saved = true;
  CHECK(epoch_text(state) ==
        "epoch 3/10  train 1.235 56.8 %  val 1.300 50.0 %  lr 0.05  1:23  saved best");
  state.epoch = 199;
  state.epochs = 200;
  state.train_loss = state.val_loss = 1.23456e30;
  state.train_metrics = state.val_metrics = {{"accuracy", 1.0}};
  state.lr = 1.25e-5;
  state.seconds = 36'000;
  CHECK(epoch_text(state) ==
        "epoch 199/200  train 1.23e+30 100.0 %  val 1.23e+30 100.0 %  10:00:00  best");
}

TEST_CASE("progress: an epoch's line on a narrow terminal leaves out what matters least") {
  const EpochReport state{.epoch = 3,
                          .epochs = 10,
                          .train_loss = 1.2346,
                          .train_metrics = {{"accuracy", 0.5678}},
                          .evaluated = true,
                          .val_loss = 1.3,
                          .val_metrics = {{"accuracy", 0.5}},
                          .lr = 0.05,
                          .seconds = 83,
                          .best_saved = true};
  const std::string begin = "epoch 3/10  train 1.235 56.8 %  val 1.300 50.0 %";
  CHECK(epoch_text(state, 75) == begin + "  lr 0.05  1:23  saved best");
  CHECK(epoch_text(state, 74) == begin + "  1:23  saved best");
  CHECK(epoch_text(state, 65) == begin + "  1:23  best");
  CHECK(epoch_text(state, 59) == begin + "  best");
}

TEST_CASE("progress: a plain line has the same numbers") {
  ProgressState state = kState;
  state.lr = -1;
  CHECK(plain_text(state, "img") ==
        "epoch 3/10 117/468  loss 0.412  acc 85.2 %  2346 img/s  ETA 1:23");
  state.data_wait = 0.124;
  CHECK(plain_text(state, "img") ==
        "epoch 3/10 117/468  loss 0.412  acc 85.2 %  2346 img/s  waits for data 12 %  ETA 1:23");
}

TEST_CASE("progress: a loss scale is shown with the steps that it cost") {
  ProgressState state = kState;
  state.loss_scale = 65536;
  state.skipped_steps = 3;
  CHECK(plain_text(state, "img") ==
        "epoch 3/10 117/468  loss 0.412  acc 85.2 %  lr 0.05  scale 65536  skipped 3  2346 img/s  "
        "ETA 1:23");
}

TEST_CASE("progress: durations and rates") {
  CHECK(duration_text(0) == "0:00");
  CHECK(duration_text(59.6) == "1:00");
  CHECK(duration_text(3599.4) == "59:59");
  CHECK(duration_text(3723) == "1:02:03");
  for (const double unknown :
       {-1.0, static_cast<double>(NAN), static_cast<double>(INFINITY), 1e9}) {
    CHECK(duration_text(unknown) == "?");
  }
  CHECK(rate_text(985.7) == "986");
  CHECK(rate_text(21'949) == "21.9k");
}

TEST_CASE("progress: a bar only on a terminal, colour only without NO_COLOR") {
  CHECK(progress_mode("auto", true, "xterm") == ProgressMode::kBar);
  CHECK(progress_mode("auto", true, nullptr) == ProgressMode::kBar);
  CHECK(progress_mode("auto", true, "dumb") == ProgressMode::kPlain);
  CHECK(progress_mode("auto", false, "xterm") == ProgressMode::kPlain);
  CHECK(progress_mode("plain", true, "xterm") == ProgressMode::kPlain);
  CHECK(progress_mode("none", true, "xterm") == ProgressMode::kNone);
  CHECK(wants_colour(true, nullptr));
  CHECK(wants_colour(true, ""));
  CHECK_FALSE(wants_colour(true, "1"));
  CHECK_FALSE(wants_colour(false, nullptr));
}
