// The images that a training reads, and what is said of their parts.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "lathe/core/device.h"
#include "lathe/core/error.h"
#include "lathe/tools/cli/exit_codes.h"
#include "lathe/tools/cli/settings/settings.h"
#include "lathe/tools/cli/training/broken_files.h"
#include "lathe/tools/cli/training/input.h"
#include "lathe/tools/cli/training/join_ranks.h"
#include "lathe/tools/cli/training/resume.h"

namespace lathe::cli {

/// The images of a run and their batches. Evaluations use `val`: a part of the training images, a
/// folder's val/, or the test images. If `val` holds the test images, there is no `test`.
struct RunData {
  std::shared_ptr<data::ImageDataset> train_set, val_set, test_set;
  Input train, val;
  std::optional<Input> test;

  RunImages images(const Settings& settings) const;
};

/// Calls `read`. If an image cannot be read, the error's message ends with advice (image_advice).
template <class Read>
decltype(auto) with_image_advice(const Settings& settings, Read&& read) try {
  return std::forward<Read>(read)();
} catch (const DataError& e) {
  const std::string advice = image_advice(settings, e.message());
  if (advice.empty()) throw;
  throw DataError(e.message() + advice);
} catch (const CommandError& e) {
  const std::string advice = image_advice(settings, e.what());
  if (advice.empty()) throw;
  throw CommandError(e.code(), e.what() + advice);
}

/// Opens this rank's share of all parts of the data set.
/// throws: what open_dataset() and make_input() throw.
RunData open_data(const Settings& settings, Device device, const Ranks& ranks);

/// A line that says which images choose the best checkpoint, and where the test images come from if
/// the data set has none of its own.
std::string choice_of_best(const Settings& settings, const RunData& data);

}  // namespace lathe::cli
