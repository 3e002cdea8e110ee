// The convolution search: runs a convolution on the engine that suits its key best, and remembers
// which that is. Explained with an example in README.md.
//   key (conv_key.h) → known? → in the file? (conv_cache_file.h) → choose (conv_trials.h) → run
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lathe/core/config.h"
#include "lathe/ops/conv_search/conv_trials.h"

namespace lathe {

/// What a caller keeps of one key from call to call, so that the next call finds the choice without
/// lock or allocation. For one thread and one ConvSearch.
class LATHE_API ConvMemo {
 private:
  friend class ConvSearch;
  std::shared_ptr<const ConvChoice> choice_;
  uint64_t version_ = 0;  // of the search's choices, when this one was found; 0: of none
};

/// What a search has done so far.
struct ConvSearchStats {
  uint64_t hits = 0;       // calls whose key was known
  uint64_t misses = 0;     // calls whose key was not
  uint64_t searches = 0;   // misses that were searched: not in the file, not by another thread
  uint64_t from_file = 0;  // misses that the file answered
  uint64_t dropped = 0;    // engines that failed when they ran
  double search_ms = 0;
};

/// Thread-safe. Searches run one at a time, so that they do not disturb each other's timing;
/// threads that miss on one key at once share one search and what it throws. A failed search is not
/// kept.
class LATHE_API ConvSearch {
 public:
  /// Keeps the choices of at most `capacity` keys; the one not looked up for longest goes first.
  explicit ConvSearch(size_t capacity = 10'000, ConvClock now_ms = {});
  ~ConvSearch();
  ConvSearch(const ConvSearch&) = delete;
  ConvSearch& operator=(const ConvSearch&) = delete;

  /// Computes the convolution: finds the key's engine and executes it. `memo` is the caller's for
  /// this key: while no choice was dropped or forgotten since it was last passed, finding is the
  /// comparison of a number. An engine that fails is dropped and the next one executed. Not so in
  /// deterministic mode: the choice is kept, and the OutOfMemoryError passes, or a CudaError names
  /// engine and key.
  /// While engines.capturing(), a key that is not known is chosen for without timing, and not kept.
  /// throws: CudaError or OutOfMemoryError naming the key if no engine can (or may); what `engines`
  /// throws apart from these two.
  void run(const ConvKey& key, ConvEngines& engines, ConvMemo& memo);
  /// The same for a call that keeps nothing.
  void run(const ConvKey& key, ConvEngines& engines);

  /// How much later searches may cost.
  void set_limits(const ConvLimits& limits);
  ConvLimits limits() const;

  /// Choices of mode kBenchmark are looked for in this file before they are searched, and added
  /// to it ("": no file). What is already known stays known.
  void set_file(const std::string& path);
  std::string file() const;

  /// The choice for a key; null if it is not known.
  std::shared_ptr<const ConvChoice> find(const ConvKey& key) const;
  /// All that are known, the one looked up last first.
  std::vector<std::pair<ConvKey, std::shared_ptr<const ConvChoice>>> choices() const;
  ConvSearchStats stats() const;
  /// Forgets all choices; files stay as they are.
  void clear();

 private:
  class State;
  std::unique_ptr<State> state_;
};

/// The search of this process.
LATHE_API ConvSearch& conv_search();

}  // namespace lathe
