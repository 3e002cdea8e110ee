// LogFile: the stamps, and the text that waits.
#include "lathe/train/log_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <ctime>

#include "lathe/core/text/formatted.h"
#include "lathe/train/append_file.h"
#include "lathe/train/progress.h"
#include "lathe/train/trainer.h"

namespace lathe::train {

LogFile::~LogFile() {
  write_what_waits();
  if (file_ >= 0) close(file_);
}

void LogFile::open(const std::filesystem::path& path) {
  const std::lock_guard lock(mutex_);
  file_ = open_to_append(path.string());
  cut_lines(file_, path.string(), INT64_MAX);
  write_what_waits();
}

void LogFile::add(std::string_view text) {
  constexpr size_t kMostWaiting = 1 << 20;
  const std::lock_guard lock(mutex_);
  write_what_waits();
  if (waiting_.size() > kMostWaiting) {
    ++dropped_;
    return;
  }
  if (dropped_ > 0) {
    add_stamped(
        formatted("warning: lines missing here, because they could not be written: {}", dropped_));
  }
  dropped_ = 0;
  add_stamped(text);
  write_what_waits();
}

void LogFile::add_stamped(std::string_view text) {
  char stamp[32];
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  std::strftime(stamp, sizeof stamp, "%F %T", localtime_r(&now, &local));
  waiting_ += formatted("{} {}\n", stamp, text);
}

void LogFile::write_what_waits() {
  while (file_ >= 0 && !waiting_.empty()) {
    const ssize_t written = write(file_, waiting_.data(), waiting_.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    waiting_.erase(0, static_cast<size_t>(written));
  }
}

namespace {

class LineWriter : public Observer {
 public:
  void on_start(Trainer& trainer) override {
    if (trainer.is_first_rank() && !trainer.folder().empty())
      file_.open(trainer.folder() / "log.txt");
  }
  void on_epoch(Trainer&, const EpochReport& report) override { file_.add(epoch_text(report)); }
  void on_message(Trainer&, MessageKind kind, std::string_view text) override {
    file_.add(formatted("{}{}", kind == MessageKind::kWarning ? "warning: " : "", text));
  }
  void on_end(Trainer& trainer, const FitResult& result) override {
    if (const std::string text = end_text(trainer, result); !text.empty()) file_.add(text);
  }

 private:
  LogFile file_;
};

}  // namespace

std::shared_ptr<Observer> log_file() { return std::make_shared<LineWriter>(); }

}  // namespace lathe::train
