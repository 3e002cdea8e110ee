// Traces: what a full disk does, and what hostile names look like. trace_python_test.py reads whole
// ones.
#include "lathe/profile/trace.h"

#include <doctest/doctest.h>

#include "lathe/core/error.h"
#include "lathe/core/files/file.h"
#include "lathe/core/log.h"
#include "lathe/tests/data/files.h"

namespace lathe::profile {
namespace {

using data::testing::read_file;
using data::testing::TempDir;

Recording one_range(const char* name) {
  Record record;
  record.name = name;
  record.begin_ns = 1'001'500;
  record.end_ns = 1'004'000;
  Recording recording;
  recording.begin_ns = 1'000'000;
  recording.threads.push_back({7, "main", {record}});
  return recording;
}

TEST_CASE("trace: names are escaped, times are microseconds since the begin") {
  const TempDir folder;
  const std::string path = (folder / "trace.json").string();
  write_trace(one_range("a\"b\\c\n\x01\xe2\x80\xae<script>\xff\xf0\x9f\x8c\xb2"), path);
  const std::string text = read_file(path);
  CHECK(text.find(R"("name":"a\"b\\c\\n\\x01\\u202e<script>\\xff)"
                  "\xf0\x9f\x8c\xb2\"") != std::string::npos);
  CHECK(text.find(R"("tid":7,"ts":1.500,"dur":2.500)") != std::string::npos);
}

TEST_CASE("trace: a full disk is a warning, and the file stays as it was") {
  const TempDir folder;
  const std::string path = (folder / "trace.json").string();
  write_file_atomic(path, "old");
  std::vector<std::string> lines;
  const LogHandler before =
      set_log_handler([&](LogLevel, std::string_view text) { lines.emplace_back(text); });
  {
    const ArmedFault full(file_faults().write, 1);
    CHECK_FALSE(try_write_trace(one_range("a"), path));
  }
  set_log_handler(before);
  CHECK(read_file(path) == "old");
  CHECK(data::testing::names_in(folder.path()) == std::vector<std::string>{"trace.json"});
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].find("the trace was not written: ") == 0);
  {
    const ArmedFault full(file_faults().sync, 1);
    CHECK_THROWS_AS(write_trace(one_range("a"), path), FileError);
  }
  CHECK(try_write_trace(one_range("a"), path));
}

TEST_CASE("trace: a kernel is a range of its stream, with an arrow from the range that queued it") {
  const TempDir folder;
  const std::string path = (folder / "trace.json").string();
  Recording recording = one_range("conv2d");
  recording.threads[0].records[0].id = 5;
  cuda::DeviceActivity kernel;
  kernel.name = "gemm<float>";
  kernel.device = 1;
  kernel.stream = 7;
  kernel.begin_ns = 1'010'000;
  kernel.end_ns = 1'012'500;
  kernel.range = 5;
  recording.activities = {kernel};
  write_trace(recording, path);
  const std::string text = read_file(path);
  CHECK(text.find(R"("name":"gemm<float>","cat":"gpu")") != std::string::npos);
  CHECK(text.find(R"("tid":200000007,"ts":10.000,"dur":2.500)") != std::string::npos);
  CHECK(text.find(R"("name":"GPU 1, stream 7")") != std::string::npos);
  CHECK(text.find(R"("ph":"s","name":"launch")") != std::string::npos);
}

TEST_CASE("trace: an empty recording is a trace without events") {
  const TempDir folder;
  const std::string path = (folder / "trace.json").string();
  write_trace({}, path);
  CHECK(read_file(path).find("\"ph\":\"X\"") == std::string::npos);
}

}  // namespace
}  // namespace lathe::profile
