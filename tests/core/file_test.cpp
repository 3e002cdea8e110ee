// Files: contents, limits and error texts; and after every fault the target is the old file and
// nothing else is left.
#include "lathe/core/files/file.h"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "lathe/core/error.h"
#include "lathe/core/files/temporary_files.h"

namespace lathe {
namespace {

namespace fs = std::filesystem;

struct TemporaryFolder {
  TemporaryFolder() {
    std::string pattern = (fs::temp_directory_path() / "lathe-file-XXXXXX").string();
    REQUIRE(::mkdtemp(pattern.data()) != nullptr);
    path = pattern;
  }
  ~TemporaryFolder() { fs::remove_all(path); }
  std::string operator/(const char* name) const { return (path / name).string(); }
  std::ptrdiff_t entries() const {
    return std::distance(fs::directory_iterator(path), fs::directory_iterator());
  }
  fs::path path;
};

void put(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}
std::string get(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST_CASE("read_file: sizes around the limit") {
  const TemporaryFolder folder;
  const std::string path = folder / "data";
  for (const size_t size : {size_t{0}, size_t{1}, size_t{4095}, size_t{4096}, size_t{100000}}) {
    const std::string content(size, 'x');
    put(path, content);
    CHECK(read_file(path, static_cast<int64_t>(size)) == content);
    CHECK(read_file(path, INT64_MAX - 1) == content);
    if (size > 0) {
      CHECK_THROWS_WITH_AS(read_file(path, static_cast<int64_t>(size) - 1),
                           doctest::Contains("data: is larger than the limit of"), FileError);
    }
  }
}

TEST_CASE("read_file: pipes and files that tell no size") {
  const TemporaryFolder folder;
  const std::string path = folder / "pipe";
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  std::thread writer([&] { put(path, std::string(50000, 'y')); });
  CHECK(read_file(path, 1 << 20) == std::string(50000, 'y'));
  writer.join();
  CHECK(!read_file("/proc/self/status", 1 << 20).empty());
}

TEST_CASE("files: errors name the path and the system's reason") {
  const TemporaryFolder folder;
  const std::string missing = folder / "missing";
  const std::string pipe = folder / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);  // without a writer: not waited for
  CHECK_THROWS_WITH_AS(InputFile{pipe}, doctest::Contains("pipe: cannot read: not a regular file"),
                       FileError);
  CHECK_THROWS_WITH_AS(read_file(missing, 10),
                       doctest::Contains("missing: cannot open: No such file or directory"),
                       FileError);
  CHECK_THROWS_WITH_AS(InputFile file(missing),
                       doctest::Contains((missing + ": cannot open: ").c_str()), FileError);
  CHECK_THROWS_WITH_AS(InputFile file(folder.path.string()),
                       doctest::Contains("not a regular file"), FileError);
  CHECK_THROWS_WITH_AS(read_file(folder.path.string(), 10), doctest::Contains("Is a directory"),
                       FileError);
  CHECK_THROWS_AS(write_file_atomic(folder / "no/such/folder", ""), FileError);
  CHECK_THROWS_WITH_AS(write_file_atomic("/dev/null", "x"),
                       doctest::Contains("/dev/null: cannot replace: not a regular file"),
                       FileError);
}

TEST_CASE("file: a name with a NUL is refused, not cut") {
  const TemporaryFolder folder;
  const std::string name = folder / "cut" + std::string("\0.txt", 5);
  CHECK_THROWS_AS(write_file_atomic(name, "x"), FileError);
  write_file_atomic(folder / "cut", "y");
  CHECK_THROWS_AS(InputFile{name}, FileError);
  CHECK_THROWS_AS(read_file(name, 10), FileError);
}

TEST_CASE("InputFile: reads at an offset, and says where a file ends") {
  const TemporaryFolder folder;
  put(folder / "data", "0123456789");
  const InputFile file(folder / "data");
  CHECK(file.size() == 10);
  char buffer[4] = {};
  file.read(buffer, 4, 3);
  CHECK(std::string(buffer, 4) == "3456");
  const std::string text =
      (folder / "data") + ": expected 4 bytes from byte 8, but it ends at byte 10";
  CHECK_THROWS_WITH_AS(file.read(buffer, 4, 8), doctest::Contains(text.c_str()), FileError);
  file.read(buffer, 0, 10);
}

TEST_CASE("write_file_atomic: creates, replaces and leaves nothing else") {
  const TemporaryFolder folder;
  const std::string path = folder / "out";
  for (const std::string content : {"first", "", "a longer second content"}) {
    write_file_atomic(path, content);
    CHECK(get(path) == content);
    CHECK(folder.entries() == 1);
  }
}

TEST_CASE("write_file_atomic: keeps permissions and symbolic links") {
  const TemporaryFolder folder;
  const std::string path = folder / "secret";
  put(path, "old");
  fs::permissions(path, fs::perms::owner_read | fs::perms::owner_write);
  fs::create_symlink("secret", folder / "link");
  write_file_atomic(folder / "link", "new");
  CHECK(fs::is_symlink(folder / "link"));
  CHECK(get(path) == "new");
  CHECK(fs::status(path).permissions() == (fs::perms::owner_read | fs::perms::owner_write));
}

TEST_CASE(
    "write_file_atomic: a link to a file that is not there makes it, one in a loop is refused") {
  const TemporaryFolder folder;
  fs::create_directory(folder / "sub");
  fs::create_symlink("sub/next", folder / "first");
  fs::create_symlink("../file", folder / "sub/next");
  write_file_atomic(folder / "first", "new");
  CHECK(get(folder / "file") == "new");
  CHECK(fs::is_symlink(folder / "first"));
  CHECK(fs::is_symlink(folder / "sub/next"));
  fs::create_symlink("loop", folder / "loop");
  CHECK_THROWS_AS(write_file_atomic(folder / "loop", "new"), FileError);
  CHECK(fs::is_symlink(folder / "loop"));
}

TEST_CASE("write_file_atomic: a relative path without a folder") {
  const TemporaryFolder folder;
  const fs::path before = fs::current_path();
  fs::current_path(folder.path);
  write_file_atomic("plain", "x");
  fs::current_path(before);
  CHECK(get(folder / "plain") == "x");
}

TEST_CASE("AtomicFile: without commit nothing happens") {
  const TemporaryFolder folder;
  put(folder / "out", "old");
  {
    AtomicFile file(folder / "out");
    file.write("half of the n");
  }
  CHECK(get(folder / "out") == "old");
  CHECK(folder.entries() == 1);
}

TEST_CASE("AtomicFile: two writers of one target do not disturb each other") {
  const TemporaryFolder folder;
  AtomicFile first(folder / "out"), second(folder / "out");
  first.write("first");
  second.write("second");
  second.commit();
  first.commit();
  CHECK(get(folder / "out") == "first");
  CHECK(folder.entries() == 1);
  CHECK_THROWS_WITH_AS(first.commit(), doctest::Contains("after commit or an error"), StateError);
  CHECK_THROWS_WITH_AS(first.write("more"), doctest::Contains("after commit or an error"),
                       StateError);
}

TEST_CASE("AtomicFile: files that a killed process left are passed over and stay") {
  const TemporaryFolder folder;
  std::string name;  // of a temporary file: the end is a number that counts up
  {
    const AtomicFile file(folder / "out");
    name = fs::directory_iterator(folder.path)->path().filename().string();
  }
  const size_t end = name.rfind('.') + 1;
  const int number = std::stoi(name.substr(end));
  for (int i = 1; i <= 5; ++i)
    put(folder / (name.substr(0, end) + std::to_string(number + i)).c_str(), "another's");
  write_file_atomic(folder / "out", "new");
  CHECK(get(folder / "out") == "new");
  CHECK(folder.entries() == 6);
  for (int i = 1; i <= 5; ++i)
    CHECK(get(folder / (name.substr(0, end) + std::to_string(number + i)).c_str()) == "another's");
}

TEST_CASE("AtomicFile: every fault before the rename leaves the old file and no other") {
  const TemporaryFolder folder;
  const std::string path = folder / "out";
  FileFaults& faults = file_faults();
  struct Row {
    FaultPoint& point;
    const char* text;
  };
  const Row rows[] = {{faults.open, "/out: cannot create: Permission denied"},
                      {faults.write, "out: cannot write: No space left on device"},
                      {faults.sync, "out: cannot write: Input/output error"},
                      {faults.rename, "cannot replace"}};
  for (const bool exists : {false, true}) {
    if (exists) put(path, "old");
    for (const Row& row : rows) {
      const ArmedFault fault(row.point, 1);
      CHECK_THROWS_WITH_AS(write_file_atomic(path, "new"), doctest::Contains(row.text), FileError);
      CHECK(fs::exists(path) == exists);
      if (exists) CHECK(get(path) == "old");
      CHECK(folder.entries() == (exists ? 1 : 0));
    }
  }
}

TEST_CASE("AtomicFile: a failed write cannot be committed") {
  const TemporaryFolder folder;
  AtomicFile file(folder / "out");
  {
    const ArmedFault fault(file_faults().write, 1);
    CHECK_THROWS_AS(file.write("lost"), FileError);
  }
  CHECK_THROWS_WITH_AS(file.commit(), doctest::Contains("after commit or an error"), StateError);
  CHECK(folder.entries() == 0);
}

TEST_CASE("AtomicFile: when the directory cannot be synced the target is the complete new file") {
  const TemporaryFolder folder;
  put(folder / "out", "old");
  const ArmedFault fault(file_faults().sync, 2);
  CHECK_THROWS_WITH_AS(write_file_atomic(folder / "out", "new"),
                       doctest::Contains(": cannot sync its directory: "), FileError);
  CHECK(get(folder / "out") == "new");
  CHECK(folder.entries() == 1);
}

/// Files of this process grow to `bytes` at most while it lives.
struct FileSizeLimit {
  explicit FileSizeLimit(rlim_t bytes) {
    REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
    const rlimit now = {bytes, before.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &now) == 0);
  }
  ~FileSizeLimit() { ::setrlimit(RLIMIT_FSIZE, &before); }
  rlimit before = {};
};

volatile std::sig_atomic_t g_signals = 0;

// SIGXFSZ would end the process, and this is a library: it neither dies nor changes what the
// program has arranged for the signal.
TEST_CASE("AtomicFile: a write over the limit on file sizes is an error, and no signal") {
  const TemporaryFolder folder;
  const std::string path = folder / "data", content(100000, 'x');
  put(path, "old");
  struct sigaction usual {
  }, count{}, before{}, after{};
  usual.sa_handler = SIG_DFL;
  REQUIRE(::sigaction(SIGXFSZ, &usual, &before) == 0);
  std::string message;
  {
    const FileSizeLimit limit(4096);
    try {
      write_file_atomic(path, content);
    } catch (const FileError& e) {
      message = e.message();
    }
  }
  CHECK(message == path + ": cannot write: File too large");
  CHECK(get(path) == "old");
  CHECK(folder.entries() == 1);

  count.sa_handler = [](int) { g_signals = g_signals + 1; };
  REQUIRE(::sigaction(SIGXFSZ, &count, &after) == 0);
  const bool kept = after.sa_handler == SIG_DFL;
  CHECK(kept);
  {
    const FileSizeLimit limit(4096);
    CHECK_THROWS_AS(write_file_atomic(path, content), FileError);
    CHECK(g_signals == 0);
    std::raise(SIGXFSZ);  // the program's own
    CHECK(g_signals == 1);
  }
  ::sigaction(SIGXFSZ, &before, nullptr);
}

TEST_CASE("AtomicFile: a signal that the program has put off still comes to it") {
  const TemporaryFolder folder;
  sigset_t one, before, waiting;
  sigemptyset(&one);
  sigaddset(&one, SIGXFSZ);
  REQUIRE(::pthread_sigmask(SIG_BLOCK, &one, &before) == 0);
  std::raise(SIGXFSZ);
  {
    const FileSizeLimit limit(4096);
    CHECK_THROWS_AS(write_file_atomic(folder / "data", std::string(100000, 'x')), FileError);
  }
  REQUIRE(::sigpending(&waiting) == 0);
  CHECK(sigismember(&waiting, SIGXFSZ) == 1);
  int taken = 0;
  CHECK(::sigwait(&one, &taken) == 0);
  REQUIRE(::sigpending(&waiting) == 0);
  CHECK(sigismember(&waiting, SIGXFSZ) == 0);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

TEST_CASE("files: interrupted and partial calls are continued") {
  const TemporaryFolder folder;
  const std::string path = folder / "out", content = "a content of some length";
  for (FaultPoint* point : {&file_faults().interrupted, &file_faults().partial}) {
    const ArmedFault fault(*point, 1, 3);
    write_file_atomic(path, content);
    CHECK(point->calls() >= 3);
    CHECK(get(path) == content);
    point->fail_at(1, 3);
    CHECK(read_file(path, 100) == content);
    point->fail_at(1, 3);
    std::string back(content.size(), ' ');
    InputFile(path).read(back.data(), static_cast<int64_t>(back.size()), 0);
    CHECK(back == content);
  }
}

TEST_CASE("files: read faults are errors") {
  const TemporaryFolder folder;
  put(folder / "data", "0123456789");
  {
    const ArmedFault fault(file_faults().read, 1, FaultPoint::kForever);
    CHECK_THROWS_WITH_AS(read_file(folder / "data", 100),
                         doctest::Contains("data: cannot read: Input/output error"), FileError);
    const InputFile file(folder / "data");
    char c;
    CHECK_THROWS_WITH_AS(file.read(&c, 1, 0), doctest::Contains("cannot read"), FileError);
  }
  const ArmedFault fault(file_faults().open, 1, FaultPoint::kForever);
  CHECK_THROWS_AS(read_file(folder / "data", 100), FileError);
  CHECK_THROWS_AS(InputFile file(folder / "data"), FileError);
}

// Runs `run` in a process that then ends as by a signal: no destructor.
template <class Run>
void in_a_process_that_is_killed(Run run) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    run();
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(status == 0);
}

TEST_CASE("temporary files: those of a process that ended are swept, and no others") {
  const TemporaryFolder folder;
  const std::string a = folder / "a", b = folder / "b";
  for (const std::string& path : {a, b}) in_a_process_that_is_killed([&] { new AtomicFile(path); });
  CHECK(folder.entries() == 2);
  sweep_temporary_files(folder.path, "a");
  CHECK(folder.entries() == 1);
  AtomicFile living(a);
  for (const char* name : {"a.tmp", "a.tmp1", "a.tmp1.x", "a.tmp.1", ".tmp1.1"})
    put(folder / name, "");
  CHECK(folder.entries() == 7);
  sweep_temporary_files(folder.path);
  CHECK(folder.entries() == 6);  // without b's
  living.write("new");
  living.commit();
  CHECK(get(a) == "new");
  CHECK_THROWS_AS(sweep_temporary_files(folder.path / "none"), FileError);
}

TEST_CASE("temporary files: a sweep takes no file that is just being made") {
  const TemporaryFolder folder;
  std::atomic<bool> over{false};
  std::thread sweeper([&] {
    while (!over) sweep_temporary_files(folder.path);
  });
  int taken = 0;
  for (int i = 0; i < 2'000; ++i) {
    const AtomicFile file(folder / "a");
    taken += folder.entries() == 0;
  }
  over = true;
  sweeper.join();
  CHECK(taken == 0);
}

// What goes wrong here only a sanitizer notices: a name that is read after another thread freed it.
TEST_CASE("temporary files: threads make and forget theirs at once") {
  const TemporaryFolder folder;
  std::vector<std::thread> threads;
  for (const char* const name : {"a", "b", "c", "d"}) {
    threads.emplace_back([&folder, name] {
      for (int i = 0; i < 2'000; ++i) AtomicFile(folder / name);
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(folder.entries() == 0);
}

TEST_CASE("temporary files: a handler of a signal removes those of its own process") {
  const TemporaryFolder folder;
  const std::string path = folder / "a";
  put(path, "old");
  AtomicFile file(path);
  file.write("new");
  in_a_process_that_is_killed([] { remove_temporary_files(); });
  CHECK(folder.entries() == 2);
  remove_temporary_files();
  CHECK(folder.entries() == 1);
  CHECK_THROWS_AS(file.commit(), FileError);
  CHECK(get(path) == "old");
  write_file_atomic(path, "newer");
  CHECK(get(path) == "newer");
  CHECK(folder.entries() == 1);
}

}  // namespace
}  // namespace lathe
