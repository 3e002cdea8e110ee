// The convolution search: what is kept between calls and shared by threads. Contracts:
// conv_search.h.
#include "lathe/ops/conv/search/conv_search.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <map>
#include <mutex>
#include <optional>

#include "lathe/core/error.h"
#include "lathe/core/log.h"
#include "lathe/ops/conv/search/conv_cache_file.h"
#include "lathe/ops/plans/lru_cache.h"

namespace lathe {

namespace {

using Choice = std::shared_ptr<const ConvChoice>;

double steady_ms() {
  return std::chrono::duration<double, std::milli>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// How exact dates in files are: a program that only reads choices then rarely writes the file.
constexpr std::chrono::days kDateAge{7};

std::chrono::sys_days today() {
  return std::chrono::floor<std::chrono::days>(std::chrono::system_clock::now());
}

/// A number that no search has had before, so that a memo is valid for one search only.
uint64_t new_version() {
  static std::atomic<uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace

namespace {

/// What the files of a folder hold that these libraries found.
ConvChoices measured_choices(const std::string& folder, const ConvVersions& versions) {
  namespace fs = std::filesystem;
  ConvChoices all;
  std::error_code none;
  for (fs::directory_iterator at(folder, none), end; !none && at != end; at.increment(none)) {
    if (at->path().extension() != ".json") continue;
    try {
      ConvCache cache = read_conv_cache(at->path().string());
      if (cache.versions == versions) all.merge(cache.choices);
    } catch (const Error& error) {
      warn_once(concat("conv cache ", at->path().string()),
                concat(error.message(), "; its algorithms are not used"));
    }
  }
  return all;
}

/// Where files lie that came with the program.
std::string folder_beside_program() {
  std::error_code none;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", none);
  return none ? "" : (program.parent_path().parent_path() / "share/lathe/algos").string();
}

}  // namespace

class ConvSearch::State {
 public:
  State(size_t capacity, ConvClock now_ms)
      : now_ms_(now_ms ? std::move(now_ms) : steady_ms), choices_(capacity) {}

  /// The key's choice; searches for it if it is unknown. `kept` says whether it is known from now
  /// on.
  Choice choice_for(const ConvKey& key, ConvEngines& engines);
  /// The choice that follows `failed`, whose engine has failed.
  /// throws: as fail_without_engine.
  Choice after(const ConvKey& key, const Choice& failed, ConvEngines& engines, bool out_of_memory,
               const std::string& why);

  void count_hit() { hits_.fetch_add(1, std::memory_order_relaxed); }
  ConvSearchStats stats() const;
  /// A choice that was found while this was another number may have been replaced since.
  uint64_t version() const { return version_.load(std::memory_order_acquire); }
  void clear();

  const ConvClock now_ms_;
  LruCache<ConvKey, ConvChoice> choices_;

  mutable std::mutex mutex_;  // of the next five; held for moments only
  ConvLimits limits_;
  ConvSearchStats stats_;
  std::string path_, measured_;
  std::map<ConvKey, std::shared_future<Choice>> running_;  // searches that other threads may join

  // Held while engines are timed, so that one search does not disturb another; guards the next two.
  // Recursive, because a timed engine may itself run convolutions: the split engine of a fused key.
  std::recursive_mutex searching_;
  std::optional<ConvChoices> stored_;           // what the file held; absent until it is read
  std::optional<ConvChoices> stored_measured_;  // what the folder's files held

 private:
  Choice known(const ConvKey& key);
  void change_version();
  Choice search(const ConvKey& key, ConvEngines& engines);
  Choice stored(const ConvKey& key, ConvEngines& engines, const std::string& path,
                const std::string& folder);
  Choice usable(const ConvKey& key, ConvEngines& engines, ConvChoices& from,
                const std::string& path);
  void write(const ConvKey& key, const ConvChoice& choice, const std::string& path);

  std::atomic<uint64_t> hits_{0};
  std::atomic<uint64_t> version_{new_version()};
};

Choice ConvSearch::State::choice_for(const ConvKey& key, ConvEngines& engines) {
  std::unique_lock lock(mutex_);
  if (Choice choice = known(key)) return choice;
  lock.unlock();
  const bool capturing = engines.capturing();
  lock.lock();
  if (Choice choice = known(key)) return choice;  // another thread has found it meanwhile
  ++stats_.misses;
  LATHE_CHECK(StateError, !capturing,
              "conv2d: this convolution is new, and its code cannot be loaded while a graph is "
              "captured; run the step once before the capture (",
              key, ")");
  if (const auto at = running_.find(key); at != running_.end()) {
    const std::shared_future<Choice> other = at->second;
    lock.unlock();
    return other.get();
  }
  std::promise<Choice> promise;
  running_.emplace(key, promise.get_future().share());
  lock.unlock();

  Choice found;
  std::exception_ptr error;
  try {
    found = search(key, engines);
    choices_.put(key, found);
  } catch (...) {
    error = std::current_exception();
  }
  lock.lock();
  running_.erase(key);
  lock.unlock();
  if (error) {
    promise.set_exception(error);
    std::rethrow_exception(error);
  }
  promise.set_value(found);
  return found;
}

/// The key's choice if it has one. The caller holds mutex_.
Choice ConvSearch::State::known(const ConvKey& key) {
  Choice choice = choices_.find(key);
  if (choice) count_hit();
  return choice;
}

/// Call it after a known choice was replaced or forgotten: callers that kept it then look again.
void ConvSearch::State::change_version() {
  version_.store(new_version(), std::memory_order_release);
}

void ConvSearch::State::clear() {
  choices_.clear();
  change_version();
}

ConvSearchStats ConvSearch::State::stats() const {
  const std::lock_guard lock(mutex_);
  ConvSearchStats stats = stats_;
  stats.hits = hits_.load(std::memory_order_relaxed);
  return stats;
}

Choice ConvSearch::State::search(const ConvKey& key, ConvEngines& engines) {
  const std::lock_guard one_at_a_time(searching_);
  std::unique_lock lock(mutex_);
  const ConvLimits limits = limits_;
  const bool reads = key.mode == ConvMode::kBenchmark;
  const std::string path = reads ? path_ : "", folder = reads ? measured_ : "";
  lock.unlock();
  if (Choice known = stored(key, engines, path, folder)) return known;
  ConvChoice made = choose_engine(key, engines, limits, now_ms_, true);
  const bool is_kept = !path.empty() && !made.provisional;
  if (is_kept) made.used = today();
  const auto found = std::make_shared<const ConvChoice>(std::move(made));
  lock.lock();
  ++stats_.searches;
  stats_.search_ms += found->search_ms;
  lock.unlock();
  if (is_kept) write(key, *found, path);
  return found;
}

/// Writes the choice to the file, replacing an older one.
void ConvSearch::State::write(const ConvKey& key, const ConvChoice& choice,
                              const std::string& path) {
  try {
    add_to_conv_cache(path, {versions_of(*key.machine), {{key, choice}}});
  } catch (const Error& error) {
    warn_once(concat("conv cache not written ", path),
              concat(error.message(), "; what searches find is not kept"));
  }
}

/// The choice that the file has for the key, or else the folder, if its engine can be used; null
/// if not.
Choice ConvSearch::State::stored(const ConvKey& key, ConvEngines& engines, const std::string& path,
                                 const std::string& folder) {
  if (!path.empty()) {
    if (!stored_) stored_ = load_conv_cache(path, versions_of(*key.machine));
    if (Choice found = usable(key, engines, *stored_, path)) return found;
  }
  if (folder.empty()) return nullptr;
  if (!stored_measured_) stored_measured_ = measured_choices(folder, versions_of(*key.machine));
  return usable(key, engines, *stored_measured_, "");
}

/// The same of choices that a file held; their dates are kept in `path` unless it is empty.
Choice ConvSearch::State::usable(const ConvKey& key, ConvEngines& engines, ConvChoices& from,
                                 const std::string& path) {
  const auto at = from.find(key);
  if (at == from.end()) return nullptr;
  ConvChoice choice = at->second;
  ConvEngineInfo& info = choice.engines[choice.chosen].info;
  try {
    info.workspace_bytes = engines.prepare(info.engine);
    const bool fits = info.workspace_bytes <= key.workspace_limit_bytes;
    if (fits && refusal(key, info).empty()) {
      if (!path.empty() && today() - choice.used >= kDateAge) {
        choice.used = today();
        write(key, choice, path);
      }
      const std::lock_guard lock(mutex_);
      ++stats_.from_file;
      return std::make_shared<const ConvChoice>(std::move(choice));
    }
  } catch (const CudaError&) {  // a search follows and finds what can be used
  } catch (const OutOfMemoryError&) {
  }
  from.erase(at);
  return nullptr;
}

Choice ConvSearch::State::after(const ConvKey& key, const Choice& failed, ConvEngines& engines,
                                bool out_of_memory, const std::string& why) {
  ConvChoice left = without_chosen(*failed, out_of_memory, why);
  bool from_file = false;
  if (left.chosen == left.engines.size()) {
    {
      const std::lock_guard one_at_a_time(searching_);
      for (std::optional<ConvChoices>* from : {&stored_, &stored_measured_})
        from_file = (*from && (*from)->erase(key) > 0) || from_file;
    }
    const int64_t bytes = failed->info().workspace_bytes;
    if (!from_file && !left.has_fallback) {
      left = with_fallback(key, engines, std::move(left), out_of_memory ? bytes / 2 : INT64_MAX);
    }
  }
  const auto next = std::make_shared<const ConvChoice>(std::move(left));
  const bool any = next->chosen < next->engines.size();
  {
    const std::lock_guard lock(mutex_);
    ++stats_.dropped;
    // Another thread may have come here first, or may have searched again.
    if (choices_.find(key) == failed) {
      if (any) {
        choices_.put(key, next);
      } else {
        choices_.erase(key);
      }
      change_version();
    }
  }
  if (from_file) {  // the list from the file is exhausted: search for one of our own
    return choice_for(key, engines);
  }
  if (!any) fail_without_engine(key, *next);
  const std::string given_up = concat(failed->info().engine);
  warn_once(concat("conv engine ", given_up, " ", key),
            concat("conv2d: engine ", given_up, " is given up for engine ", next->info().engine,
                   ": ", why, " (", key, ")"));
  return next;
}

ConvSearch::ConvSearch(size_t capacity, ConvClock now_ms)
    : state_(std::make_unique<State>(capacity, std::move(now_ms))) {}
ConvSearch::~ConvSearch() = default;

void ConvSearch::run(const ConvKey& key, ConvEngines& engines) {
  ConvMemo memo;
  run(key, engines, memo);
}

void ConvSearch::run(const ConvKey& key, ConvEngines& engines, ConvMemo& memo) {
  const uint64_t version = state_->version();  // read first, so that a later change is noticed
  if (memo.version_ == version) {
    state_->count_hit();
  } else {
    memo.version_ = 0;
    memo.choice_ = state_->choice_for(key, engines);
    memo.version_ = version;
  }
  for (;;) {
    bool out_of_memory = false;
    std::string why;
    try {
      engines.execute(memo.choice_->info().engine);
      return;
    } catch (const OutOfMemoryError& error) {
      if (key.deterministic()) throw;  // another engine would add up in another order
      out_of_memory = true;
      why = error.message();
    } catch (const CudaError& error) {
      LATHE_CHECK(CudaError, !key.deterministic(), "conv2d: engine ", memo.choice_->info().engine,
                  " failed, and another would have other bits: ", error.message(), " (", key, ")");
      why = error.message();
    }
    memo.version_ = 0;
    memo.choice_ = state_->after(key, memo.choice_, engines, out_of_memory, why);
  }
}

void ConvSearch::set_limits(const ConvLimits& limits) {
  const std::lock_guard lock(state_->mutex_);
  state_->limits_ = limits;
}
ConvLimits ConvSearch::limits() const {
  const std::lock_guard lock(state_->mutex_);
  return state_->limits_;
}

void ConvSearch::set_file(const std::string& path) {
  const std::lock_guard one_at_a_time(state_->searching_);
  const std::lock_guard lock(state_->mutex_);
  state_->path_ = path;
  state_->stored_.reset();
}
std::string ConvSearch::file() const {
  const std::lock_guard lock(state_->mutex_);
  return state_->path_;
}

void ConvSearch::set_measured(const std::string& folder) {
  const std::lock_guard one_at_a_time(state_->searching_);
  const std::lock_guard lock(state_->mutex_);
  state_->measured_ = folder;
  state_->stored_measured_.reset();
}
std::string ConvSearch::measured() const {
  const std::lock_guard lock(state_->mutex_);
  return state_->measured_;
}

std::shared_ptr<const ConvChoice> ConvSearch::find(const ConvKey& key) const {
  return state_->choices_.find(key);
}
std::vector<std::pair<ConvKey, std::shared_ptr<const ConvChoice>>> ConvSearch::choices() const {
  return state_->choices_.entries();
}
ConvSearchStats ConvSearch::stats() const { return state_->stats(); }
void ConvSearch::clear() { state_->clear(); }

ConvSearch& conv_search() {
  // Never destroyed: threads may still compute convolutions while the process ends.
  static ConvSearch& search = *[] {
    auto* made = new ConvSearch;
    if (const char* path = std::getenv("LATHE_ALGO_CACHE")) made->set_file(path);
    made->set_measured(folder_beside_program());
    return made;
  }();
  return search;
}

}  // namespace lathe
