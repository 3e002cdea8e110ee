// report_file(): an HTML page about a run, updated during training.
#pragma once

#include <memory>

#include "lathe/core/config.h"
#include "lathe/train/observer.h"

namespace lathe::train {

/// Makes an observer that writes report.html into the run folder after each epoch and at the end.
/// The page shows results, curves of all metrics, memory, and the end of the log. It needs no other
/// file and has no script. The observer reads the files of the run, so add metrics_files(), too. If
/// the page cannot be written, the observer warns. Does nothing without a run folder.
LATHE_API std::shared_ptr<Observer> report_file();

}  // namespace lathe::train
