// Averages as a table for people: torch.profiler's columns, then the achieved rates.
#include "lathe/profile/table.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <tuple>

#include "lathe/core/printable.h"
#include "lathe/profile/rates.h"

namespace lathe::profile {

namespace {

/// The same in every locale.
std::string number_text(double value, int digits) {
  char text[64];
  const auto end = std::to_chars(text, text + sizeof text, value, std::chars_format::fixed, digits);
  return end.ec == std::errc() ? std::string(text, end.ptr) : "--";
}

/// "12.345us", "1.234ms", "2.500s", as torch.profiler writes times.
std::string time_text(int64_t ns) {
  const auto us = static_cast<double>(ns) / 1e3;
  if (std::abs(us) >= 1e6) return number_text(us / 1e6, 3) + "s";
  if (std::abs(us) >= 1e3) return number_text(us / 1e3, 3) + "ms";
  return number_text(us, 3) + "us";
}

std::string percent_text(int64_t part, int64_t whole) {
  return number_text(
             whole == 0 ? 0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole), 2) +
         "%";
}

std::string bytes_text(int64_t bytes) {
  const std::string text = readable_bytes(static_cast<uint64_t>(std::abs(bytes)));
  return bytes < 0 ? "-" + text : text;
}

/// The number of characters, for padding: bytes that do not continue a UTF-8 sequence.
size_t width_of(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0u) != 0x80u; }));
}

/// The first `width` characters, "..." at the end of a longer text.
std::string cut(const std::string& text, size_t width) {
  if (width_of(text) <= width) return text;
  size_t shown = 0, at = 0;
  const auto continues = [&] { return (static_cast<unsigned char>(text[at]) & 0xc0u) == 0x80u; };
  while (shown + 3 < width) {
    ++at;
    while (at < text.size() && continues()) ++at;
    ++shown;
  }
  return text.substr(0, at) + "...";
}

struct Column {
  std::string title;
  std::function<std::string(const Average&)> text;
};

/// What the rows have, so that empty columns are left out.
struct Content {
  bool device = false, memory = false, device_memory = false, inputs = false, source = false;
  bool flops = false, bytes = false, bound = false;
  int64_t cpu_ns = 0, device_ns = 0;

  explicit Content(const std::vector<Average>& rows) {
    for (const Average& row : rows) {
      device |= row.device_total_ns > 0;
      memory |= row.memory.host != 0 || row.self_memory.host != 0;
      device_memory |= row.memory.device != 0 || row.self_memory.device != 0;
      inputs |= !row.inputs.empty();
      source |= !row.source.empty();
      flops |= row.flops > 0;
      bytes |= row.bytes > 0;
      bound |= !bound_of(row, {}).empty();
      cpu_ns += row.self_cpu_ns;
      device_ns += row.self_device_ns;
    }
  }
};

void add_times(std::vector<Column>& columns, const Content& has) {
  const auto add = [&](const char* title, auto text) { columns.push_back({title, text}); };
  add("Self CPU %", [has](const Average& r) { return percent_text(r.self_cpu_ns, has.cpu_ns); });
  add("Self CPU", [](const Average& r) { return time_text(r.self_cpu_ns); });
  add("CPU total %", [has](const Average& r) { return percent_text(r.cpu_total_ns, has.cpu_ns); });
  add("CPU total", [](const Average& r) { return time_text(r.cpu_total_ns); });
  add("CPU time avg",
      [](const Average& r) { return time_text(r.cpu_total_ns / std::max<int64_t>(r.calls, 1)); });
  if (!has.device) return;
  add("Self CUDA", [](const Average& r) { return time_text(r.self_device_ns); });
  add("Self CUDA %",
      [has](const Average& r) { return percent_text(r.self_device_ns, has.device_ns); });
  add("CUDA total", [](const Average& r) { return time_text(r.device_total_ns); });
  add("CUDA time avg", [](const Average& r) {
    return time_text(r.device_total_ns / std::max<int64_t>(r.calls, 1));
  });
}

void add_work(std::vector<Column>& columns, const Content& has, const Peaks& peaks) {
  const auto add = [&](const char* title, auto text) { columns.push_back({title, text}); };
  const auto rate = [](double value) { return value == 0 ? "--" : number_text(value / 1e9, 2); };
  if (has.flops) {
    add("GFLOPs", [rate](const Average& r) { return rate(static_cast<double>(r.flops)); });
    add("GFLOP/s", [=](const Average& r) { return rate(rates_of(r, peaks).flops_per_second); });
  }
  if (has.bytes)
    add("GB/s", [=](const Average& r) { return rate(rates_of(r, peaks).bytes_per_second); });
  if (peaks.flops_per_second > 0 || peaks.bytes_per_second > 0) {
    add("% of peak", [=](const Average& r) {
      const double share = rates_of(r, peaks).of_peak;
      return share == 0 ? "--" : number_text(100 * share, 1) + "%";
    });
  }
  if (has.bound) add("Bound", [=](const Average& r) { return std::string(bound_of(r, peaks)); });
}

std::vector<Column> columns_of(const Content& has, const TableOptions& options) {
  std::vector<Column> columns;
  const auto add = [&](const char* title, auto text) { columns.push_back({title, text}); };
  add("Name",
      [width = options.name_width](const Average& r) { return cut(printable(r.name), width); });
  add_times(columns, has);
  if (has.memory) {
    add("CPU Mem", [](const Average& r) { return bytes_text(r.memory.host); });
    add("Self CPU Mem", [](const Average& r) { return bytes_text(r.self_memory.host); });
  }
  if (has.device_memory) {
    add("CUDA Mem", [](const Average& r) { return bytes_text(r.memory.device); });
    add("Self CUDA Mem", [](const Average& r) { return bytes_text(r.self_memory.device); });
  }
  add("# of Calls", [](const Average& r) { return concat(r.calls); });
  add_work(columns, has, options.peaks);
  if (has.inputs) add("Input Shapes", [](const Average& r) { return cut(r.inputs, 80); });
  if (has.source) add("Source", [](const Average& r) { return cut(printable(r.source), 75); });
  return columns;
}

int64_t key_of(const Average& row, SortBy by) {
  switch (by) {
    case SortBy::kCpuTime: return row.cpu_total_ns;
    case SortBy::kSelfDeviceTime: return row.self_device_ns;
    case SortBy::kDeviceTime: return row.device_total_ns;
    case SortBy::kCalls: return row.calls;
    case SortBy::kSelfMemory: return row.self_memory.host + row.self_memory.device;
    case SortBy::kFlops: return row.flops;
    case SortBy::kSelfCpuTime: break;
  }
  return row.self_cpu_ns;
}

using Lines = std::vector<std::vector<std::string>>;

std::vector<size_t> widths_of(const Lines& lines) {
  std::vector<size_t> widths(lines.front().size());
  for (const auto& line : lines) {
    for (size_t c = 0; c < line.size(); ++c) widths[c] = std::max(widths[c], width_of(line[c]));
  }
  return widths;
}

constexpr size_t kGap = 2;  // columns between two columns

/// The columns that may be left out, in this order. Those of the CPU's own time stay where there is
/// no other.
constexpr std::string_view kLeftOutFirst[] = {
    "Source",     "Input Shapes", "Self CUDA Mem", "CUDA Mem",      "Self CPU Mem",
    "CPU Mem",    "CPU total %",  "CPU time avg",  "CUDA time avg", "GFLOPs",
    "CPU total",  "CUDA total",   "GB/s",          "GFLOP/s",       "# of Calls",
    "Self CPU %", "Bound",        "% of peak",     "Self CPU"};

/// Leaves out columns until `width` has room for the others, and then cuts names.
/// → the titles of the columns that are left out
std::vector<std::string> fit(Lines& lines, size_t width, bool has_device) {
  constexpr size_t kShortestName = 20;
  std::vector<std::string> left_out;
  const auto room_for_names = [&] {  // less than 0: too many columns
    const std::vector<size_t> widths = widths_of(lines);
    auto room = static_cast<int64_t>(width);
    for (size_t c = 1; c < widths.size(); ++c) room -= static_cast<int64_t>(widths[c] + kGap);
    return room;
  };
  const auto fits = [&] {
    return room_for_names() >= static_cast<int64_t>(widths_of(lines).front());
  };
  for (const std::string_view title : kLeftOutFirst) {
    if (fits()) return left_out;
    if (!has_device && title.starts_with("Self CPU") && !title.ends_with("Mem")) continue;
    const auto at = std::ranges::find(lines.front(), title) - lines.front().begin();
    if (at == std::ssize(lines.front())) continue;
    left_out.emplace_back(title);
    for (auto& line : lines) line.erase(line.begin() + at);
  }
  const auto room = std::max<int64_t>(room_for_names(), kShortestName);
  for (auto& line : lines) line.front() = cut(line.front(), static_cast<size_t>(room));
  return left_out;
}

/// The lines of a table: names to the left, all else to the right, rules above and below.
std::string laid_out(const Lines& lines) {
  const std::vector<size_t> widths = widths_of(lines);
  std::string rule, text;
  for (const size_t width : widths) rule += std::string(width, '-') + std::string(kGap, ' ');
  rule.resize(rule.size() - kGap);
  const std::string break_line = rule + "\n";
  text += break_line;
  for (size_t l = 0; l < lines.size(); ++l) {
    std::string line;
    for (size_t c = 0; c < widths.size(); ++c) {
      const std::string space(widths[c] - width_of(lines[l][c]), ' ');
      line += c == 0 ? lines[l][c] + space : std::string(kGap, ' ') + space + lines[l][c];
    }
    text += line + "\n";
    if (l == 0) text += break_line;
  }
  return text + break_line;
}

}  // namespace

FittedTable fitted_table(const Averages& averages, const TableOptions& options, int width) {
  const Content has(averages.rows());
  std::vector<const Average*> order;
  for (const Average& row : averages.rows()) order.push_back(&row);
  std::ranges::sort(order, [&](const Average* a, const Average* b) {
    const int64_t ka = key_of(*a, options.sort_by), kb = key_of(*b, options.sort_by);
    return ka != kb
               ? ka > kb
               : std::tie(a->name, a->inputs, a->source) < std::tie(b->name, b->inputs, b->source);
  });
  if (options.rows > 0 && std::ssize(order) > options.rows)
    order.resize(static_cast<size_t>(options.rows));
  const std::vector<Column> columns = columns_of(has, options);
  Lines lines(1);
  for (const Column& column : columns) lines[0].push_back(column.title);
  for (const Average* row : order) {
    auto& line = lines.emplace_back();
    for (const Column& column : columns) line.push_back(column.text(*row));
  }
  FittedTable table;
  if (width > 0) table.left_out = fit(lines, static_cast<size_t>(width), has.device);
  table.text = laid_out(lines);
  table.text += "Self CPU time total: " + time_text(has.cpu_ns) + "\n";
  if (has.device) table.text += "Self CUDA time total: " + time_text(has.device_ns) + "\n";
  return table;
}

std::string Averages::table(const TableOptions& options) const {
  return fitted_table(*this, options, 0).text;
}

}  // namespace lathe::profile
