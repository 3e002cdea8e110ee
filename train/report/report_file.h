// report_file(): the page of a run, while it goes on.
#pragma once

#include <memory>

#include "lathe/core/config.h"
#include "lathe/train/observer.h"

namespace lathe::train {

/// An observer that writes report.html into the run folder after each epoch and at the end:
/// results, curves of all metrics, memory, and the end of the log. The page stands alone and has no
/// script. It is made of the files of the run, so add metrics_files() too. A page that cannot be
/// written is a warning. Does nothing without a run folder.
LATHE_API std::shared_ptr<Observer> report_file();

}  // namespace lathe::train
