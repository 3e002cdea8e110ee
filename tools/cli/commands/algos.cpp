// lathe algos show | clear: the file of the convolution search. Needs no GPU.
#include <algorithm>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "lathe/core/error.h"
#include "lathe/core/printable.h"
#include "lathe/ops/conv_search/conv_cache_file.h"
#include "lathe/ops/conv_search/conv_ways.h"
#include "lathe/tools/cli/formatted.h"
#include "lathe/tools/cli/output.h"
#include "lathe/tools/cli/settings/command.h"

namespace lathe::cli {
namespace {

const std::string& path_of(const Invocation& call) {
  const std::string& path = call.settings.algo_cache;
  if (path.empty())
    throw UsageError("algos: no file is named; give --algo-cache FILE or set LATHE_ALGO_CACHE");
  return path;
}

/// Returns f(). Errors of the file end the command with code 3.
template <class F>
auto of_file(F f) try {
  return f();
} catch (const FileError& e) {
  throw CommandError(ExitCode::kData, e.message());
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

/// What only engines of a GPU differ in; "" on a CPU.
std::string gpu_columns(const ConvKey& key, const ConvCandidate& candidate) {
  if (is_cpu_library(key.machine->library)) return "";
  return formatted(
      "{:>11}  {:<13}  {:<12}  ",
      readable_bytes(static_cast<uint64_t>(std::max<int64_t>(candidate.workspace_bytes, 0))),
      yes_no(candidate.deterministic), yes_no(candidate.tensor_cores));
}
std::string gpu_headings(const ConvKey& key) {
  if (is_cpu_library(key.machine->library)) return "";
  return formatted("{:>11}  {:<13}  {:<12}  ", "workspace", "deterministic", "tensor cores");
}

/// "cudnn 9.19.0, CUDA 13.0, driver for 13.0"; of a file for both devices also what was on the CPU.
std::string found_by(const ConvCache& cache) {
  std::set<std::string> all{concat(cache.versions)};
  for (const auto& [key, choice] : cache.choices) all.insert(concat(versions_of(*key.machine)));
  return joined(std::vector<std::string>(all.begin(), all.end()), " and by ");
}

void print_trial(const Output& out, const ConvKey& key, const ConvChoice& choice, size_t at) {
  const ConvTrial& trial = choice.trials[at];
  const ConvCandidate& candidate = trial.candidate;
  const std::string engine = engine_text(key, candidate.engine);
  const bool timed = trial.outcome == ConvOutcome::kTimed, chosen = at == choice.chosen;
  out.row(Row()
              .add("key", concat(key))
              .add("engine", engine)
              .add("chosen", chosen)
              .add("outcome", std::string(name_of(trial.outcome)))
              .add("ms", timed ? trial.ms : std::numeric_limits<double>::quiet_NaN())
              .add("runs", trial.runs)
              .add("workspace_bytes", candidate.workspace_bytes)
              .add("deterministic", candidate.deterministic)
              .add("tensor_cores", candidate.tensor_cores)
              .add("down_converts", candidate.down_converts)
              .add("narrow_sums", candidate.narrow_sums)
              .add("compiles", candidate.compiles)
              .add("note", trial.note)
              .add("search_ms", choice.search_ms)
              .add("used", date_text(choice.used)));
  out.text(formatted("{} {:<20} {:>10}  {}{}{}", chosen ? "*" : " ", engine,
                     timed ? formatted("{:.4f}", trial.ms) : "-", gpu_columns(key, candidate),
                     name_of(trial.outcome),
                     trial.note.empty() ? "" : ": " + printable(first_line(trial.note))));
}

}  // namespace

ExitCode run_algos_show(const Invocation& call) {
  const Output out(call.settings.json);
  const std::string& path = path_of(call);
  const ConvCache cache = of_file([&] { return read_conv_cache(path); });
  const size_t count = cache.choices.size();
  out.text(formatted("{}: {} convolution{}, found by {}", path, count, count == 1 ? "" : "s",
                     printable(found_by(cache))));
  for (const auto& [key, choice] : cache.choices) {
    out.text(formatted("\n{}", printable(concat(key))));
    out.text(formatted("  {:<20} {:>10}  {}{}", "engine", "ms", gpu_headings(key), "outcome"));
    for (size_t at = 0; at < choice.trials.size(); ++at) print_trial(out, key, choice, at);
    out.text(formatted("  {} candidates in {:.1f} ms; last used {}", choice.trials.size(),
                       choice.search_ms, date_text(choice.used)));
  }
  return ExitCode::kDone;
}

ExitCode run_algos_clear(const Invocation& call) {
  const Output out(call.settings.json);
  const std::string& path = path_of(call);
  const bool removed = of_file([&] { return remove_conv_cache(path); });
  out.text(formatted("{}: {}", path, removed ? "removed" : "there is none"));
  out.row(Row().add("event", "cleared").add("file", path).add("removed", removed));
  return ExitCode::kDone;
}

}  // namespace lathe::cli
