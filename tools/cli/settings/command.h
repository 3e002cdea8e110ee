// The list of `lathe`'s commands, each in a file of its own, and what a command is given.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/tools/cli/exit_codes.h"
#include "lathe/tools/cli/settings/run_config.h"
#include "lathe/tools/cli/settings/settings.h"
#include "lathe/tools/cli/settings/settings_sources.h"
#include "lathe/tools/cli/settings/takes.h"

namespace lathe::cli {

struct Invocation {
  Settings settings;
  std::vector<std::string> words;  // arguments that are not flags
  SettingSources sources;          // where the settings came from
};

struct Command {
  std::string_view name;  // "train", "data fetch"
  std::string_view help;
  std::string_view example = {};
  Takes takes;
  std::string_view words = {};        // what --help calls the arguments that are not flags
  std::string_view known_words = {};  // "bash|zsh|fish", for completions; {}: files
  size_t min_words = 0, max_words = 0;
  // --run-dir is a finished run; its config.toml is read unless --config is given.
  ReadsRun reads_run = ReadsRun::kNo;
  // The words are a program and its arguments: whatever follows the first word is the program's.
  bool runs_program = false;
  ExitCode (*run)(const Invocation&);
};

ExitCode run_train(const Invocation&);
ExitCode run_eval(const Invocation&);
ExitCode run_predict(const Invocation&);
ExitCode run_report(const Invocation&);
ExitCode run_watch(const Invocation&);
ExitCode run_doctor(const Invocation&);
ExitCode run_bench_tips(const Invocation&);
ExitCode run_plan(const Invocation&);
ExitCode run_summary(const Invocation&);
ExitCode run_explain(const Invocation&);
ExitCode run_graph(const Invocation&);
ExitCode run_info(const Invocation&);
ExitCode run_data_fetch(const Invocation&);
ExitCode run_data_prepare(const Invocation&);
ExitCode run_data_verify(const Invocation&);
ExitCode run_find_lr(const Invocation&);
ExitCode run_find_batch(const Invocation&);
ExitCode run_find_workers(const Invocation&);
ExitCode run_bench_step(const Invocation&);
ExitCode run_bench_conv(const Invocation&);
ExitCode run_bench_kernels(const Invocation&);
ExitCode run_bench_infer(const Invocation&);
ExitCode run_bench_loader(const Invocation&);
ExitCode run_algos_show(const Invocation&);
ExitCode run_algos_clear(const Invocation&);
ExitCode run_algos_plan(const Invocation&);
ExitCode run_ckpt_show(const Invocation&);
ExitCode run_ckpt_diff(const Invocation&);
ExitCode run_ckpt_convert(const Invocation&);
ExitCode run_ckpt_verify_resume(const Invocation&);
ExitCode run_launch(const Invocation&);
ExitCode run_completion(const Invocation&);
ExitCode run_man(const Invocation&);

std::span<const Command> commands();

}  // namespace lathe::cli
