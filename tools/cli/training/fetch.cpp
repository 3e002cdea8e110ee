// fetch_dataset_shown(): where a download goes, its progress line, and its end by a signal.
#include "lathe/tools/cli/training/fetch.h"

#include <chrono>

#include "lathe/core/error.h"
#include "lathe/core/seconds_since.h"
#include "lathe/core/text/formatted.h"
#include "lathe/data/images/fetch.h"
#include "lathe/tools/cli/exit_codes.h"
#include "lathe/tools/cli/output.h"
#include "lathe/tools/cli/signals.h"
#include "lathe/train/progress.h"

namespace lathe::cli {
namespace {

// data_roots() gives ./data, the user's cache and the system's folder, unless one place was named.
// A download goes to the cache, because that is found from every directory.
std::filesystem::path target_root(const Settings& settings) {
  const auto roots = data::data_roots(settings.data_root);
  return roots.size() > 2 ? roots[1] : roots[0];
}

std::string fetch_text(const data::FetchProgress& p, double bytes_per_second) {
  const double mib = 1 << 20;
  const double left = static_cast<double>(p.total_bytes - p.done_bytes) / bytes_per_second;
  return formatted("{}  {:.1f}/{:.1f} MiB  {:.1f} MiB/s  ETA {}",
                   p.url.substr(p.url.rfind('/') + 1), static_cast<double>(p.done_bytes) / mib,
                   static_cast<double>(p.total_bytes) / mib, bytes_per_second / mib,
                   train::duration_text(left));
}

}  // namespace

std::filesystem::path fetch_dataset_shown(const data::DatasetSource& source,
                                          const Settings& settings) {
  using Clock = std::chrono::steady_clock;
  const StopRequests signals;
  train::StatusLine line(settings.progress, settings.quiet);
  std::string url;
  int64_t first_bytes = 0;
  Clock::time_point began;
  data::FetchOptions options;
  options.progress = [&](const data::FetchProgress& p) {
    if (p.url != url) {
      url = p.url;
      first_bytes = p.done_bytes;  // bytes of an earlier call do not count for the rate
      began = Clock::now();
    }
    const double seconds = seconds_since(began);
    const double rate = seconds > 0 ? static_cast<double>(p.done_bytes - first_bytes) / seconds : 0;
    if (line.is_due()) line.show([&](int, bool) { return fetch_text(p, rate); });
    return StopRequests::asked() == 0;
  };
  try {
    return data::fetch_dataset(source, target_root(settings), options);
  } catch (const FileError& e) {
    line.clear();
    if (StopRequests::asked() == 0) throw;
    throw CommandError(exit_code_of_signal(StopRequests::asked()),
                       "stopped; the next call continues the download");
  }
}

}  // namespace lathe::cli
