// FileLock: one at a time, between threads and processes, and free again however its holder ends.
#include "lathe/core/files/file_lock.h"

#include <doctest/doctest.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "lathe/core/error.h"
#include "lathe/core/log.h"
#include "lathe/tests/interpose.h"

namespace {
std::atomic<int> flock_error = 0;  // of a file system that has no locks
}

extern "C" int flock(int descriptor, int operation) noexcept {
  if (flock_error == 0) return lathe::test::next<int (*)(int, int)>("flock")(descriptor, operation);
  errno = flock_error;
  return -1;
}

namespace lathe {
namespace {

struct LockPath {
  std::string path =
      (std::filesystem::temp_directory_path() / ("lathe-lock-" + std::to_string(::getpid())))
          .string();
  ~LockPath() { std::filesystem::remove(path); }
};

TEST_CASE("FileLock: one holder at a time among threads") {
  const LockPath lock;
  std::atomic<int> inside = 0, overlaps = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 5; ++round) {
        const FileLock held(lock.path);
        overlaps += inside.fetch_add(1) > 0;
        std::this_thread::yield();
        --inside;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(overlaps == 0);
}

TEST_CASE("FileLock: gives up with the path and the time, and is free after its holder") {
  const LockPath lock;
  {
    const FileLock held(lock.path);
    CHECK_THROWS_WITH_AS(
        FileLock(lock.path, 20),
        doctest::Contains(
            (lock.path + ": another process has held it for more than 20 ms").c_str()),
        FileError);
  }
  const FileLock again(lock.path, 0);
  CHECK_THROWS_WITH_AS(FileLock(lock.path, 0),
                       doctest::Contains((lock.path + ": another process holds it\n").c_str()),
                       LockHeldError);
}

TEST_CASE("FileLock: of a folder, whatever is deleted in it") {
  const LockPath lock;
  std::filesystem::create_directory(lock.path);
  {
    const FileLock held(lock.path, 0);
    CHECK_THROWS_WITH_AS(FileLock(lock.path, 0), doctest::Contains(": another process holds it"),
                         LockHeldError);
  }
  const FileLock again(lock.path, 0);
  CHECK_THROWS_WITH_AS(FileLock(lock.path + "/no/folder", 0), doctest::Contains(": cannot lock: "),
                       FileError);
}

TEST_CASE("FileLock: a process that dies leaves it free") {
  const LockPath lock;
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    new FileLock(lock.path);
    ::_exit(0);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  const FileLock held(lock.path, 0);
}

TEST_CASE("FileLock: a file system without locks is a warning, once; other reasons are errors") {
  const LockPath lock;
  std::vector<std::string> warnings;
  const LogHandler before =
      set_log_handler([&](LogLevel, std::string_view text) { warnings.emplace_back(text); });
  for (const int reason : {ENOSYS, ENOLCK, EOPNOTSUPP}) {
    flock_error = reason;
    const FileLock one(lock.path, 0);
    CHECK_NOTHROW(FileLock(lock.path, 0));
  }
  flock_error = EIO;
  CHECK_THROWS_WITH_AS(FileLock(lock.path, 0),
                       doctest::Contains((lock.path + ": cannot lock: Input/output error").c_str()),
                       FileError);
  flock_error = 0;
  set_log_handler(before);
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0] == lock.path +
                           ": cannot be locked, because its file system has no locks (Function not "
                           "implemented); see to it that no second process writes there");
}

TEST_CASE("FileLock: a path that cannot be made is an error with the system's reason") {
  CHECK_THROWS_WITH_AS(FileLock("/no/such/folder/lock"),
                       doctest::Contains("/no/such/folder/lock: cannot lock: No such file"),
                       FileError);
}

}  // namespace
}  // namespace lathe
