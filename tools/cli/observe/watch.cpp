// lathe watch: runs that go on, redrawn every few seconds.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ranges>
#include <string_view>
#include <thread>

#include "lathe/core/ceil_div.h"
#include "lathe/core/cuda.h"
#include "lathe/core/device.h"
#include "lathe/core/text/formatted.h"
#include "lathe/core/text/terminal.h"
#include "lathe/core/text/wrapping.h"
#include "lathe/tools/cli/observe/run_of_folder.h"
#include "lathe/tools/cli/output.h"
#include "lathe/tools/cli/parse_value.h"
#include "lathe/tools/cli/settings/command.h"
#include "lathe/tools/cli/signals.h"
#include "lathe/train/report/run_view.h"

namespace lathe::cli {
namespace {

using namespace std::chrono_literals;

constexpr double kGiB = 1 << 30;

std::vector<std::string> gpu_lines() {
  std::vector<std::string> lines;
  for (int i = 0; i < cuda::device_count(); ++i) {
    const cuda::DeviceInfo gpu = cuda::device_info(i);
    lines.push_back(formatted("cuda:{}  {}  {} % busy  {:.1f} of {:.1f} GiB used  {} C", i,
                              gpu.name, gpu.utilization_percent,
                              static_cast<double>(gpu.total_bytes - gpu.free_bytes) / kGiB,
                              static_cast<double>(gpu.total_bytes) / kGiB, gpu.temperature_c));
  }
  return lines;
}

bool speaks_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* const value = std::getenv(name);
    if (!value || !*value) continue;  // the first that is set counts
    const std::string_view text(value);
    return text.ends_with("UTF-8") || text.ends_with("utf8");
  }
  return false;
}

Row row_of(const report::RunFiles& run, const report::RunActivity& activity) {
  Row row;
  row.add("event", "run").add("run_dir", run.folder.string()).add("training", activity.training);
  if (activity.seconds_since_row) row.add("seconds_since_row", *activity.seconds_since_row);
  if (const auto part = report::part_done(run)) row.add("part_done", *part);
  if (!run.metrics.empty()) {
    const report::MetricsPoint& last = run.metrics.back();
    row.add("epoch", last.epoch).add("step", last.step).add("split", last.split);
    row.add("loss", last.loss).add("accuracy", last.accuracy);
  }
  if (const report::MetricsPoint* best = run.best("val")) row.add("best_accuracy", best->accuracy);
  if (!run.remarks.empty()) row.add("remarks", joined(run.remarks, " "));
  return row;
}

/// Waits, but not beyond a signal.
void wait_for(double seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (StopRequests::asked() == 0 && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(50ms);
}

}  // namespace

ExitCode run_watch(const Invocation& call) {
  const Settings& settings = call.settings;
  const Output out(settings.json);
  const bool redraws = !settings.json && !settings.once && isatty(STDOUT_FILENO) == 1;
  const StopRequests signals;
  size_t drawn = 0;
  for (;;) {
    const int width = terminal_width(STDOUT_FILENO);
    std::string screen;
    size_t lines = 0;  // rows of the terminal
    bool any = false;
    const auto add = [&](const std::string& line) {
      screen += formatted("{}{}", lines > 0 ? "\n" : "", line);
      // A word that is wider than the terminal takes several of its rows.
      for (const auto part : std::views::split(line, '\n')) {
        const size_t columns = columns_of(std::string_view(part.begin(), part.end()));
        lines += width > 0 ? std::max<size_t>(1, ceil_div(columns, static_cast<size_t>(width))) : 1;
      }
    };
    for (const std::string& folder : call.words) {
      const report::RunFiles run = run_of_folder(folder);
      const report::RunActivity activity = report::activity_of(run);
      any = any || activity.training;
      out.row(row_of(run, activity));
      for (const std::string& line : report::run_view(run, activity, width, !speaks_utf8()))
        add(line);
    }
    for (const std::string& line : gpu_lines()) add(wrapped(line, width));
    // Up to the first line of the screen before, and everything below it away.
    if (redraws && drawn > 0)
      write_all(STDOUT_FILENO, formatted("\033[{}A\033[J", drawn), "stdout");
    out.text(screen);
    drawn = lines;
    if (!any || settings.once) return ExitCode::kDone;
    wait_for(settings.interval);
    if (StopRequests::asked() != 0) return exit_code_of_signal(StopRequests::asked());
  }
}

}  // namespace lathe::cli
