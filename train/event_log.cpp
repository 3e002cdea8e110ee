// EventLog: the tags, and the end of the events at the first error.
#include "lathe/train/event_log.h"

#include <cmath>
#include <utility>

#include "lathe/core/error.h"
#include "lathe/core/format.h"
#include "lathe/train/trainer.h"

namespace lathe::train {

template <class F>
void EventLog::attempt(F f) try {
  f();
} catch (const FileError& e) {
  writer_.reset();
  warn_(concat("no more events for TensorBoard are written: ", e.message()));
}

EventLog::EventLog(const std::filesystem::path& folder, int64_t step,
                   std::function<void(const std::string&)> warn)
    : warn_(std::move(warn)) {
  attempt(
      [&] { writer_.emplace(folder, EventWriterOptions{.first_step = step > 0 ? step + 1 : -1}); });
}

void EventLog::add(const MetricsRow& m) {
  if (!writer_) return;
  attempt([&] {
    writer_->add_scalar("loss/" + m.split, m.loss, m.step);
    for (const auto& [name, value] : m.metrics)
      writer_->add_scalar(concat(name, "/", m.split), value, m.step);
    writer_->add_scalar("memory_peak_bytes/" + m.split, static_cast<double>(m.memory.peak), m.step);
    if (m.split != "train") return;
    writer_->add_scalar("lr", m.lr, m.step);
    if (std::isfinite(m.samples_per_second))
      writer_->add_scalar(rate_column(m), m.samples_per_second, m.step);
    if (m.loss_scale > 0) writer_->add_scalar("loss_scale", m.loss_scale, m.step);
  });
}

void EventLog::add(const nn::Module& model, int64_t step) {
  if (!writer_) return;
  attempt([&] {
    for (const auto& [name, parameter] : model.named_parameters())
      writer_->add_histogram(name, parameter, step);
  });
}

void EventLog::add_gradients(const nn::Module& model, int64_t step) {
  if (!writer_) return;
  attempt([&] {
    for (const auto& [name, parameter] : model.named_parameters()) {
      if (const Tensor gradient = parameter.grad(); gradient.defined())
        writer_->add_histogram("gradients/" + name, gradient, step);
    }
  });
}

namespace {

class Events : public Observer {
 public:
  void on_start(Trainer& trainer) override {
    if (!trainer.is_first_rank() || trainer.folder().empty()) return;
    log_.emplace(trainer.folder(), trainer.step(),
                 [&trainer](const std::string& text) { trainer.say(MessageKind::kWarning, text); });
  }
  bool wants_gradients() const override { return true; }
  void on_gradients(Trainer& trainer) override {
    if (log_) log_->add_gradients(trainer.model(), trainer.step() + 1);
  }
  void on_row(Trainer&, const MetricsRow& row) override {
    if (log_) log_->add(row);
  }
  void on_evaluation(Trainer& trainer, const MetricsRow& row) override {
    if (log_ && row.split == "val") log_->add(trainer.model(), row.step);
  }

 private:
  std::optional<EventLog> log_;
};

}  // namespace

std::shared_ptr<Observer> tensorboard() { return std::make_shared<Events>(); }

}  // namespace lathe::train
