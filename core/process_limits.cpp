// Reads /proc/self/cgroup and /proc/self/mountinfo, and then the limits in the groups' folders.
#include "lathe/core/process_limits.h"

#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <iterator>
#include <string_view>
#include <thread>
#include <vector>

#include "lathe/core/format.h"

namespace lathe {

namespace {

using Words = std::vector<std::string_view>;

Words split(std::string_view text, char separator) {
  Words words;
  for (size_t end = 0; end != std::string_view::npos; text.remove_prefix(end + 1)) {
    end = text.find(separator);
    words.push_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
  }
  return words;
}

bool holds(std::string_view list, std::string_view word) {
  return std::ranges::count(split(list, ','), word) > 0;
}

// Empty if it cannot be read: then nothing is known about this limit.
std::string content(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::optional<int64_t> number(std::string_view text) {
  const size_t begin = std::min(text.find_first_not_of(" \t"), text.size());
  int64_t value = 0;
  const auto result = std::from_chars(text.data() + begin, text.data() + text.size(), value);
  if (result.ec != std::errc() || value < 0) return std::nullopt;  // "max", or -1 in version 1
  return value;
}

std::optional<int64_t> number_in(const std::string& path) { return number(content(path)); }

// The number behind `key` at the beginning of a line.
std::optional<int64_t> value_of(std::string_view text, std::string_view key) {
  for (const std::string_view line : split(text, '\n')) {
    if (line.starts_with(key)) return number(line.substr(key.size()));
  }
  return std::nullopt;
}

template <class T>
bool lower(std::optional<T>& least, std::optional<T> other) {
  if (!other || (least && *least <= *other)) return false;
  least = other;
  return true;
}

// mountinfo writes a blank as \040.
std::string unescaped(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    int code = 0;
    const auto digits = text.substr(i, 4);
    if (text[i] == '\\' && digits.size() == 4 &&
        std::from_chars(digits.data() + 1, digits.data() + 4, code, 8).ptr == digits.data() + 4) {
      out += static_cast<char>(code);
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

// A mounted tree of groups: its folder `point` is the group `group`.
struct Mount {
  bool version_2;
  std::string group, point, controllers;
};

std::vector<Mount> group_mounts(const std::string& root) {
  std::vector<Mount> mounts;
  const std::string text = content(root + "/proc/self/mountinfo");
  for (const std::string_view line : split(text, '\n')) {
    const Words words = split(line, ' ');
    const auto dash = std::ranges::find(words, "-");
    if (words.size() < 6 || words.end() - dash < 4) continue;
    if (dash[1] != "cgroup" && dash[1] != "cgroup2") continue;
    mounts.push_back(
        {dash[1] == "cgroup2", unescaped(words[3]), unescaped(words[4]), std::string(dash[3])});
  }
  return mounts;
}

// The folders of this process's group and of all groups that it lies in, as far as they can be
// seen. In a container the tree may begin at the container's own group.
std::vector<std::string> folders_of(const Mount& mount, std::string_view group) {
  if (mount.group != "/") {
    const bool inside = group.starts_with(mount.group) &&
                        (group.size() == mount.group.size() || group[mount.group.size()] == '/');
    group = inside ? group.substr(mount.group.size()) : "";
  }
  if (group.find("/..") != std::string_view::npos) group = "";  // outside what is mounted
  std::vector<std::string> folders;
  for (; group.starts_with('/') && group != "/"; group = group.substr(0, group.rfind('/')))
    folders.push_back(concat(mount.point, group));
  folders.push_back(mount.point);
  return folders;
}

// The names of a group's files and of what they hold, by the version of control groups.
struct MemoryNames {
  const char *limit, *used, *inactive, *active;
};
constexpr MemoryNames kVersion1 = {"/memory.limit_in_bytes", "/memory.usage_in_bytes",
                                   "total_inactive_file ", "total_active_file "};
constexpr MemoryNames kVersion2 = {"/memory.max", "/memory.current", "inactive_file ",
                                   "active_file "};

void read_memory(const std::string& folder, bool version_2, GroupLimits& limits) {
  const MemoryNames& names = version_2 ? kVersion2 : kVersion1;
  const std::string stat = content(folder + "/memory.stat");
  std::optional<int64_t> most = number_in(folder + names.limit);
  if (version_2) {
    lower(most, number_in(folder + "/memory.high"));  // beyond it, all waits
  } else {
    lower(most, value_of(stat, "hierarchical_memory_limit "));  // of groups that cannot be seen
  }
  lower(limits.memory_bytes, most);
  const std::optional<int64_t> used = number_in(folder + names.used);
  if (!most || !used) return;
  // As the system counts MemAvailable: it gives up pages of files when memory is asked for.
  const int64_t pages =
      value_of(stat, names.inactive).value_or(0) + value_of(stat, names.active).value_or(0);
  const int64_t kept = std::max<int64_t>(*used - pages, 0);
  lower(limits.free_bytes, std::optional(std::max<int64_t>(*most - kept, 0)));
}

void read_cpus(const std::string& folder, bool version_2, GroupLimits& limits) {
  std::optional<int64_t> quota, period;
  if (version_2) {  // "50000 100000" or "max 100000", in microseconds
    const std::string text = content(folder + "/cpu.max");
    const Words words = split(text, ' ');
    quota = number(words[0]);
    if (words.size() > 1) period = number(words[1]);
  } else {
    quota = number_in(folder + "/cpu.cfs_quota_us");
    period = number_in(folder + "/cpu.cfs_period_us");
  }
  if (!quota || !period || *quota == 0 || *period == 0) return;
  lower(limits.cpus, std::optional(static_cast<double>(*quota) / static_cast<double>(*period)));
}

void read_tasks(const std::string& folder, GroupLimits& limits) {
  const std::string file = folder + "/pids.max";
  if (lower(limits.tasks, number_in(file))) limits.tasks_file = file;
}

}  // namespace

GroupLimits group_limits(const std::string& root) {
  GroupLimits limits;
  const std::vector<Mount> mounts = group_mounts(root);
  const std::string text = content(root + "/proc/self/cgroup");
  for (const std::string_view line : split(text, '\n')) {  // "4:cpu,cpuacct:/group", "0::/group"
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string_view::npos || second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const bool version_2 = line.starts_with("0::");
    const auto has = [&](const char* name) { return version_2 || holds(controllers, name); };
    for (const Mount& mount : mounts) {
      if (mount.version_2 != version_2) continue;
      if (!version_2 && !holds(mount.controllers, split(controllers, ',')[0])) continue;
      for (const std::string& folder : folders_of(mount, line.substr(second + 1))) {
        if (has("memory")) read_memory(root + folder, version_2, limits);
        if (has("cpu")) read_cpus(root + folder, version_2, limits);
        if (has("pids")) read_tasks(root + folder, limits);
      }
    }
  }
  return limits;
}

int usable_cpus(const std::string& root) {
  cpu_set_t set;
  const int in_mask = sched_getaffinity(0, sizeof set, &set) == 0
                          ? CPU_COUNT(&set)
                          : static_cast<int>(std::thread::hardware_concurrency());  // > 1024
  const std::optional<double> share = group_limits(root).cpus;
  return std::max(1,
                  static_cast<int>(std::min<double>(in_mask, std::ceil(share.value_or(in_mask)))));
}

UsableMemory usable_memory(const std::string& root) {
  const std::string meminfo = content(root + "/proc/meminfo");
  const GroupLimits limits = group_limits(root);
  const auto least = [&](const char* key, std::optional<int64_t> of_groups) -> int64_t {
    std::optional<int64_t> bytes;
    if (const auto kilobytes = value_of(meminfo, key)) bytes = *kilobytes * 1024;
    lower(bytes, of_groups);
    return bytes ? std::max<int64_t>(1, *bytes) : 0;
  };
  return {least("MemTotal:", limits.memory_bytes), least("MemAvailable:", limits.free_bytes)};
}

std::string thread_limits_text(const std::string& root) {
  std::string text;
  const auto add = [&text](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  const auto add_ulimit = [&](int resource, const char* flag, rlim_t unit) {
    rlimit limit{};
    if (getrlimit(static_cast<__rlimit_resource_t>(resource), &limit) == 0 &&
        limit.rlim_cur != RLIM_INFINITY)
      add(concat("ulimit ", flag, " ", static_cast<int64_t>(limit.rlim_cur / unit)));
  };
  const GroupLimits limits = group_limits(root);
  if (limits.tasks) add(concat(*limits.tasks, " tasks by ", limits.tasks_file));
  add_ulimit(RLIMIT_NPROC, "-u", 1);
  add_ulimit(RLIMIT_AS, "-v", 1024);
  if (const auto most = number_in(root + "/proc/sys/kernel/threads-max"))
    add(concat("kernel.threads-max ", *most));
  return text;
}

}  // namespace lathe
