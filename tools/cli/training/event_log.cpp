// EventLog: the tags, and the end of the events at the first error.
#include "lathe/tools/cli/training/event_log.h"

#include <cmath>

#include "lathe/core/error.h"
#include "lathe/tools/cli/formatted.h"

namespace lathe::cli {

template <class F>
void EventLog::attempt(F f) try {
  f();
} catch (const FileError& e) {
  writer_.reset();
  log_.warning(formatted("--tensorboard: no more events are written: {}", e.message()));
}

EventLog::EventLog(const std::filesystem::path& folder, int64_t step, Log& log) : log_(log) {
  attempt(
      [&] { writer_.emplace(folder, EventWriterOptions{.first_step = step > 0 ? step + 1 : -1}); });
}

void EventLog::add(const Metrics& m) {
  if (!writer_) return;
  attempt([&] {
    writer_->add_scalar("loss/" + m.split, m.loss, m.step);
    writer_->add_scalar("accuracy/" + m.split, m.accuracy, m.step);
    writer_->add_scalar("memory_peak_bytes/" + m.split, static_cast<double>(m.memory.peak), m.step);
    if (m.split != "train") return;
    writer_->add_scalar("lr", m.lr, m.step);
    if (std::isfinite(m.images_per_second))
      writer_->add_scalar("images_per_second", m.images_per_second, m.step);
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

}  // namespace lathe::cli
