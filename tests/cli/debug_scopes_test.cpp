// --sync over a GPU: a model that waits for it is found, the trainer's own steps wait for nothing.
// Compiled with line numbers.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "../cuda_case.h"
#include "lathe/core/debug/sync_check.h"
#include "lathe/core/hooks/stack.h"
#include "lathe/core/log.h"
#include "lathe/ops/reduce.h"
#include "lathe/tests/cli/small_run.h"

namespace program {  // not of the library

constexpr int kLineOfItem = __LINE__ + 4;
struct Waiting : lathe::nn::Module {
  lathe::Tensor forward(const lathe::Tensor& x) override {
    const lathe::Tensor y = fc(x.flatten(1));
    if (waits) last = lathe::sum(y).item<double>();
    return y;
  }
  bool waits = true;
  double last = 0;
  lathe::nn::Linear fc{*this, "fc", 4, 2};
};

}  // namespace program

using namespace lathe;

namespace {

/// What the command warned of while it trained with --sync `mode`.
std::vector<std::string> warnings_of(const char* mode, bool waits) {
  std::vector<std::string> said;
  const LogHandler old =
      set_log_handler([&](LogLevel, std::string_view text) { said.emplace_back(text); });
  const struct Restore {
    const LogHandler& handler;
    ~Restore() { set_log_handler(handler); }
  } restore{old};
  test::Run run({.steps = 6});
  run.settings.sync = mode;
  run.settings.log_every = 2;
  run.settings.save_every = 3;
  run.model.add<program::Waiting>().waits = waits;
  run.to(Device(DeviceType::kCUDA));
  CHECK(run() == cli::ExitCode::kDone);
  return said;
}

}  // namespace

TEST_CASE("train --sync: a training whose model waits for nothing has no wait of its own" *
          test::cuda_case()) {
  for (const char* mode : {"warn", "error"}) CHECK(warnings_of(mode, false).empty());
  CHECK(warnings_of("off", true).empty());
}

TEST_CASE("train --sync warn: a hidden item is named once, with the layer and the line" *
          test::cuda_case()) {
  const std::vector<std::string> said = warnings_of("warn", true);
  REQUIRE(said.size() == 1);
  CHECK_MESSAGE(
      said[0].find("item: the host waits for the GPU here (copy to the host)") != std::string::npos,
      said[0]);
  CHECK_MESSAGE(said[0].starts_with("Sequential.0: "), said[0]);
  if (!profile::line_reader().empty()) {
    const std::string line =
        "called at debug_scopes_test.cpp:" + std::to_string(program::kLineOfItem);
    CHECK_MESSAGE(said[0].find(line) != std::string::npos, said[0]);
  }
}

TEST_CASE("train --sync error: the training ends before the wait and leaves a checkpoint" *
          test::cuda_case()) {
  test::Run run;
  run.settings.sync = "error";
  run.model.add<program::Waiting>();
  run.to(Device(DeviceType::kCUDA));
  CHECK_THROWS_AS(run(), debug::SyncError);
  CHECK(run.saved().metadata.at("lathe.step") == "0");
}
