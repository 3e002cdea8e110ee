// Entry point of the `lathe` command.
#include <CLI/CLI.hpp>

#include "lathe/core/version.h"

int main(int argc, char** argv) {
  CLI::App app{"Train, evaluate and inspect neural networks", "lathe"};
  app.set_version_flag("--version", lathe::version());
  app.require_subcommand(0, 1);
  CLI11_PARSE(app, argc, argv);
  return 0;
}
