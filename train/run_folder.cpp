// What a training saves: the order in which states become good, and the files that hold them.
#include "lathe/train/run_folder.h"

#include <algorithm>
#include <chrono>

#include "lathe/core/seconds_since.h"

namespace lathe::train {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

RunFolder::RunFolder(const std::filesystem::path& folder, int64_t keep,
                     std::function<Checkpoint()> present)
    : folder_(folder), present_(std::move(present)), writer_(folder, keep) {}

void RunFolder::begin(int64_t step) {
  if (present_) good_.take(present_());
  good_step_ = step;
}

void RunFolder::take_candidate() {
  if (present_) candidate_.begin(present_());
}

void RunFolder::accept_candidate(int64_t step) {
  if (present_) {
    candidate_.finish();
    std::swap(good_, candidate_);
  }
  good_step_ = step;
}

void RunFolder::save(std::string_view name, int64_t step, bool averages) {
  const bool is_last = name == "last";
  if (is_last && last_is_sealed_) return;
  const auto began = Clock::now();
  if (present_) {
    Checkpoint state = present_();
    if (last_is_sealed_) state.metadata.emplace(kInexactKey, "made after the time limit");
    if (averages) state.metadata.emplace(kInexactKey, "its weights are averages (EMA)");
    write(name, state, step);
  }
  if (is_last) {
    has_last_ = true;
    good_on_disk_ = finite_until_ == step ? step : -1;
  }
  seconds_ += seconds_since(began);
  best_saved_ = best_saved_ || name == "best";
  has_saved_best_ = has_saved_best_ || name == "best";
}

int64_t RunFolder::save_good(int64_t step) {
  if (present_ && good_on_disk_ < good_step_) {
    Checkpoint good = good_.checkpoint();
    if (good_step_ < step)
      good.metadata.emplace(kWentBackKey, "the steps after it may have diverged");
    write("last", good, good_step_);
  }
  good_on_disk_ = std::max(good_on_disk_, good_step_);
  wait();
  return good_on_disk_;
}

void RunFolder::write(std::string_view name, const Checkpoint& checkpoint, int64_t step) try {
  writer_.save(checkpoint, std::string(name), step);
} catch (const FileError& e) {
  throw SaveError(e.message());
}

void RunFolder::wait() try {
  const auto began = Clock::now();
  writer_.finish();
  seconds_ += seconds_since(began);
} catch (const FileError& e) {
  throw SaveError(e.message());
}

}  // namespace lathe::train
