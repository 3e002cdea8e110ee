// Config files of the command, as text and as settings. What is accepted is written and read again.
#include <stdexcept>

#include "lathe/core/error.h"
#include "lathe/tests/fuzz/allocation_watch.h"
#include "lathe/tests/fuzz/target.h"
#include "lathe/tools/cli/exit_codes.h"
#include "lathe/tools/cli/settings/config_file.h"
#include "lathe/tools/cli/settings/settings_sources.h"

namespace lathe::fuzz {
namespace {

cli::Settings settings_of(const std::string& text) {
  cli::SettingSources sources;
  sources.saved_config = text;
  sources.saved_name = "fuzz.toml";
  return cli::merge_settings(sources, cli::kTrain);
}

std::vector<std::string> seeds() {
  return {
      "# comment\nmodel = \"resnet18\"\nlr = 0.1  # per batch\nweights = 'a#b'\nmilestones = [30, "
      "60, 80]\n",
      "data-root = \"tab \\t, quote \\\"\"\r\naugment = []\r\n",
      "epochs = \"auto\"\nnesterov = true\nscheduler = multistep\ngamma = 1e-3\n",
  };
}

void feed(const std::string& bytes) {
  check_allocations(static_cast<int64_t>(bytes.size()), [&] {
    try {
      const cli::Settings settings = settings_of(bytes);
      if (settings_of(cli::config_text(settings, cli::kTrain)) != settings)
        throw std::logic_error("what was read is not what was written");
    } catch (const cli::UsageError& error) {
      LATHE_FAIL(ValueError, error.what());
    }
  });
}

const Target target("config", seeds, feed);

}  // namespace
}  // namespace lathe::fuzz
