// Waits are counted by call stack; a stack is looked up once.
#include "lathe/core/debug/sync_check.h"

#include <map>

#include "lathe/core/log.h"
#include "lathe/core/profile/stack.h"
#include "lathe/core/profile/watch.h"

namespace lathe::debug {

using profile::Kind;

namespace {
constinit thread_local int t_allowed = 0;  // AllowSync of this thread
}  // namespace

class SyncCheck::Watch final : public profile::Watcher {
 public:
  explicit Watch(SyncMode mode) : mode_(mode) {}

  void wait(const char* why) override {
    const auto ops = open_ops();
    if (ops.empty() || t_allowed > 0) return;  // the program asked for it
    // A copy that waits has said so before it was queued.
    if (ops.back().kind == Kind::kCopy && std::string_view(why).starts_with("synchronize")) return;
    const auto [at, is_new] = place_at_.try_emplace(profile::call_stack(), places_.size());
    if (is_new) places_.push_back(place_of(ops.front().name, why, at->first));
    SyncPlace& place = places_[at->second];
    ++place.count;
    if (mode_ == SyncMode::kError) throw SyncError(text_of(place), place);
    if (mode_ == SyncMode::kWarn && is_new) warn_once(text_of(place), text_of(place));
  }

  const std::vector<SyncPlace>& places() const { return places_; }

 private:
  static SyncPlace place_of(const char* op, const char* why, const std::vector<void*>& stack) {
    SyncPlace place{
        .op = op, .why = why, .layer = layer(), .call = profile::user_call(stack), .file = {}};
    if (const auto frame = profile::user_frame(stack)) {
      place.file = frame->file;
      place.line = frame->line;
    }
    return place;
  }

  static std::string text_of(const SyncPlace& place) {
    return concat(place.op, ": the host waits for the GPU here (", place.why, ")",
                  place.layer.empty() ? "" : concat(" in ", place.layer),
                  place.call.empty() ? "" : concat(", called at ", place.call));
  }

  const SyncMode mode_;
  std::map<std::vector<void*>, size_t> place_at_;
  std::vector<SyncPlace> places_;
};

SyncCheck::SyncCheck(SyncMode mode) : watch_(std::make_unique<Watch>(mode)) {}
SyncCheck::~SyncCheck() = default;

std::vector<SyncPlace> SyncCheck::places() const { return watch_->places(); }

AllowSync::AllowSync() noexcept { ++t_allowed; }
AllowSync::~AllowSync() { --t_allowed; }

}  // namespace lathe::debug
