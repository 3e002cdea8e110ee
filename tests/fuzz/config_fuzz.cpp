// Config files of the command.
#include "lathe/core/error.h"
#include "lathe/tests/fuzz/fuzz.h"
#include "lathe/tools/cli/config_file.h"
#include "lathe/tools/cli/exit_codes.h"

namespace lathe::fuzz {

std::vector<std::string> seeds() {
  return {
      "# comment\nmodel = \"resnet18\"\nlr = 0.1  # per batch\nname = 'a#b'\nsteps = [30, 60, "
      "80]\n",
      "text = \"tab \\t, quote \\\"\"\r\nempty = []\r\n"};
}

void feed(const std::string& bytes) {
  try {
    cli::parse_config(bytes, "fuzz.toml");
  } catch (const cli::UsageError& error) {
    LATHE_FAIL(ValueError, error.what());
  }
}

}  // namespace lathe::fuzz
