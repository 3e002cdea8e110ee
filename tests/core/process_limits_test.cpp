// Limits of control groups, read from trees of files as /proc and /sys have them.
#include "lathe/core/process_limits.h"

#include <doctest/doctest.h>
#include <sched.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "lathe/core/thread_pool.h"
#include "lathe/tests/data/files.h"

namespace lathe {
namespace {

constexpr const char* kMeminfo =
    "MemTotal:       2000 kB\nMemFree:  10 kB\nMemAvailable:   1000 kB\n";

/// A folder with the files below /proc and /sys of one case.
class Root {
 public:
  Root() = default;
  Root(const std::string& groups, const std::string& mounts) {
    add("/proc/meminfo", kMeminfo);
    add("/proc/self/cgroup", groups);
    add("/proc/self/mountinfo", "23 1 8:1 / / rw - ext4 /dev/sda1 rw\n" + mounts);
  }
  void add(const std::string& path, const std::string& text) const {
    const auto file = dir_.path() / path.substr(1);
    std::filesystem::create_directories(file.parent_path());
    data::testing::write_file(file.string(), text);
  }
  std::string path() const { return dir_.path().string(); }
  GroupLimits limits() const { return group_limits(path()); }
  UsableMemory memory() const { return usable_memory(path()); }

 private:
  data::testing::TempDir dir_;
};

constexpr const char* kVersion2 = "31 23 0:28 / /sys/fs/cgroup rw shared:9 - cgroup2 cgroup2 rw\n";

TEST_CASE("process limits: without control groups the machine's") {
  Root nothing;
  CHECK(nothing.memory().total == 0);
  CHECK(nothing.memory().available == 0);
  CHECK(usable_cpus(nothing.path()) >= 1);
  const Root root("0::/\n", kVersion2);
  CHECK(root.memory().total == 2000 * 1024);
  CHECK(root.memory().available == 1000 * 1024);
  CHECK_FALSE(root.limits().cpus.has_value());
  CHECK_FALSE(root.limits().tasks.has_value());
  CHECK(usable_cpus(root.path()) == usable_cpus(nothing.path()));
}

TEST_CASE("process limits: version 2, the least of a group and of those that it lies in") {
  const Root root("0::/pod/box\n", kVersion2);
  root.add("/sys/fs/cgroup/pod/box/memory.max", "max\n");
  root.add("/sys/fs/cgroup/pod/box/memory.high", "max\n");
  root.add("/sys/fs/cgroup/pod/box/memory.current", "5000\n");
  root.add("/sys/fs/cgroup/pod/box/cpu.max", "150000 100000\n");
  root.add("/sys/fs/cgroup/pod/memory.max", "900000\n");
  root.add("/sys/fs/cgroup/pod/memory.current", "400000\n");
  root.add("/sys/fs/cgroup/pod/memory.stat", "anon 1\ninactive_file 30000\nactive_file 20000\n");
  root.add("/sys/fs/cgroup/pod/cpu.max", "max 100000\n");
  root.add("/sys/fs/cgroup/pod/pids.max", "100\n");
  root.add("/sys/fs/cgroup/cpu.max", "50000 100000\n");
  CHECK(root.memory().total == 900000);
  CHECK(root.memory().available == 550000);  // files' pages are given up
  CHECK(root.limits().cpus == 0.5);
  CHECK(usable_cpus(root.path()) == 1);
  CHECK(root.limits().tasks == 100);
  CHECK(thread_limits_text(root.path())
            .starts_with("100 tasks by " + root.path() + "/sys/fs/cgroup/pod/pids.max"));
  root.add("/sys/fs/cgroup/pod/memory.high", "600000\n");
  CHECK(root.memory().total == 600000);
  CHECK(root.memory().available == 250000);
  root.add("/sys/fs/cgroup/pod/memory.current", "9000000\n");  // nothing is left, and that is known
  CHECK(root.memory().available == 1);
}

TEST_CASE("process limits: version 1, whose controllers have trees of their own") {
  const Root root("9:name=systemd:/\n4:memory:/box/a\n2:cpu,cpuacct:/box\n1:pids:/\n0::/\n",
                  "31 23 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
                  "32 23 0:32 / /sys/fs/cgroup/my\\040memory rw - cgroup cgroup rw,memory\n"
                  "33 23 0:41 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
  root.add("/sys/fs/cgroup/my memory/memory.limit_in_bytes", "9223372036854771712\n");
  root.add("/sys/fs/cgroup/my memory/memory.usage_in_bytes", "77\n");
  root.add("/sys/fs/cgroup/my memory/box/memory.limit_in_bytes", "800000\n");
  root.add("/sys/fs/cgroup/my memory/box/memory.usage_in_bytes", "300000\n");
  root.add("/sys/fs/cgroup/my memory/box/memory.stat",
           "inactive_file 1\ntotal_inactive_file 1000\ntotal_active_file 4000\n");
  root.add("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  root.add("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  root.add("/sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us", "110000\n");
  root.add("/sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_period_us", "100000\n");
  CHECK(root.memory().total == 800000);
  CHECK(root.memory().available == 505000);
  CHECK(root.limits().cpus == 1.1);
  CHECK(usable_cpus(root.path()) == std::min(2, usable_cpus(Root().path())));
}

TEST_CASE("process limits: in a container, where the tree begins at the container's group") {
  const char* const mount =
      "32 23 0:32 /docker/ab /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n";
  // As the host names the groups, and as a namespace that the process has left does.
  for (const char* group : {"/docker/ab/in", "/docker/abc", "/../other", "/"}) {
    CAPTURE(group);
    const Root root(std::string("4:memory:") + group + "\n", mount);
    root.add("/sys/fs/cgroup/memory/memory.limit_in_bytes", "700000\n");
    root.add("/sys/fs/cgroup/memory/memory.usage_in_bytes", "100000\n");
    root.add("/sys/fs/cgroup/memory/in/memory.limit_in_bytes", "600000\n");
    root.add("/sys/fs/cgroup/memory/in/memory.usage_in_bytes", "1\n");
    CHECK(root.memory().total == (std::string(group).ends_with("in") ? 600000 : 700000));
    CHECK(root.memory().available == (std::string(group).ends_with("in") ? 599999 : 600000));
    root.add("/sys/fs/cgroup/memory/memory.stat", "cache 7\nhierarchical_memory_limit 500000\n");
    CHECK(root.memory().total == 500000);  // of the pod that the container lies in
    CHECK(root.memory().available == 400000);
  }
}

TEST_CASE("process limits: texts that say nothing limit nothing") {
  for (const char* text :
       {"", "\n", ":", "0:", "0::x", "4:memory", "x y z - cgroup2", "-1", "max", "999"}) {
    CAPTURE(text);
    const Root root(text, text);
    CHECK(root.memory().total == 2000 * 1024);
    const Root two("0::/\n", kVersion2);
    for (const char* file : {"memory.stat", "memory.current", "cpu.max"})
      two.add(std::string("/sys/fs/cgroup/") + file, text);
    CHECK(two.memory().available == 1000 * 1024);
    CHECK_FALSE(two.limits().cpus.has_value());
  }
}

TEST_CASE("process limits: this process's own") {
  cpu_set_t set;
  REQUIRE(sched_getaffinity(0, sizeof set, &set) == 0);
  CHECK(usable_cpus() == usable_cpus(""));
  CHECK(usable_cpus() <= CPU_COUNT(&set));
  const UsableMemory memory = usable_memory();
  CHECK(memory.total > 0);
  CHECK(memory.available > 0);
  CHECK(memory.available <= memory.total);
}

}  // namespace
}  // namespace lathe
