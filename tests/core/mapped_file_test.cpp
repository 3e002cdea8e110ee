// Mapped files: what they hold, and that a file cut off under a reader is an error and no end of
// the process.
#include "lathe/core/files/mapped_file.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "../data/files.h"
#include "lathe/core/error.h"

namespace lathe {
namespace {

using data::testing::message_of;
using data::testing::TempDir;
using data::testing::write_file;

std::string text_of(const MappedFile& file, int64_t offset, int64_t count) {
  std::string text;
  file.read(offset, count, [&](const std::byte* bytes) {
    text.assign(reinterpret_cast<const char*>(bytes), static_cast<size_t>(count));
  });
  return text;
}

void cut(const std::filesystem::path& path, int64_t size) {
  REQUIRE(::truncate(path.c_str(), size) == 0);
}

TEST_CASE("mapped file: the bytes of the file, at any place") {
  const TempDir dir;
  std::string content(3 * 4096 + 17, 'x');
  for (size_t k = 0; k < content.size(); ++k) content[k] = static_cast<char>(k * 31);
  write_file(dir / "f", content);
  const MappedFile file(dir / "f");
  const auto size = static_cast<int64_t>(content.size());
  CHECK(file.size() == size);
  CHECK(text_of(file, 0, size) == content);
  CHECK(text_of(file, 4095, 2) == content.substr(4095, 2));
  CHECK(text_of(file, size, 0).empty());
  CHECK(text_of(file, 0, 1) == content.substr(0, 1));  // a zero: the file's size was asked for
}

TEST_CASE("mapped file: what cannot be opened, or is not there, is named") {
  const TempDir dir;
  write_file(dir / "empty", "");
  write_file(dir / "f", "abc");
  CHECK(MappedFile(dir / "empty").size() == 0);
  CHECK(text_of(MappedFile(dir / "empty"), 0, 0).empty());
  CHECK(message_of<FileError>([&] { MappedFile(dir / "none"); }).find("No such file") !=
        std::string::npos);
  CHECK(message_of<FileError>([&] { MappedFile(dir.path()); }).find("not a regular file") !=
        std::string::npos);
  const MappedFile file(dir / "f");
  for (const auto& [offset, count] :
       {std::pair<int64_t, int64_t>{0, 4}, {3, 1}, {4, 0}, {-1, 2}, {1, -1}, {2, INT64_MAX}}) {
    CAPTURE(offset);
    CAPTURE(count);
    CHECK(message_of<FileError>([&] { text_of(file, offset, count); }).find("but it has 3") !=
          std::string::npos);
  }
}

TEST_CASE("mapped file: cut off at any place, what is left is read and what is gone is an error") {
  const TempDir dir;
  constexpr int64_t kSize = 3 * 4096;
  for (const int64_t left : {0, 1, 4095, 4096, 4097, 8191, 8192, 12287}) {
    CAPTURE(left);
    write_file(dir / "f", std::string(kSize, 'x'));
    const MappedFile file(dir / "f");
    CHECK(text_of(file, 0, kSize) == std::string(kSize, 'x'));
    cut(dir / "f", left);
    for (const auto& [offset, count] : {std::pair<int64_t, int64_t>{0, kSize},
                                        {left, 1},
                                        {left / 2, left - left / 2 + 1},
                                        {kSize - 1, 1}}) {
      CAPTURE(offset);
      const std::string message = message_of<FileError>([&] { text_of(file, offset, count); });
      CHECK(message.find("was cut off while it was in use") != std::string::npos);
      CHECK(message.find(concat("has ", left, " bytes instead of 12288")) != std::string::npos);
    }
    CHECK(text_of(file, 0, left) == std::string(static_cast<size_t>(left), 'x'));
    cut(dir / "f", kSize);  // grows again, with zeros: what was replaced stays an error
    if (left <= 8192)
      CHECK(message_of<FileError>([&] { text_of(file, 8192, 4096); }).find("cannot be read") !=
            std::string::npos);
  }
}

TEST_CASE("mapped file: a reader that looks at one byte only still learns of the cut") {
  const TempDir dir;
  write_file(dir / "f", std::string(8192, 'x'));
  const MappedFile file(dir / "f");
  cut(dir / "f", 6000);
  char seen = 0;
  const auto first_byte = [&](const std::byte* bytes) { seen = static_cast<char>(bytes[0]); };
  CHECK_THROWS_AS(file.read(4096, 4096, first_byte), FileError);  // in the last page that is left
  CHECK(seen == 'x');
  CHECK_THROWS_AS(file.read(0, 8192, first_byte), FileError);
  file.read(4096, 1904, first_byte);
}

TEST_CASE("mapped file: threads that read while it is cut off see its bytes or an error") {
  const TempDir dir;
  constexpr int64_t kRecord = 512, kRecords = 256;
  write_file(dir / "f", std::string(kRecord * kRecords, 'x'));
  const MappedFile file(dir / "f");
  std::atomic<int> wrong{0}, errors{0}, started{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      // Until each has met the cut; a record before it stays readable.
      for (int64_t k = 0, met = 0; met < kRecords && k < 1'000'000; ++k) {
        if (k == kRecords) ++started;
        try {
          const std::string record = text_of(file, (k * 7 + t) % kRecords * kRecord, kRecord);
          if (record != std::string(kRecord, 'x')) ++wrong;
        } catch (const FileError&) {
          ++errors, ++met;
        }
      }
    });
  }
  while (started == 0) std::this_thread::yield();
  cut(dir / "f", 1000);
  for (auto& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(errors == 3 * kRecords);
  CHECK_THROWS_AS(text_of(file, 1000, 1), FileError);
}

TEST_CASE("mapped file: a bus error elsewhere ends the process as before") {
  const TempDir dir;
  write_file(dir / "f", std::string(4096, 'x'));
  const MappedFile file(dir / "f");  // the handler is installed
  const int descriptor = ::open((dir / "f").c_str(), O_RDONLY);
  const void* other = ::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, descriptor, 0);
  REQUIRE(other != MAP_FAILED);
  cut(dir / "f", 0);
  for (const bool by_access : {true, false}) {
    CAPTURE(by_access);
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      ::close(STDERR_FILENO);  // a sanitizer would report what is meant to happen
      if (!by_access) ::raise(SIGBUS);
      static_cast<void>(*static_cast<const volatile char*>(other));
      ::_exit(0);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK((!WIFEXITED(status) || WEXITSTATUS(status) != 0));
  }
  ::munmap(const_cast<void*>(other), 4096);
  ::close(descriptor);
}

}  // namespace
}  // namespace lathe
