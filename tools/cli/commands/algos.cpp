// lathe algos show | clear: the file of the convolution search. Needs no GPU.
#include <algorithm>
#include <limits>
#include <string>

#include "lathe/core/error.h"
#include "lathe/core/printable.h"
#include "lathe/core/text/formatted.h"
#include "lathe/ops/conv/search/conv_cache_file.h"
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

void print_engine(const Output& out, const ConvKey& key, const ConvChoice& choice, size_t at) {
  const ConvEngineResult& result = choice.engines[at];
  const ConvEngineInfo& info = result.info;
  const std::string engine = concat(info.engine);
  const bool timed = result.outcome == ConvOutcome::kTimed, chosen = at == choice.chosen;
  out.row(Row()
              .add("key", concat(key))
              .add("engine", engine)
              .add("chosen", chosen)
              .add("outcome", std::string(name_of(result.outcome)))
              .add("ms", timed ? result.ms : std::numeric_limits<double>::quiet_NaN())
              .add("runs", result.runs)
              .add("workspace_bytes", info.workspace_bytes)
              .add("deterministic", info.deterministic)
              .add("tensor_cores", info.tensor_cores)
              .add("down_converts", info.down_converts)
              .add("narrow_sums", info.narrow_sums)
              .add("compiles", info.compiles)
              .add("note", result.note)
              .add("search_ms", choice.search_ms)
              .add("used", date_text(choice.used)));
  const auto workspace = static_cast<uint64_t>(std::max<int64_t>(info.workspace_bytes, 0));
  out.text(formatted("{} {:<20} {:>10}  {:>11}  {:<13}  {:<12}  {}{}", chosen ? "*" : " ", engine,
                     timed ? formatted("{:.4f}", result.ms) : "-", readable_bytes(workspace),
                     yes_no(info.deterministic), yes_no(info.tensor_cores), name_of(result.outcome),
                     result.note.empty() ? "" : ": " + printable(first_line(result.note))));
}

}  // namespace

ExitCode run_algos_show(const Invocation& call) {
  const Output out(call.settings.json);
  const std::string& path = path_of(call);
  const ConvCache cache = of_file([&] { return read_conv_cache(path); });
  const size_t count = cache.choices.size();
  out.text(formatted("{}: {} convolution{}, found by {}", path, count, count == 1 ? "" : "s",
                     printable(concat(cache.versions))));
  for (const auto& [key, choice] : cache.choices) {
    out.text(formatted("\n{}", printable(concat(key))));
    out.text(formatted("  {:<20} {:>10}  {:>11}  {:<13}  {:<12}  {}", "engine", "ms", "workspace",
                       "deterministic", "tensor cores", "outcome"));
    for (size_t at = 0; at < choice.engines.size(); ++at) print_engine(out, key, choice, at);
    out.text(formatted("  {} engines, searched in {:.1f} ms; last used {}", choice.engines.size(),
                       choice.search_ms, date_text(choice.used)));
  }
  return ExitCode::kDone;
}

ExitCode run_algos_clear(const Invocation& call) {
  const Output out(call.settings.json);
  const std::string& path = path_of(call);
  const bool removed = of_file([&] { return remove_conv_cache(path); });
  out.text(formatted("{}: {}", path, removed ? "removed" : "no such file"));
  out.row(Row().add("event", "cleared").add("file", path).add("removed", removed));
  return ExitCode::kDone;
}

}  // namespace lathe::cli
