// Training as a library: everything of train/. It does not include lathe.h: include that too, for
// tensors, layers and optimisers.
#pragma once

#include "lathe/train/batches.h"
#include "lathe/train/errors.h"
#include "lathe/train/evaluate.h"
#include "lathe/train/event_log.h"
#include "lathe/train/log_file.h"
#include "lathe/train/losses.h"
#include "lathe/train/metric.h"
#include "lathe/train/metrics_files.h"
#include "lathe/train/observer.h"
#include "lathe/train/progress.h"
#include "lathe/train/report/report_file.h"
#include "lathe/train/run_folder.h"
#include "lathe/train/step.h"
#include "lathe/train/stop_signals.h"
#include "lathe/train/trainer.h"
#include "lathe/train/tune/find_batch.h"
#include "lathe/train/tune/find_lr.h"
#include "lathe/train/worst_mistakes.h"
