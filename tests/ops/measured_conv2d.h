// The search that measures a CPU's ways to convolve, for one test.
#pragma once

#include <string>
#include <utility>

#include "lathe/ops/conv_search/conv_cache_file.h"
#include "lathe/ops/conv_search/conv_search.h"
#include "lathe/ops/conv_search/cpu_settings.h"

namespace lathe::test {

/// The mode for one test, with a search that knows nothing before and after.
struct Measured {
  explicit Measured(const std::string& file = "") {
    conv_search().set_file(file);
    conv_search().clear();
    cpu::set_conv_benchmark(true);
  }
  ~Measured() {
    cpu::set_conv_benchmark(false);
    conv_search().set_file("");
    conv_search().clear();
  }
  Measured(const Measured&) = delete;
  Measured& operator=(const Measured&) = delete;

  const ConvSearchStats before = conv_search().stats();
  uint64_t searches() const { return conv_search().stats().searches - before.searches; }
  uint64_t from_file() const { return conv_search().stats().from_file - before.from_file; }
  uint64_t hits() const { return conv_search().stats().hits - before.hits; }
};

/// A file that names this way for the pass.
inline void write_choice(const std::string& path, const ConvKey& key, ConvEngine engine) {
  ConvChoice choice;
  choice.trials.push_back(
      {.candidate = {.engine = std::move(engine)}, .outcome = ConvOutcome::kTimed, .ms = 1});
  add_to_conv_cache(path, {versions_of(*key.machine), {{key, choice}}});
}

}  // namespace lathe::test
