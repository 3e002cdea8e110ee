// Config files: the reader of one line, the checks of a file, and the writing of settings.
#include "lathe/tools/cli/settings/config_file.h"

#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <set>
#include <string>

#include "lathe/core/text/formatted.h"
#include "lathe/tools/cli/exit_codes.h"

namespace lathe::cli {
namespace {

constexpr size_t kMostBytes = size_t{1} << 20;

// Reads one line from left to right.
class LineReader {
 public:
  LineReader(std::string_view line, std::string_view file, int number)
      : rest_(line), file_(file), number_(number) {}

  [[noreturn]] void fail(std::string_view what) const {
    throw UsageError(formatted("{}:{}: {}", file_, number_, what));
  }

  void skip_space() {
    while (!rest_.empty() &&
           (rest_.front() == ' ' || rest_.front() == '\t' || rest_.front() == '\r')) {
      rest_.remove_prefix(1);
    }
  }
  // How much of the line is not read yet, and the same without the space before it.
  size_t unread() const { return rest_.size(); }
  size_t left() {
    skip_space();
    return rest_.size();
  }
  bool at_end() {
    skip_space();
    return rest_.empty() || rest_.front() == '#';
  }
  bool take(char c) {
    skip_space();
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }

  // Letters, digits and the other characters of numbers and keys.
  std::string bare(std::string_view what) {
    skip_space();
    size_t n = 0;
    while (n < rest_.size() && rest_[n] != '\0' &&
           (std::isalnum(static_cast<unsigned char>(rest_[n])) || std::strchr("_-+.:", rest_[n]))) {
      ++n;
    }
    if (n == 0) fail(formatted("expected {}", what));
    std::string word(rest_.substr(0, n));
    rest_.remove_prefix(n);
    return word;
  }

  std::string scalar() {
    if (take('\'')) {
      const size_t close = rest_.find('\'');
      if (close == std::string_view::npos) fail("a ' is missing at the end");
      std::string text(rest_.substr(0, close));
      rest_.remove_prefix(close + 1);
      return text;
    }
    return take('"') ? basic_string() : bare("a value; texts stand in quotes");
  }

 private:
  std::string basic_string() {
    std::string text;
    for (; !rest_.empty() && rest_.front() != '"'; rest_.remove_prefix(1)) {
      if (rest_.front() != '\\') {
        text += rest_.front();
        continue;
      }
      rest_.remove_prefix(1);
      static constexpr std::string_view kEscapes = "\"\\nt", kMeanings = "\"\\\n\t";
      const size_t which = rest_.empty() ? std::string_view::npos : kEscapes.find(rest_.front());
      if (which == std::string_view::npos)
        fail("only \\\" \\\\ \\n and \\t may follow a backslash");
      text += kMeanings[which];
    }
    if (!take('"')) fail("a \" is missing at the end");
    return text;
  }

  std::string_view rest_;
  std::string_view file_;
  int number_;
};

std::string list(LineReader& line) {
  std::string joined;
  for (bool first = true; !line.take(']'); first = false) {
    if (!first) {
      if (!line.take(',')) line.fail("expected , or ] in a list");
      joined += ',';
    }
    joined += line.scalar();
  }
  return joined;
}

// batch_size means batch-size.
std::string with_dashes(std::string key) {
  std::replace(key.begin(), key.end(), '_', '-');
  return key;
}

// Whether the path is a named pipe. Opening one would wait until somebody writes to it, perhaps for
// ever. The pipes that a shell makes for <(…) and | have a writer, and no name in a folder.
bool is_named_pipe(const std::filesystem::path& path) {
  struct stat info {};
  struct statfs system {};
  return stat(path.c_str(), &info) == 0 && S_ISFIFO(info.st_mode) &&
         statfs(path.c_str(), &system) == 0 && system.f_type != PIPEFS_MAGIC;
}

// An empty file and /dev/null are settings that say nothing. A pipe that nobody writes to is a
// program that has failed, and /dev/stdin of a process without input is /dev/null by another name.
void check_empty(const std::filesystem::path& path) {
  struct stat info {};
  if (path == "/dev/null" || (stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode))) return;
  throw UsageError(formatted("{}: cannot read the config file: {}", path.string(),
                             S_ISFIFO(info.st_mode)
                                 ? "the pipe gave no data"
                                 : "it is empty (a rank of lathe launch has no stdin)"));
}

constexpr std::string_view kByteOrderMark =
    "\xef\xbb\xbf";  // of UTF-8; editors on Windows write it

// PowerShell's > writes UTF-16, in which each of the first letters has a zero byte beside it.
void check_encoding(std::string_view text, std::string_view name) {
  const auto zero_at = [&](size_t i) { return i < text.size() && text[i] == '\0'; };
  const bool is_utf16 = text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff") ||
                        (zero_at(0) && zero_at(2)) || (zero_at(1) && zero_at(3));
  if (is_utf16) throw UsageError(formatted("{}: is in UTF-16; save it as UTF-8", name));
}

}  // namespace

std::string config_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n' || c == '\t') out += '\\';
    out += c == '\n' ? 'n' : c == '\t' ? 't' : c;
  }
  return out + '"';
}

std::vector<ConfigEntry> parse_config(std::string_view text, std::string_view name) {
  std::vector<ConfigEntry> entries;
  std::set<std::string> seen;
  check_encoding(text, name);
  size_t next = text.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;
  for (int number = 1; next < text.size(); ++number) {
    const size_t newline = std::min(text.find('\n', next), text.size());
    LineReader line(text.substr(next, newline - next), name, number);
    next = newline + 1;
    if (line.at_end()) continue;
    if (line.take('[')) line.fail("sections are not used here: write key = value");
    ConfigEntry entry{number, line.bare("key = value"), {}, 0, 0};
    if (!line.take('=')) line.fail(formatted("expected = after {}", entry.key));
    entry.begin = newline - line.left();
    entry.value = line.take('[') ? list(line) : line.scalar();
    entry.end = newline - line.unread();
    if (!line.at_end()) line.fail(formatted("{}: unexpected text after the value", entry.key));
    if (!seen.insert(with_dashes(entry.key)).second)
      line.fail(formatted("{} is given twice", entry.key));
    entries.push_back(std::move(entry));
  }
  return entries;
}

std::string read_config_text(const std::filesystem::path& path) {
  if (is_named_pipe(path)) {
    throw UsageError(
        formatted("{}: cannot read the config file: it is a named pipe", path.string()));
  }
  std::ifstream file(path, std::ios::binary);
  std::string text(kMostBytes + 1, '\0');
  if (!file.read(text.data(), static_cast<std::streamsize>(text.size())) && !file.eof()) {
    const int reason = errno;
    // Not a mistake in the call: too many open files, a disk that fails.
    const bool is_of_system = reason == EMFILE || reason == ENFILE || reason == ENOMEM ||
                              reason == EIO || reason == ESTALE;
    const std::string why =
        formatted("{}: cannot read the config file: {}", path.string(), std::strerror(reason));
    if (is_of_system) throw CommandError(ExitCode::kError, why);
    throw UsageError(why);
  }
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.size() > kMostBytes) {
    throw UsageError(formatted("{}: cannot read the config file: it has more than {} bytes",
                               path.string(), kMostBytes));
  }
  if (text.empty()) check_empty(path);
  return text;
}

std::vector<ConfigEntry> read_config(const std::filesystem::path& path) {
  return parse_config(read_config_text(path), path.string());
}

std::string with_value(std::string_view text, std::string_view name, std::string_view key,
                       std::string_view value) {
  std::string out(text);
  for (const ConfigEntry& entry : parse_config(text, name)) {
    if (with_dashes(entry.key) == key)
      return out.replace(entry.begin, entry.end - entry.begin, value);
  }
  if (!out.empty() && out.back() != '\n') out += '\n';
  return out + formatted("{} = {}\n", key, value);
}

std::string config_text(const Settings& settings, const Takes& takes) {
  std::string text;
  std::string_view heading;
  for (const Setting& setting : all_settings()) {
    if (!takes.has(setting)) continue;
    if (setting.heading != heading) {
      heading = setting.heading;
      text += formatted("{}# {}\n", text.empty() ? "" : "\n", heading);
    }
    const std::string value = value_text(settings, setting);
    const bool bare = std::visit(
        []<class T>(T Settings::*) {
          return !std::is_same_v<T, std::string> && !std::is_same_v<T, std::optional<std::string>>;
        },
        setting.target);
    text +=
        formatted("{} = {}\n", setting.key, bare && value != "auto" ? value : config_string(value));
  }
  return text;
}

}  // namespace lathe::cli
