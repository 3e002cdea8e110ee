// The observer that writes report.html.
#include "lathe/train/report/report_file.h"

#include "lathe/core/error.h"
#include "lathe/core/files/file.h"
#include "lathe/core/text/formatted.h"
#include "lathe/train/report/report_page.h"
#include "lathe/train/trainer.h"

namespace lathe::train {
namespace {

class PageWriter : public Observer {
 public:
  void on_epoch(Trainer& trainer, const EpochReport&) override { write(trainer); }
  void on_end(Trainer& trainer, const FitResult&) override { write(trainer); }

 private:
  void write(Trainer& trainer) {
    if (!trainer.is_first_rank() || trainer.folder().empty()) return;
    try {
      const report::RunFiles run = report::read_run_files(trainer.folder());
      write_file_atomic((trainer.folder() / "report.html").string(),
                        report::report_page(run, nullptr));
    } catch (const Error& e) {
      if (!warned_)
        trainer.say(MessageKind::kWarning,
                    formatted("report.html cannot be written: {}", e.message()));
      warned_ = true;
    }
  }

  bool warned_ = false;
};

}  // namespace

std::shared_ptr<Observer> report_file() { return std::make_shared<PageWriter>(); }

}  // namespace lathe::train
