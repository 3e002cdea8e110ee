// Waits are counted by call stack; a stack is looked up once.
#include "lathe/core/debug/sync_check.h"

#include <map>

#include "lathe/core/hooks/watch.h"
#include "lathe/core/log.h"

namespace lathe::debug {

class SyncCheck::Watch final : public profile::Watcher {
 public:
  explicit Watch(SyncMode mode) : Watcher(Gradients::kIgnore), mode_(mode) {}

  void node(const char*, uint64_t) override {}  // a wait is where the program waits

  void wait(const char* why) override {
    const auto ops = open_ops();
    if (ops.empty()) return;  // the program asked for it
    const auto [at, is_new] = place_at_.try_emplace(profile::call_stack(), places_.size());
    if (is_new) places_.push_back({profile::call_place(at->first, layer()), ops.front().name, why});
    SyncPlace& place = places_[at->second];
    ++place.count;
    if (mode_ == SyncMode::kError) fail(place);
    if (mode_ == SyncMode::kWarn && is_new) warn(place);
  }

  const std::vector<SyncPlace>& places() const { return places_; }

 private:
  static std::string text_of(const SyncPlace& place) {
    return concat(place.op, ": the host waits for the GPU here (", place.why, ")",
                  place.call.empty() ? "" : concat(", called at ", place.call));
  }

  static void warn(const SyncPlace& place) {
    const std::string text = concat(place.layer, place.layer.empty() ? "" : ": ", text_of(place));
    warn_once(text, text);
  }

  [[noreturn]] static void fail(const SyncPlace& place) {
    SyncError error(text_of(place), place);
    // A layer that only passes it on must not claim it.
    if (!place.layer.empty()) error.set_origin(place.layer);
    throw error;
  }

  const SyncMode mode_;
  std::map<std::vector<void*>, size_t> place_at_;
  std::vector<SyncPlace> places_;
};

SyncCheck::SyncCheck(SyncMode mode) : watch_(std::make_unique<Watch>(mode)) {}
SyncCheck::~SyncCheck() = default;

std::vector<SyncPlace> SyncCheck::places() const { return watch_->places(); }

}  // namespace lathe::debug
