// The text of tables, from rows made by hand.
#include <doctest/doctest.h>

#include <algorithm>

#include "lathe/profile/averages.h"
#include "lathe/profile/rates.h"
#include "lathe/profile/table.h"

namespace lathe::profile {
namespace {

Average row(const char* name, Kind kind, int64_t calls, int64_t self_ns, int64_t total_ns) {
  Average r;
  r.name = name;
  r.kind = kind;
  r.calls = calls;
  r.self_cpu_ns = self_ns;
  r.cpu_total_ns = total_ns;
  return r;
}

std::vector<Average> rows() {
  Average conv = row("conv2d", Kind::kOp, 20, 60'000'000, 61'000'000);
  conv.flops = 6'000'000'000;
  conv.bytes = 300'000'000;
  Average relu = row("relu", Kind::kOp, 10, 20'000'000, 20'000'000);
  relu.bytes = 200'000'000;
  Average view = row("view", Kind::kView, 5, 4'500, 4'500);
  Average wait = row("DataLoader.next", Kind::kData, 1, 19'995'500, 19'995'500);
  return {relu, view, conv, wait};
}

TEST_CASE("table: columns, order and rates of a table made by hand") {
  const std::string expected = R"(
---------------  ----------  --------  -----------  ---------  ------------  ----------  ------  -------  -----  ---------  --------
Name             Self CPU %  Self CPU  CPU total %  CPU total  CPU time avg  # of Calls  GFLOPs  GFLOP/s   GB/s  % of peak     Bound
---------------  ----------  --------  -----------  ---------  ------------  ----------  ------  -------  -----  ---------  --------
conv2d               60.00%  60.000ms       61.00%   61.000ms       3.050ms          20    6.00   100.00   5.00      50.0%   compute
relu                 20.00%  20.000ms       20.00%   20.000ms       2.000ms          10      --       --  10.00      50.0%    memory
DataLoader.next      20.00%  19.995ms       20.00%   19.995ms      19.995ms           1      --       --     --         --      data
view                  0.00%   4.500us        0.00%    4.500us       0.900us           5      --       --     --         --  overhead
---------------  ----------  --------  -----------  ---------  ------------  ----------  ------  -------  -----  ---------  --------
Self CPU time total: 100.000ms
)";
  CHECK("\n" + Averages(rows()).table({.peaks = {200e9, 20e9}}) == expected);
}

TEST_CASE("table: columns appear with what they show") {
  std::vector<Average> all = rows();
  const auto has = [&](const char* title) {
    return Averages(all).table().find(title) != std::string::npos;
  };
  for (const char* const title : {"CUDA", "Mem", "Input Shapes", "Source", "% of peak"})
    CHECK_MESSAGE(!has(title), title);
  all[0].device_total_ns = all[0].self_device_ns = 5'000;
  all[0].memory.host = -2048;
  all[0].memory.device = 1 << 20;
  all[0].inputs = "f32[2,2]";
  all[0].source = "train.cpp:12 (main)";
  for (const char* const title :
       {"Self CUDA %", "CUDA total", "CPU Mem", "Self CPU Mem", "CUDA Mem", "Input Shapes",
        "Source", "-2 KiB", "1 MiB", "f32[2,2]", "train.cpp:12 (main)",
        "Self CUDA time total: 5.000us"})
    CHECK_MESSAGE(has(title), title);
}

TEST_CASE("table: the most rows, and the column that orders them") {
  const auto first_names = [](const TableOptions& options) {
    const std::string text = Averages(rows()).table(options);
    std::vector<std::string> names;
    size_t at = 0;
    for (int line = 0; at < text.size(); ++line) {
      const size_t end = text.find('\n', at);
      const std::string name = text.substr(at, text.find(' ', at) - at);
      if (line >= 3 && name[0] != '-' && name != "Self") names.push_back(name);
      at = end + 1;
    }
    return names;
  };
  CHECK(first_names({.sort_by = SortBy::kCalls, .rows = 2}) ==
        std::vector<std::string>{"conv2d", "relu"});
  CHECK(first_names({.sort_by = SortBy::kCpuTime, .rows = 0}).size() == 4);
}

TEST_CASE("table: hostile names stay on their line and in their column") {
  std::vector<Average> all{row("a\nb\x1b[31m\"<b>\xe2\x80\xae\xff", Kind::kUser, 1, 1000, 1000),
                           row(std::string(200, 'x').c_str(), Kind::kUser, 1, 500, 500)};
  const std::string text = Averages(all).table();
  CHECK(text.find("a\\nb\\x1b[31m\"<b>\\u202e\\xff ") != std::string::npos);
  CHECK(text.find(std::string(52, 'x') + "...") != std::string::npos);
  CHECK(std::count(text.begin(), text.end(), '\n') == 7);
}

TEST_CASE("table: an empty recording is a table without rows") {
  const std::string text = Averages(std::vector<Average>{}).table();
  CHECK(text.find("Name") != std::string::npos);
  CHECK(text.find("Self CPU time total: 0.000us") != std::string::npos);
}

TEST_CASE("table: a narrow terminal gets the columns that say most") {
  const auto widest = [](const std::string& text) {
    size_t most = 0;
    for (size_t at = 0; at < text.size();) {
      const size_t end = text.find('\n', at);
      most = std::max(most, end - at);
      at = end + 1;
    }
    return most;
  };
  std::vector<Average> all = rows();
  all[0].memory.host = -2048;
  const TableOptions options{.peaks = {200e9, 20e9}};
  for (size_t width = 43; width < 200; ++width) {
    CAPTURE(width);
    const FittedTable table = fitted_table(Averages(all), options, static_cast<int>(width));
    CHECK(widest(table.text) <= width);
    CHECK(table.text.find("Self CPU %  Self CPU") != std::string::npos);
    CHECK(table.left_out.empty() == (table.text == Averages(all).table(options)));
  }
  const FittedTable at_80 = fitted_table(Averages(all), options, 80);
  CHECK(at_80.left_out == std::vector<std::string>{"Self CPU Mem", "CPU Mem", "CPU total %",
                                                   "CPU time avg", "GFLOPs", "CPU total", "GB/s"});
  CHECK(at_80.text.find("GFLOP/s  % of peak     Bound\n") != std::string::npos);
  CHECK(fitted_table(Averages(all), options, 0).left_out.empty());
  all[1].name = std::string(50, 'x');
  CHECK(widest(fitted_table(Averages(all), options, 60).text) == 60);  // the name is cut
  all[0].device_total_ns = all[0].self_device_ns = 5'000;  // then a GPU's times are what counts
  const FittedTable of_gpu = fitted_table(Averages(all), options, 60);
  CHECK(of_gpu.text.find("Self CUDA %") != std::string::npos);
  CHECK(of_gpu.text.find("Self CPU  ") == std::string::npos);
}

TEST_CASE("bound_of: what keeps a row from running faster") {
  const Peaks peaks{100e9, 10e9};  // 10 operations for each byte
  const auto bound = [&](Kind kind, int64_t flops, int64_t bytes, int64_t cpu, int64_t gpu) {
    Average r = row("r", kind, 1, cpu, cpu);
    r.flops = flops;
    r.bytes = bytes;
    r.self_device_ns = gpu;
    return std::string(bound_of(r, peaks));
  };
  CHECK(bound(Kind::kOp, 2'000'000, 100'000, 1'000'000, 0) == "compute");
  CHECK(bound(Kind::kOp, 500'000, 100'000, 1'000'000, 0) == "memory");
  CHECK(bound(Kind::kOp, 0, 100'000, 1'000'000, 0) == "memory");
  CHECK(bound(Kind::kOp, 0, 100, 900, 0) == "overhead");
  CHECK(bound(Kind::kOp, 2'000'000, 100'000, 20'000, 5'000) == "launch");
  CHECK(bound(Kind::kOp, 2'000'000, 100'000, 5'000, 20'000) == "compute");
  CHECK(bound(Kind::kView, 0, 0, 1'000'000, 0) == "overhead");
  CHECK(bound(Kind::kData, 0, 0, 1'000'000, 0) == "data");
  CHECK(bound(Kind::kSync, 0, 0, 1'000'000, 0) == "sync");
  CHECK(bound(Kind::kUser, 0, 0, 1'000'000, 0) == "");
}

TEST_CASE("rates_of: the larger share of the two peaks") {
  Average r = row("r", Kind::kOp, 1, 1'000'000, 1'000'000);
  r.flops = 50'000'000;
  r.bytes = 2'000'000;
  const Rates rates = rates_of(r, {100e9, 10e9});
  CHECK(rates.flops_per_second == doctest::Approx(50e9));
  CHECK(rates.bytes_per_second == doctest::Approx(2e9));
  CHECK(rates.of_peak == doctest::Approx(0.5));
  CHECK(rates_of(r, {}).of_peak == 0);
}

}  // namespace
}  // namespace lathe::profile
