#include "lathe/tools/cli/settings/config_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include <fstream>

#include "lathe/tests/cli/temporary_folder.h"
#include "lathe/tools/cli/exit_codes.h"
#include "lathe/tools/cli/settings/shared_config.h"

using namespace lathe::cli;

namespace {

std::string value_of(std::string_view line) { return parse_config(line, "f").at(0).value; }

}  // namespace

TEST_CASE("config: comments, quotes, lists, spaces") {
  const auto entries = parse_config("# a run\n\n  lr=0.1   # peak\r\nmodel = \"resnet20\"\n", "f");
  REQUIRE(entries.size() == 2);
  CHECK(entries[0].line == 3);
  CHECK(entries[0].key == "lr");
  CHECK(entries[0].value == "0.1");
  CHECK(entries[1].value == "resnet20");
  CHECK(value_of("a = 'c:\\new # not a comment'") == "c:\\new # not a comment");
  CHECK(value_of(R"(a = "tab\t \"q\" \\ # x" # comment)") == "tab\t \"q\" \\ # x");
  CHECK(value_of("a = [80, 120 , 'x']") == "80,120,x");
  CHECK(value_of("a = []") == "");
  CHECK(value_of("a = \"\"") == "");
  CHECK(value_of("a = 0:16") == "0:16");
  CHECK(parse_config("", "f").empty());
  CHECK(parse_config("\xef\xbb\xbf", "f").empty());
  CHECK(parse_config("\xef\xbb\xbflr = 0.1\r\n", "f").at(0).key == "lr");
  CHECK(with_value("\xef\xbb\xbflr = 0.1\r\n", "f", "lr", "2") == "\xef\xbb\xbflr = 2\r\n");
}

TEST_CASE("config: a text in quotes is one value, whatever it holds") {
  for (const std::string text :
       {"", "resnet20", "a\"\nlr = 9 # x", "c:\\new\ttab", "[1, 2]", "auto"}) {
    const auto entries = parse_config("model = " + config_string(text) + "\nlr = 0.1\n", "f");
    REQUIRE(entries.size() == 2);
    CHECK(entries[0].value == text);
  }
}

TEST_CASE("config: a file in UTF-16 is named as such") {
  using namespace std::string_view_literals;
  for (const std::string_view text : {"\xff\xfel\0r\0=\0001\0"sv, "\xfe\xff\0l\0r\0=\0001"sv,
                                      "l\0r\0=\0001\0"sv, "\0l\0r\0=\0001"sv}) {
    CHECK_THROWS_WITH_AS(parse_config(text, "run.toml"), "run.toml: is in UTF-16; save it as UTF-8",
                         UsageError);
  }
}

TEST_CASE("config: what is not of the form names file and line") {
  const auto fails = [](std::string_view text, const char* message) {
    CAPTURE(text);
    CHECK_THROWS_WITH_AS(parse_config(text, "run.toml"), message, UsageError);
  };
  fails("lr = 1\nlr = 2", "run.toml:2: lr is given twice");
  fails("batch-size = 1\nbatch_size = 2", "run.toml:2: batch_size is given twice");
  fails("[train]", "run.toml:1: sections are not used here: write key = value");
  fails("lr", "run.toml:1: expected = after lr");
  fails("lr =", "run.toml:1: expected a value; texts stand in quotes");
  fails("lr = 1 2", "run.toml:1: lr: unexpected text after the value");
  fails("lr = \"1", "run.toml:1: a \" is missing at the end");
  fails("lr = '1", "run.toml:1: a ' is missing at the end");
  fails("lr = \"\\x\"", "run.toml:1: only \\\" \\\\ \\n and \\t may follow a backslash");
  fails("lr = [1 2]", "run.toml:1: expected , or ] in a list");
  fails("= 1", "run.toml:1: expected key = value");
  fails(std::string_view("a\0b = 1", 7), "run.toml:1: expected = after a");
}

TEST_CASE("config: a file that cannot be read is a mistake in the call") {
  CHECK_THROWS_WITH_AS(read_config("/nonexistent/run.toml"),
                       doctest::Contains("/nonexistent/run.toml: cannot read the config file"),
                       UsageError);
  CHECK_THROWS_WITH_AS(read_config("/"), "/: cannot read the config file: Is a directory",
                       UsageError);
  CHECK_THROWS_WITH_AS(read_config("/dev/zero"),
                       "/dev/zero: cannot read the config file: it has more than 1048576 bytes",
                       UsageError);
  CHECK(read_config("/dev/null").empty());
}

TEST_CASE("config: a named pipe is refused, not waited for; a pipe of the shell is read") {
  const lathe::test::TemporaryFolder folder;
  const std::string named = (folder.path() / "fifo").string();
  REQUIRE(mkfifo(named.c_str(), 0600) == 0);
  const std::string message = named + ": cannot read the config file: it is a named pipe";
  CHECK_THROWS_WITH_AS(read_config(named), message.c_str(), UsageError);

  int ends[2];
  REQUIRE(pipe(ends) == 0);
  CHECK(write(ends[1], "lr = 1\n", 7) == 7);
  close(ends[1]);
  const auto entries = read_config("/dev/fd/" + std::to_string(ends[0]));
  close(ends[0]);
  REQUIRE(entries.size() == 1);
  CHECK(entries[0].key == "lr");
}

TEST_CASE("config: a pipe that gives nothing is a mistake, an empty file is none") {
  const lathe::test::TemporaryFolder folder;
  const std::string empty = (folder.path() / "empty.toml").string();
  std::ofstream(empty).close();
  CHECK(read_config(empty).empty());

  int ends[2];
  REQUIRE(pipe(ends) == 0);
  close(ends[1]);
  const std::string name = "/dev/fd/" + std::to_string(ends[0]);
  const std::string message = name + ": cannot read the config file: the pipe gave no data";
  CHECK_THROWS_WITH_AS(read_config(name), message.c_str(), UsageError);
  close(ends[0]);

  const std::string other_null = (folder.path() / "null").string();
  REQUIRE(symlink("/dev/null", other_null.c_str()) == 0);
  CHECK_THROWS_WITH_AS(read_config(other_null), doctest::Contains("it is empty"), UsageError);
}

TEST_CASE("config: ranks share a file, and neither a pipe nor what only one of them has open") {
  const lathe::test::TemporaryFolder folder;
  const std::string file = (folder.path() / "job.toml").string();
  std::ofstream(file).close();
  for (const std::string& path : {std::string(), file, std::string("/dev/null")})
    CHECK_NOTHROW(check_shared_config(path));

  const int open_file = open(file.c_str(), O_RDONLY | O_CLOEXEC);
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const std::string piped = (folder.path() / "piped").string();  // a name of it elsewhere
  REQUIRE(symlink(("/proc/self/fd/" + std::to_string(ends[0])).c_str(), piped.c_str()) == 0);
  for (const std::string& path :
       {"/dev/fd/" + std::to_string(open_file), "/proc/self/fd/" + std::to_string(open_file),
        "/dev/../dev/fd/" + std::to_string(open_file), std::string("/dev/stdin"), piped}) {
    const std::string message = "--config " + path + ": every rank reads the config file";
    CHECK_THROWS_WITH_AS(check_shared_config(path), doctest::Contains(message.c_str()), UsageError);
  }
  for (const int descriptor : {open_file, ends[0], ends[1]}) close(descriptor);
}

TEST_CASE("config file: one value is replaced, and all other bytes stay") {
  const std::string text =
      "# mine\r\nlr = 0.1  # of run 7\nbatch_size=\"128\"\n\nmilestones = [1, 2] # x";
  CHECK(with_value(text, "f", "lr", "0.05") ==
        "# mine\r\nlr = 0.05  # of run 7\nbatch_size=\"128\"\n\nmilestones = [1, 2] # x");
  CHECK(with_value(text, "f", "batch-size", "64") ==
        "# mine\r\nlr = 0.1  # of run 7\nbatch_size=64\n\nmilestones = [1, 2] # x");
  CHECK(with_value(text, "f", "milestones", "3") ==
        "# mine\r\nlr = 0.1  # of run 7\nbatch_size=\"128\"\n\nmilestones = 3 # x");
  CHECK(with_value(text, "f", "workers", "2") == text + "\nworkers = 2\n");
  CHECK(with_value("", "f", "lr", "1") == "lr = 1\n");
  CHECK(with_value("lr='a'", "f", "lr", "1") == "lr=1");
  CHECK(with_value("lr = 0.1\r\n", "f", "lr", "1") == "lr = 1\r\n");
  CHECK_THROWS_WITH_AS(with_value("lr = 1\nlr = 2\n", "f", "lr", "3"), "f:2: lr is given twice",
                       UsageError);
}
