// The public settings.
#include "lathe/ops/conv/search/cudnn_settings.h"

#include <doctest/doctest.h>

#include "lathe/core/error.h"
#include "lathe/core/math_mode.h"
#include "lathe/ops/conv/search/conv_search.h"

namespace lathe {
namespace {

TEST_CASE("cudnn settings: defaults, and what they make of a key") {
  CHECK(cudnn::enabled());
  CHECK(!cudnn::benchmark());
  CHECK(cudnn::fusion());
  CHECK(cudnn::workspace_limit() == int64_t{1} << 30);
  CHECK(cudnn::search_limits().per_engine == 4);
  CHECK(cudnn::search_limits().of_first == 16);
  CHECK(!deterministic());
  CHECK(!tf32());
  CHECK(conv_key_of_settings().mode == ConvMode::kHeuristic);
  CHECK(conv_key_of_settings().workspace_limit_bytes == int64_t{1} << 30);

  cudnn::set_benchmark(true);
  set_tf32(true);
  cudnn::set_workspace_limit(5);
  ConvKey expected{.mode = ConvMode::kBenchmark, .tf32 = true, .workspace_limit_bytes = 5};
  CHECK(conv_key_of_settings() == expected);
  set_deterministic(true);  // stronger than benchmark
  expected.mode = ConvMode::kDeterministic;
  CHECK(conv_key_of_settings() == expected);

  set_deterministic(false);
  set_tf32(false);
  cudnn::set_benchmark(false);
  cudnn::set_workspace_limit(int64_t{1} << 30);
  cudnn::set_enabled(false);
  CHECK(!cudnn::enabled());
  cudnn::set_enabled(true);
}

TEST_CASE("cudnn settings: limits and file are those of the process's search") {
  cudnn::set_search_limits({.per_engine = 3, .ms = 50});
  CHECK(conv_search().limits().per_engine == 3);
  CHECK(cudnn::search_limits().ms == 50);
  cudnn::set_search_limits({});
  cudnn::set_algo_cache("somewhere");
  CHECK(cudnn::algo_cache() == "somewhere");
  CHECK(conv_search().file() == "somewhere");
  cudnn::set_algo_cache("");
}

TEST_CASE("cudnn settings: negative limits are refused and change nothing") {
  CHECK_THROWS_WITH_AS(cudnn::set_workspace_limit(-1), doctest::Contains("negative, got -1"),
                       ValueError);
  CHECK(cudnn::workspace_limit() == int64_t{1} << 30);
  CHECK_THROWS_AS(cudnn::set_search_limits({.per_engine = -1}), ValueError);
  CHECK_THROWS_AS(cudnn::set_search_limits({.of_first = -1}), ValueError);
  CHECK_THROWS_AS(cudnn::set_search_limits({.ms = -1}), ValueError);
}

}  // namespace
}  // namespace lathe
