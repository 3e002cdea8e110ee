// Arguments of the command, one per line; a line LATHE_KEY=value is a variable of the environment.
#include "lathe/tools/cli/settings/command_line.h"

#include <algorithm>
#include <map>
#include <sstream>
#include <stdexcept>

#include "lathe/core/device.h"
#include "lathe/core/error.h"
#include "lathe/tests/fuzz/allocation_watch.h"
#include "lathe/tests/fuzz/target.h"

namespace lathe::fuzz {
namespace {

constexpr cli::Command kSome[] = {
    {.name = "train", .help = "Train", .takes = cli::kTrain, .run = nullptr},
    {.name = "info", .help = "Info", .takes = cli::kInfo, .run = nullptr},
    {.name = "data fetch",
     .help = "Fetch",
     .takes = cli::kDataFetch,
     .words = "one data set",
     .min_words = 1,
     .max_words = 1,
     .run = nullptr},
    {.name = "eval",
     .help = "Eval",
     .takes = cli::kEval,
     .reads_run = cli::ReadsRun::kWeights,
     .run = nullptr},
};

std::map<std::string, std::string, std::less<>> environment;

const char* variable(const char* name) {
  const auto found = environment.find(name);
  return found == environment.end() ? nullptr : found->second.c_str();
}

// No value is empty, and one that could be a flag is the text behind its own flag's sign.
void check_values(const cli::SettingSources& sources, const std::vector<std::string>& arguments) {
  for (const auto& [key, value] : sources.flags) {
    const bool has_sign = std::ranges::find(arguments, "--" + key + "=" + value) != arguments.end();
    if (value.empty() || (value.starts_with("--") && !has_sign))
      throw std::logic_error("--" + key + " took the value \"" + value + "\"");
  }
}

std::vector<std::string> seeds() {
  return {
      "train\n--lr\n0.5\n--batch-size=7\n--no-nesterov\n--device=cuda:1\nLATHE_EPOCHS=3",
      "data\nfetch\ncifar10\n--data-root\nx",
      "info\n--json\n--config\n/dev/null",
      "eval\n--config=/dev/null\n--run-dir\nnowhere\n--amp=bf16",
      "info\n-h",
      "help\ndata",
  };
}

void feed(const std::string& bytes) {
  std::vector<std::string> arguments;
  environment.clear();
  std::istringstream lines(bytes);
  for (std::string line; std::getline(lines, line);) {
    const size_t sign = line.find('=');
    if (line.starts_with("LATHE_") && sign != std::string::npos) {
      environment[line.substr(0, sign)] = line.substr(sign + 1);
    } else {
      arguments.push_back(line);
    }
  }
  constexpr int64_t kConfigBytes = 1 << 20;  // room for a config file, which an argument may name
  check_allocations(static_cast<int64_t>(bytes.size()) + kConfigBytes / 4, [&] {
    try {
      const cli::CommandLine parsed = cli::parse_command_line(arguments, kSome, variable);
      check_values(parsed.invocation.sources, arguments);
      const std::string& device = parsed.invocation.settings.device;
      if (device != "auto") Device{std::string_view(device)};
    } catch (const cli::UsageError& error) {
      LATHE_FAIL(ValueError, error.what());
    } catch (const cli::CommandError& error) {  // a run folder that is not there
      LATHE_FAIL(ValueError, error.what());
    }
  });
}

const Target target("command_line", seeds, feed);

}  // namespace
}  // namespace lathe::fuzz
