// The search's file: its text both ways, and its updates under a lock. Contracts:
// conv_cache_file.h.
#include "lathe/ops/conv/search/conv_cache_file.h"

#include <algorithm>
#include <concepts>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "lathe/core/error.h"
#include "lathe/core/files/crc32c.h"
#include "lathe/core/files/file.h"
#include "lathe/core/files/file_lock.h"
#include "lathe/core/files/paths.h"
#include "lathe/core/json.h"
#include "lathe/core/json_members.h"
#include "lathe/core/log.h"
#include "lathe/core/printable.h"

namespace lathe {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kFormat = "lathe convolution algorithms";
constexpr std::string_view kBeginning = "{\n \"format\": \"lathe convolution algorithms\"";
constexpr int64_t kSchema = 2;  // 1 had no dates

std::string text_of(const Json& json, int indent = -1) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

// Covers all choices, so that no damage turns one engine into another.
std::string checksum_of(const Json& choices) {
  const std::string text = text_of(choices);
  return concat("crc32c ", crc32c(text.data(), text.size()));
}

Json json_of(const ConvEngineResult& result) {
  const ConvEngineInfo& info = result.info;
  return {{"engine", concat(info.engine)},
          {"outcome", name_of(result.outcome)},
          {"ms", result.ms},
          {"runs", result.runs},
          {"workspace_bytes", info.workspace_bytes},
          {"deterministic", info.deterministic},
          {"tensor_cores", info.tensor_cores},
          {"down_converts", info.down_converts},
          {"narrow_sums", info.narrow_sums},
          {"compiles", info.compiles},
          {"note", result.note}};
}

std::string shown(const Json& value) {
  return value.is_object()   ? "an object"
         : value.is_array()  ? "an array"
         : value.is_string() ? "a string"
                             : text_of(value);
}

// These read what a file holds by name and type, so that no message is the JSON library's own.
const Json& member_of(const Json& json, const char* key) {
  LATHE_CHECK(DataError, json.is_object(), "convolution cache: holds ", shown(json),
              " where an object with \"", key, "\" is expected");
  const auto found = json.find(key);
  LATHE_CHECK(DataError, found != json.end(), "convolution cache: has no \"", key, "\"");
  return *found;
}

const Json& member_of(const Json& json, const char* key, bool (Json::*is_it)() const noexcept,
                      const char* what) {
  const Json& value = member_of(json, key);
  LATHE_CHECK(DataError, (value.*is_it)(), "convolution cache: \"", key, "\" is ", shown(value),
              ", not ", what);
  return value;
}

const std::string& string_of(const Json& json, const char* key) {
  return member_of(json, key, &Json::is_string, "a string").get_ref<const std::string&>();
}
double number_of(const Json& json, const char* key) {
  return member_of(json, key, &Json::is_number, "a number").get<double>();
}
bool bool_of(const Json& json, const char* key) {
  return member_of(json, key, &Json::is_boolean, "true or false").get<bool>();
}
const Json& array_of(const Json& json, const char* key) {
  return member_of(json, key, &Json::is_array, "an array");
}

// nlohmann::json by itself converts 2.5, and even 1e45, to an integer.
template <std::integral T>
T integer_of(const Json& json, const char* key) {
  const Json& value = member_of(json, key);
  const bool fits = value.is_number_unsigned()
                        ? std::in_range<T>(value.get<uint64_t>())
                        : value.is_number_integer() && std::in_range<T>(value.get<int64_t>());
  LATHE_CHECK(DataError, fits, "convolution cache: \"", key, "\" is ", shown(value),
              ", not an integer that fits");
  return value.get<T>();
}

ConvEngineResult result_of(const Json& json) {
  ConvEngineResult result;
  ConvEngineInfo& info = result.info;
  info.engine = parse_conv_engine(string_of(json, "engine"));
  result.outcome = conv_outcome_from_name(string_of(json, "outcome"));
  result.ms = number_of(json, "ms");
  result.runs = integer_of<int>(json, "runs");
  info.workspace_bytes = integer_of<int64_t>(json, "workspace_bytes");
  info.deterministic = bool_of(json, "deterministic");
  info.tensor_cores = bool_of(json, "tensor_cores");
  info.down_converts = bool_of(json, "down_converts");
  info.narrow_sums = bool_of(json, "narrow_sums");
  info.compiles = bool_of(json, "compiles");
  result.note = string_of(json, "note");
  return result;
}

Json json_of(const ConvKey& key, const ConvChoice& choice) {
  Json engines = Json::array();
  for (const ConvEngineResult& result : choice.engines) engines.push_back(json_of(result));
  return {{"key", concat(key)},
          {"used", date_text(choice.used)},
          {"chosen", choice.chosen},
          {"search_ms", choice.search_ms},
          {"candidates", std::move(engines)}};
}

std::chrono::sys_days date_of(const std::string& text) {
  int year = 0;
  unsigned month = 0, day = 0;
  const int read = std::sscanf(text.c_str(), "%4d-%2u-%2u", &year, &month, &day);
  const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(month),
                                         std::chrono::day(day)};
  LATHE_CHECK(DataError, read == 3 && date.ok() && date_text(date) == text,
              "convolution cache: no date is written \"", text, "\"");
  return date;
}

ConvChoice choice_of(const Json& json, int64_t schema) {
  ConvChoice choice;
  if (schema > 1) choice.used = date_of(string_of(json, "used"));
  choice.chosen = integer_of<size_t>(json, "chosen");
  choice.search_ms = number_of(json, "search_ms");
  for (const Json& result : array_of(json, "candidates"))
    choice.engines.push_back(result_of(result));
  LATHE_CHECK(DataError,
              choice.chosen < choice.engines.size() && choice.engines[choice.chosen].usable(),
              "convolution cache: engine ", choice.chosen, " of ", choice.engines.size(),
              " was chosen, which cannot be");
  return choice;
}

ConvCache cache_of(const Json& json) {
  LATHE_CHECK(DataError, string_of(json, "format") == kFormat,
              "convolution cache: of another format");
  const auto schema = integer_of<int64_t>(json, "schema");
  LATHE_CHECK(DataError, schema >= 1 && schema <= kSchema, "convolution cache: of schema ", schema,
              ", this version reads 1 to ", kSchema);
  const Json& choices = array_of(json, "choices");
  LATHE_CHECK(DataError, string_of(json, "checksum") == checksum_of(choices),
              "convolution cache: damaged, its checksum does not fit");
  ConvCache cache;
  cache.versions.library = string_of(json, "library");
  cache.versions.runtime = string_of(json, "runtime");
  cache.versions.driver = string_of(json, "driver");
  for (const Json& entry : choices) {
    ConvKey key = parse_conv_key(string_of(entry, "key"));
    LATHE_CHECK(DataError, versions_of(*key.machine) == cache.versions,
                "convolution cache: found by ", cache.versions, ", but holds the key ", key);
    LATHE_CHECK(DataError, cache.choices.emplace(std::move(key), choice_of(entry, schema)).second,
                "convolution cache: a key stands in it twice");
  }
  return cache;
}

/// A link that leads nowhere is to get the new file (AtomicFile).
bool exists(const std::string& path) {
  const PathKind kind = path_kind(path);
  return kind != PathKind::kNothing && kind != PathKind::kNowhere;
}

/// The file's text. A pipe is refused, because reading it might wait forever.
std::string content(const std::string& path) {
  std::error_code unreadable;  // reading reports the reason
  LATHE_CHECK(FileError, !std::filesystem::is_fifo(path, unreadable), "convolution cache: ", path,
              " is a pipe and no file");
  return read_file(path, kMaxConvCacheBytes);
}

/// The file's text; "" if there is none.
std::string text_at(const std::string& path) { return exists(path) ? content(path) : ""; }

/// True if a file may be replaced: it is empty, or it begins as the files that we write.
bool is_ours(std::string_view text) {
  const size_t size = std::min(text.size(), kBeginning.size());
  return text.substr(0, size) == kBeginning.substr(0, size);
}

void check_ours(const std::string& path, std::string_view text) {
  LATHE_CHECK(FileError, is_ours(text), "convolution cache: ", path,
              " holds something else and is left as it is");
}

/// Drops `count` choices that are not among `kept`, those unused for longest.
void drop_unused(ConvChoices& choices, const ConvChoices& kept, size_t count) {
  std::vector<ConvChoices::iterator> others;
  for (auto at = choices.begin(); at != choices.end(); ++at) {
    if (!kept.contains(at->first)) others.push_back(at);
  }
  std::ranges::stable_sort(others, {}, [](const auto& at) { return at->second.used; });
  others.resize(std::min(count, others.size()));
  for (const auto& at : others) choices.erase(at);
}

std::string lock_path(const std::string& path) { return path + ".lock"; }

}  // namespace

ConvVersions versions_of(const ConvMachine& machine) {
  return {machine.library, machine.runtime, machine.driver};
}

void append_text(std::string& out, const ConvVersions& versions) {
  out += concat(versions.library, ", CUDA ", versions.runtime, ", driver for ", versions.driver);
}

std::string date_text(std::chrono::sys_days date) {
  const std::chrono::year_month_day ymd(date);
  char text[32];
  std::snprintf(text, sizeof text, "%04d-%02u-%02u", static_cast<int>(ymd.year()),
                static_cast<unsigned>(ymd.month()), static_cast<unsigned>(ymd.day()));
  return text;
}

std::string conv_cache_text(const ConvCache& cache) {
  Json choices = Json::array();
  for (const auto& [key, choice] : cache.choices) choices.push_back(json_of(key, choice));
  const std::string checksum = checksum_of(choices);
  return text_of({{"format", kFormat},
                  {"schema", kSchema},
                  {"library", cache.versions.library},
                  {"runtime", cache.versions.runtime},
                  {"driver", cache.versions.driver},
                  {"checksum", checksum},
                  {"choices", std::move(choices)}},
                 1) +
         "\n";
}

ConvCache parse_conv_cache(std::string_view text) {
  try {
    const Json json = Json::parse(text);
    const std::optional<std::string> twice = doubled_member(text);
    LATHE_CHECK(DataError, !twice, "convolution cache: \"", printable(*twice), "\" appears twice");
    return cache_of(json);
  } catch (const Json::parse_error& error) {
    LATHE_FAIL(DataError, "convolution cache: is not valid JSON at its byte ", error.byte);
  } catch (const Json::exception&) {  // a number that does not fit a double
    LATHE_FAIL(DataError, "convolution cache: holds a number that is too large");
  }
}

ConvCache read_conv_cache(const std::string& path) {
  const std::string text = content(path);
  try {
    return parse_conv_cache(text);
  } catch (const DataError& error) {
    LATHE_FAIL(DataError, path, ": ", error.message());
  }
}

ConvChoices load_conv_cache(const std::string& path, const ConvVersions& versions) {
  try {
    if (!exists(path)) return {};
    ConvCache cache = read_conv_cache(path);
    if (cache.choices.empty()) return {};
    if (cache.versions == versions) return std::move(cache.choices);
    warn_once(concat("conv cache versions ", path),
              concat(path, ": found by ", cache.versions, "; this is ", versions,
                     ", so its choices are not used"));
  } catch (const Error& error) {
    warn_once(concat("conv cache ", path), concat(error.message(), "; its choices are not used"));
  }
  return {};
}

void add_to_conv_cache(const std::string& path, const ConvCache& added,
                       const ConvCacheLimits& limits) {
  const FileLock lock(lock_path(path));
  const std::string text = text_at(path);
  check_ours(path, text);
  ConvCache cache = added;
  try {
    ConvCache old = parse_conv_cache(text);
    if (old.versions == added.versions) cache.choices.merge(old.choices);
  } catch (const DataError&) {  // damaged: it is replaced
  }
  if (cache.choices.size() > limits.choices) {
    drop_unused(cache.choices, added.choices, cache.choices.size() - limits.choices);
  }
  std::string written = conv_cache_text(cache);
  while (std::ssize(written) > limits.bytes && cache.choices.size() > added.choices.size()) {
    drop_unused(cache.choices, added.choices,
                (cache.choices.size() - added.choices.size() + 3) / 4);
    written = conv_cache_text(cache);
  }
  write_file_atomic(path, written);
}

bool remove_conv_cache(const std::string& path) {
  const FileLock lock(lock_path(path));
  if (!exists(path)) return false;
  check_ours(path, text_at(path));
  remove_path(path);
  return true;
}

}  // namespace lathe
