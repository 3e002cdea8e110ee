// RankOutput: splits a stream into lines. Contract: rank_output.h.
#include "lathe/tools/cli/launch/rank_output.h"

#include <algorithm>

#include "lathe/core/printable.h"
#include "lathe/core/text/formatted.h"
#include "lathe/tools/cli/exit_codes.h"
#include "lathe/tools/cli/output.h"

namespace lathe::cli {
namespace {
constexpr size_t kLongest = 64 << 10;
}

void RankOutput::add(std::string_view bytes) {
  write_log(bytes);
  while (!bytes.empty()) {
    const size_t newline = bytes.find('\n');
    const size_t count = std::min({newline, bytes.size(), kLongest - begun_.size()});
    begun_ += bytes.substr(0, count);
    bytes.remove_prefix(count);
    const bool whole = !bytes.empty() && bytes[0] == '\n';
    if (whole) bytes.remove_prefix(1);
    if (!whole && begun_.size() < kLongest) continue;
    write_line(begun_);
    begun_.clear();
  }
}

void RankOutput::end() {
  if (begun_.empty()) return;
  write_line(begun_);
  begun_.clear();
}

void RankOutput::write_log(std::string_view bytes) {
  if (log_ < 0) return;
  try {
    write_all(log_, bytes, "a rank's log");
  } catch (const CommandError& e) {
    log_problem_ = e.what();
    log_ = -1;
  }
}

void RankOutput::write_line(std::string_view line) {
  if (!line.empty()) last_line_ = line;
  to_.add(formatted("{}{}\n", prefix_, printable_lines(line)));
}

}  // namespace lathe::cli
