// CheckpointWriter: its thread and places; and the step files of a run folder.
#include "lathe/train/checkpoint_writer.h"

#include <algorithm>
#include <charconv>

#include "lathe/core/error.h"
#include "lathe/core/files/paths.h"
#include "lathe/core/start_thread.h"

namespace lathe::train {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kStepPrefix = "step-", kSuffix = ".safetensors";

/// The step in a step file's name; -1 for other names.
int64_t step_of(std::string_view name) {
  if (!name.starts_with(kStepPrefix) || !name.ends_with(kSuffix)) return -1;
  name.remove_prefix(kStepPrefix.size());
  name.remove_suffix(kSuffix.size());
  int64_t step = -1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
  return error == std::errc() && end == name.data() + name.size() ? step : -1;
}

}  // namespace

std::string step_file(int64_t step) { return concat(kStepPrefix, step, kSuffix); }

std::vector<int64_t> steps_in(const fs::path& folder) {
  std::vector<int64_t> steps;
  for (const std::string& name : names_in(folder)) {
    const int64_t step = step_of(name);
    if (step >= 0) steps.push_back(step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

void keep_newest(const fs::path& folder, int64_t step, int64_t keep, const Checkpoint& last) {
  const int64_t stay = keep > 1 ? keep : 0;  // with a keep of 1 there is only last.safetensors
  std::error_code error;
  const fs::path path = folder / "last.safetensors", kept = folder / step_file(step);
  if (stay > 0 && (fs::is_symlink(kept, error) || !fs::equivalent(path, kept, error))) {
    fs::remove(kept, error);
    // Of the file itself: a link to a symbolic link would be the next last.safetensors, too.
    const fs::path file = fs::canonical(path, error);
    if (!error) fs::create_hard_link(file, kept, error);
    // On a file system without links, writes a second file.
    if (error) safetensors::write(kept.string(), last.tensors, last.metadata);
  }
  const std::vector<int64_t> steps = steps_in(folder);
  for (size_t i = 0; i + static_cast<size_t>(stay) < steps.size(); ++i) {
    fs::remove(folder / step_file(steps[i]), error);  // if it fails, one file too many does no harm
  }
}

CheckpointWriter::CheckpointWriter(fs::path folder, int64_t keep)
    : folder_(std::move(folder)),
      keep_(keep),
      thread_(start_thread("checkpoints", [this] { work(); })) {}

CheckpointWriter::~CheckpointWriter() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void CheckpointWriter::rethrow() const {
  if (error_) std::rethrow_exception(error_);
}

void CheckpointWriter::save(const Checkpoint& checkpoint, const std::string& name, int64_t step) {
  std::unique_lock lock(mutex_);
  Place& place = places_[saved_ % places_.size()];
  changed_.wait(lock, [&] { return !place.busy || error_; });
  rethrow();
  lock.unlock();
  place.snapshot.take(checkpoint);
  lock.lock();
  place.name = name;
  place.step = step;
  place.busy = true;
  ++saved_;
  changed_.notify_all();
}

void CheckpointWriter::finish() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return written_ == saved_ || error_; });
  rethrow();
}

bool CheckpointWriter::holds(size_t saves) const {
  const std::lock_guard lock(mutex_);
  return !error_ && written_ >= saves;
}

void CheckpointWriter::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return written_ < saved_ || ends_; });
    if (written_ == saved_ || error_) return;
    Place& place = places_[written_ % places_.size()];
    lock.unlock();
    std::exception_ptr error;
    try {
      write(place);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    place.busy = false;
    ++written_;
    error_ = error;
    changed_.notify_all();
    if (error_) return;
  }
}

void CheckpointWriter::write(const Place& place) const {
  const Checkpoint& checkpoint = place.snapshot.checkpoint();
  const fs::path path = folder_ / (place.name + std::string(kSuffix));
  safetensors::write(path.string(), checkpoint.tensors, checkpoint.metadata);
  if (place.name == "last") keep_newest(folder_, place.step, keep_, checkpoint);
}

}  // namespace lathe::train
