// The settings of a training that takes a moment, for tests of what makes one.
#pragma once

#include "lathe/tools/cli/settings/settings.h"

namespace lathe::cli {

inline Settings small_job() {
  Settings s;
  s.dataset = "synthetic";
  s.synthetic_size = 32;
  s.model = "resnet8";
  s.image_size = 16;
  s.device = "cpu";  // not a GPU that is emulated: slow, and not the subject
  s.augment = "flip";
  s.data_cache = "ram";
  s.batch_size = 4;
  s.workers = 1;
  s.lr = 0.1;
  s.weight_decay = 1e-4;
  s.epochs = 1;
  return s;
}

}  // namespace lathe::cli
