// Kernels' code in a folder. What is there is executed, so these cases ask what is not read, and
// what a planted file or link can do.
#include "lathe/graph/kernel_folder.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "lathe/core/log.h"
#include "lathe/tests/cli/temporary_folder.h"

using namespace lathe;
namespace fs = std::filesystem;

namespace {

const std::string kName(64, 'a');
const std::string kCode("code\0 of a kernel\n", 18);

struct Warnings {
  Warnings() {
    before = set_log_handler([this](LogLevel, std::string_view text) { all.emplace_back(text); });
  }
  ~Warnings() { set_log_handler(before); }

  LogHandler before;
  std::vector<std::string> all;
};

fs::perms mode_of(const fs::path& path) { return fs::status(path).permissions(); }

void check_refused(const std::string& folder, const char* reason) {
  const Warnings warnings;
  CHECK(jit::kept_code(folder, kName) == std::nullopt);
  jit::keep_code(folder, kName, "other");
  jit::keep_code(folder, kName, "other");
  REQUIRE(warnings.all.size() == 1);  // once for each folder
  CHECK(warnings.all[0].find(reason) != std::string::npos);
}

}  // namespace

TEST_CASE("kernel folder: files that a killed process left are passed over and stay") {
  const test::TemporaryFolder temporary;
  const Warnings warnings;
  const std::string folder = (temporary.path() / "kernels").string();
  jit::keep_code(folder, kName, kCode);  // makes the folder
  fs::remove(fs::path(folder) / (kName + ".kernel"));
  constexpr int kLeft = 60;  // the program's own counter is somewhere at the beginning of these
  for (int i = 0; i < kLeft; ++i) {
    const std::string left =
        kName + ".kernel.tmp" + std::to_string(getpid()) + "." + std::to_string(i);
    std::ofstream(fs::path(folder) / left) << "another's";
  }
  jit::keep_code(folder, kName, kCode);
  CHECK(warnings.all.empty());
  CHECK(jit::kept_code(folder, kName) == kCode);
  CHECK(std::distance(fs::directory_iterator(folder), fs::directory_iterator()) == kLeft + 1);
}

TEST_CASE("kernel folder: what is kept is read again, and only its owner has access") {
  const test::TemporaryFolder temporary;
  const Warnings warnings;
  const fs::path folder = temporary.path() / "a" / "kernels";
  CHECK(jit::kept_code(folder, kName) == std::nullopt);
  CHECK(!fs::exists(folder));
  const mode_t before = umask(0);
  jit::keep_code(folder.string() + "/", kName, kCode);
  umask(before);
  CHECK(mode_of(folder) == fs::perms::owner_all);
  CHECK(mode_of(folder / (kName + ".kernel")) == (fs::perms::owner_read | fs::perms::owner_write));
  CHECK(jit::kept_code(folder, kName) == kCode);
  jit::keep_code(folder, kName, "");
  CHECK(jit::kept_code(folder, kName) == "");
  CHECK(std::distance(fs::directory_iterator(folder), {}) == 1);
  CHECK(warnings.all.empty());
}

TEST_CASE("kernel folder: nothing is read from, or written to, what others may write or own") {
  const test::TemporaryFolder temporary;
  for (const fs::perms mode : {fs::perms::group_write, fs::perms::others_write}) {
    const fs::path folder = temporary.path() / std::to_string(static_cast<int>(mode));
    jit::keep_code(folder, kName, kCode);
    fs::permissions(folder, mode, fs::perm_options::add);
    check_refused(folder, "others than its owner may write there");
    fs::permissions(folder, mode, fs::perm_options::remove);
    CHECK(jit::kept_code(folder, kName) == kCode);
  }
  if (geteuid() != 0) return check_refused("/usr", "it belongs to another user (0)");
  const fs::path folder = temporary.path() / "foreign";
  jit::keep_code(folder, kName, kCode);
  REQUIRE(chown(folder.c_str(), 12345, 12345) == 0);
  check_refused(folder, "it belongs to another user (12345)");
}

TEST_CASE("kernel folder: a planted link or file is not used, and is replaced") {
  const test::TemporaryFolder temporary;
  const fs::path folder = temporary.path() / "kernels", file = folder / (kName + ".kernel");
  jit::keep_code(folder, kName, kCode);
  const fs::path target = temporary.path() / "target";
  fs::rename(file, target);  // its content is right: only that it is a link speaks against it
  fs::create_symlink(target, file);
  const std::string content = temporary.read("target");
  {
    const Warnings warnings;
    CHECK(jit::kept_code(folder, kName) == std::nullopt);
    REQUIRE(warnings.all.size() == 1);
    CHECK(warnings.all[0].find("a symbolic link; its kernel") != std::string::npos);
  }
  jit::keep_code(folder, kName, "other");
  CHECK(temporary.read("target") == content);
  CHECK(!fs::is_symlink(file));
  CHECK(jit::kept_code(folder, kName) == "other");

  const Warnings warnings;
  const std::string name(64, 'b');
  const fs::path open = folder / (name + ".kernel");
  fs::copy_file(file, open);
  fs::permissions(open, fs::perms::group_write, fs::perm_options::add);
  CHECK(jit::kept_code(folder, name) == std::nullopt);
  const std::string pipe(64, 'c');
  REQUIRE(mkfifo((folder / (pipe + ".kernel")).c_str(), 0600) == 0);
  CHECK(jit::kept_code(folder, pipe) == std::nullopt);
  CHECK(warnings.all.size() == 2);
  for (const std::string& each : {name, pipe}) {
    jit::keep_code(folder, each, kCode);
    CHECK(jit::kept_code(folder, each) == kCode);
  }
}

TEST_CASE("kernel folder: the oldest go, and what is not a kernel stays") {
  const test::TemporaryFolder folder;
  const auto name_of = [](int i) {
    std::string digits = std::to_string(i);
    return std::string(64 - digits.size(), '0') + digits;
  };
  folder.write("notes.kernel", "mine");
  for (int i = 0; i < 1024; ++i) {
    const fs::path path = folder.write(name_of(i) + ".kernel", "");
    fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(i + 1));
  }
  jit::keep_code(folder.path(), kName, kCode);
  CHECK(!fs::exists(folder.path() / (name_of(1023) + ".kernel")));
  CHECK(fs::exists(folder.path() / (name_of(1022) + ".kernel")));
  CHECK(folder.read("notes.kernel") == "mine");
  CHECK(jit::kept_code(folder.path(), kName) == kCode);
}
