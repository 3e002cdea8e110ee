// The convolution search: runs a convolution on the engine that is best for its key, and remembers
// that engine. docs/conv-search.md explains it with an example.
//   key (conv_key.h) → known? → in a file? (conv_cache_file.h) → choose (conv_choice.h) → run
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lathe/core/config.h"
#include "lathe/ops/conv/search/conv_choice.h"

namespace lathe {

/// What a caller keeps of one key from call to call, so that the next call finds the choice without
/// a lock or an allocation. For one thread and one ConvSearch.
class LATHE_API ConvMemo {
 private:
  friend class ConvSearch;
  std::shared_ptr<const ConvChoice> choice_;
  uint64_t version_ = 0;  // of the search's choices when this one was found; 0: none found yet
};

/// What a search has done so far.
struct ConvSearchStats {
  uint64_t hits = 0;       // calls whose key was known
  uint64_t misses = 0;     // calls whose key was not
  uint64_t searches = 0;   // misses that were searched: not in a file, not by another thread
  uint64_t from_file = 0;  // misses that a file answered
  uint64_t dropped = 0;    // engines that failed when they ran
  double search_ms = 0;
};

/// Thread-safe. Searches run one at a time, so that they do not disturb each other's timing.
/// Threads that miss on one key at the same time share one search, or the exception that it throws.
/// A failed search is not kept.
class LATHE_API ConvSearch {
 public:
  /// Keeps the choices of at most `capacity` keys; the one unused for longest is dropped first.
  explicit ConvSearch(size_t capacity = 10'000, ConvClock now_ms = {});
  ~ConvSearch();
  ConvSearch(const ConvSearch&) = delete;
  ConvSearch& operator=(const ConvSearch&) = delete;

  /// Computes the convolution: finds the key's engine and executes it. `memo` belongs to the caller
  /// and this key. If no choice was dropped or forgotten since it was last passed, finding the
  /// engine is the comparison of one number. An engine that fails is dropped, and the next one is
  /// executed; after the last one, those of the library's fall-back. In deterministic mode the
  /// choice is kept instead: an OutOfMemoryError is passed on, and any other failure becomes a
  /// CudaError naming engine and key.
  /// throws: StateError for an unknown key while engines.capturing();
  /// CudaError or OutOfMemoryError naming the key if no engine can compute it (or may);
  /// whatever else `engines` throws.
  void run(const ConvKey& key, ConvEngines& engines, ConvMemo& memo);
  /// Like run() with a ConvMemo, for a caller that keeps none.
  void run(const ConvKey& key, ConvEngines& engines);

  /// How much later searches may cost.
  void set_limits(const ConvLimits& limits);
  ConvLimits limits() const;

  /// In mode kBenchmark a key is looked up in this file before it is searched, and what a search
  /// finds is added to the file ("": no file). Choices already known stay known.
  void set_file(const std::string& path);
  std::string file() const;

  /// A folder of such files, *.json, that others have measured ("": none). In mode kBenchmark a key
  /// that set_file()'s file does not have is looked up in those of the key's libraries. They are
  /// read once and never written; of other libraries they are passed over without a word.
  void set_measured(const std::string& folder);
  std::string measured() const;

  /// The choice for a key; null if the key is unknown.
  std::shared_ptr<const ConvChoice> find(const ConvKey& key) const;
  /// All known keys with their choices, the most recently used first.
  std::vector<std::pair<ConvKey, std::shared_ptr<const ConvChoice>>> choices() const;
  ConvSearchStats stats() const;
  /// Forgets all choices; files stay as they are.
  void clear();

 private:
  class State;
  std::unique_ptr<State> state_;
};

/// The search of this process. Its measured() choices are at first those that lie beside the
/// program, as in a build or an installation: <program's folder>/../share/lathe/algos.
LATHE_API ConvSearch& conv_search();

}  // namespace lathe
