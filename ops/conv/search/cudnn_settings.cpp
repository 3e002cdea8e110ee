// Storage of the settings for convolutions on a GPU. Contracts: cudnn_settings.h.
#include "lathe/ops/conv/search/cudnn_settings.h"

#include <atomic>
#include <cstdlib>
#include <string_view>

#include "lathe/core/error.h"
#include "lathe/core/math_mode.h"
#include "lathe/ops/conv/search/conv_search.h"

namespace lathe {

namespace cudnn {

namespace {
std::atomic<bool> is_enabled{true}, times_engines{false};
std::atomic<int64_t> workspace_bytes{int64_t{1} << 30};

bool fusion_is_wanted() {
  const char* text = std::getenv("LATHE_CONV_FUSION");
  if (text == nullptr) return true;
  const std::string_view word = text;
  return word != "0" && word != "false" && word != "off" && word != "no";
}
std::atomic<bool>& fusion_switch() noexcept {
  static std::atomic<bool> on = fusion_is_wanted();
  return on;
}
}  // namespace

void set_enabled(bool on) noexcept { is_enabled = on; }
bool enabled() noexcept { return is_enabled; }

void set_benchmark(bool on) noexcept { times_engines = on; }
bool benchmark() noexcept { return times_engines; }

void set_fusion(bool on) noexcept { fusion_switch() = on; }
bool fusion() noexcept { return fusion_switch(); }

void set_workspace_limit(int64_t bytes) {
  LATHE_CHECK(ValueError, bytes >= 0, "cudnn: the workspace limit must not be negative, got ",
              bytes);
  workspace_bytes = bytes;
}
int64_t workspace_limit() noexcept { return workspace_bytes; }

void set_search_limits(const ConvLimits& limits) {
  LATHE_CHECK(ValueError, limits.per_engine >= 0 && limits.of_first >= 0 && limits.ms >= 0,
              "cudnn: search limits must not be negative, got ", limits.per_engine,
              " settings per engine, ", limits.of_first, " of the first, and ", limits.ms, " ms");
  conv_search().set_limits(limits);
}
ConvLimits search_limits() { return conv_search().limits(); }

void set_algo_cache(const std::string& path) { conv_search().set_file(path); }
std::string algo_cache() { return conv_search().file(); }

}  // namespace cudnn

ConvKey conv_key_of_settings() {
  return {.mode = deterministic()      ? ConvMode::kDeterministic
                  : cudnn::benchmark() ? ConvMode::kBenchmark
                                       : ConvMode::kHeuristic,
          .tf32 = tf32(),
          .workspace_limit_bytes = cudnn::workspace_limit()};
}

}  // namespace lathe
