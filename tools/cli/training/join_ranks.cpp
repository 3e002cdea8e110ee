// Joining ranks: the errors of a launcher's variables as errors of the call.
#include "lathe/tools/cli/training/join_ranks.h"

#include <optional>

#include "lathe/core/error.h"
#include "lathe/core/text/formatted.h"
#include "lathe/tools/cli/exit_codes.h"

namespace lathe::cli {
namespace {

std::optional<distributed::GroupOptions> options_of_launcher() {
  try {
    return distributed::options_from_environment();
  } catch (const ValueError& e) {
    throw UsageError(e.message());
  }
}

}  // namespace

std::unique_ptr<distributed::ProcessGroup> join_ranks() {
  const std::optional<distributed::GroupOptions> options = options_of_launcher();
  if (!options || options->world_size == 1) return nullptr;
  if (!distributed::is_available()) {
    throw UsageError(
        formatted("{} ranks: this build cannot join several processes, because it was built "
                  "without Gloo (libgloo-dev)",
                  options->world_size));
  }
  try {
    return std::make_unique<distributed::ProcessGroup>(*options);
  } catch (const ValueError& e) {
    throw UsageError(e.message());
  }
}

int64_t expected_ranks() {
  const std::optional<distributed::GroupOptions> options = options_of_launcher();
  return options ? options->world_size : 1;
}

}  // namespace lathe::cli
