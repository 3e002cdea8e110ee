// The columns amp and cpu of the table in ops/README.md against what the ops do. The other columns
// are checked by tests/check_op_table.py, which also sees to it that every row has its line in
// op_rows_*.cpp.
#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "lathe/autograd/autocast.h"
#include "lathe/lathe.h"
#include "op_rows.h"

using namespace lathe;
using namespace lathe::test;

namespace {

/// All lines of op_rows.h.
std::vector<OpRow> all_rows() {
  std::vector<OpRow> rows;
  for (const auto part : {elementwise_rows(), shape_rows(), layer_rows()})
    rows.insert(rows.end(), part.begin(), part.end());
  return rows;
}

bool accepts(const OpRow& row, DType dtype) {
  try {
    row.f(ones({2, 2, 3, 3}, {.dtype = dtype}));
    return true;
  } catch (const DTypeError&) {
    return false;
  }
}

/// The word for the set of dtypes that an op accepts: "floats", "numbers" (and integers), "any"
/// (and bool); else the list.
std::string dtypes_of(const OpRow& row) {
  std::string list;
  for (const DType dtype : {kF16, kBF16, kF32, kF64, kU8, kI8, kI16, kI32, kI64, kBool}) {
    if (accepts(row, dtype)) list += concat(list.empty() ? "" : " ", dtype);
  }
  const std::string floats = "f16 bf16 f32 f64", numbers = floats + " u8 i8 i16 i32 i64";
  if (list == floats) return "floats";
  if (list == numbers) return "numbers";
  if (list == numbers + " bool") return "any";
  return list;
}

/// "half": f32 is computed in the scope's half type; "float": half types are computed in f32.
std::string amp_of(const OpRow& row, Device device, DType half) {
  const Autocast scope(device, half);
  if (!accepts(row, kF32)) return "";
  const auto result = [&](DType dtype) {
    return row.f(ones({2, 2, 3, 3}, {.dtype = dtype, .device = device})).dtype();
  };
  if (result(kF32) == half) return "half";
  return result(half) == kF32 ? "float" : "";
}

std::string trimmed(const std::string& text) {
  const size_t first = text.find_first_not_of(' ');
  return first == std::string::npos ? ""
                                    : text.substr(first, text.find_last_not_of(' ') - first + 1);
}

std::vector<std::string> split_at(const std::string& text, char mark) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, mark);) parts.push_back(trimmed(part));
  return parts;
}

struct Claim {
  std::string amp, cpu, cuda;
};

/// What the table says of each op. A row: | [conv2d](conv2d.h), … | grad | grad² | amp | cpu | ….
std::map<std::string, Claim> claims() {
  std::map<std::string, Claim> table;
  std::ifstream file(LATHE_OP_TABLE);
  REQUIRE_MESSAGE(file.good(), LATHE_OP_TABLE);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("| [")) continue;
    const auto cells = split_at(line, '|');
    REQUIRE_MESSAGE(cells.size() == 8, line);
    for (const std::string& name : split_at(cells[1], ',')) {
      const size_t end = name.find(']');
      table[end == std::string::npos ? name : name.substr(1, end - 1)] = {cells[4], cells[5],
                                                                          cells[6]};
    }
  }
  return table;
}
}  // namespace

TEST_CASE("op table: what it says of dtypes and autocast is what the ops do") {
  const auto table = claims();
  std::vector<Device> devices = {kCPU};
  if (cuda_is_available()) devices.emplace_back(DeviceType::kCUDA);
  for (const OpRow& row : all_rows()) {
    CAPTURE(row.op);
    const auto claim = table.find(row.op);
    REQUIRE_MESSAGE(claim != table.end(), "no row in ops/README.md");
    CHECK(dtypes_of(row) == claim->second.cpu);
    for (const Device device : devices) {
      if (device.is_cuda() && claim->second.cuda == "none") {
        const DType dtype = accepts(row, kF32) ? kF32 : kI8;
        CHECK_THROWS_AS(row.f(ones({2, 2, 3, 3}, {.dtype = dtype, .device = device})), DeviceError);
        continue;
      }
      for (const DType half : {kF16, kBF16}) {
        CAPTURE(half);
        CHECK(amp_of(row, device, half) == claim->second.amp);
      }
    }
  }
}

TEST_CASE("op table: what an op refuses it says under its own name") {
  for (const OpRow& row : all_rows()) {
    for (const DType dtype : {kF16, kF32, kU8, kI64, kBool}) {
      try {
        row.f(ones({2, 2, 3, 3}, dtype));
      } catch (const Error& e) {
        const bool passed_on = row.op == "resample";  // it has its caller's name
        CHECK_MESSAGE((passed_on || e.message().starts_with(row.op + ": ")), row.op, e.message());
      }
    }
  }
}

TEST_CASE("op table: each op opens a range of its name for the profiler") {
  // These ops work only where something changes; with a tensor that already is as wanted, as in
  // op_rows.h, they return it without a range.
  const OpRow kWithWork[] = {
      {"cast", [](T x) { return cast(x, kF64); }},
      {"contiguous", [](T x) { return contiguous(transpose(x, 0, 2)); }},
  };
  // Memory alone; each op that needs some takes it. And a copy from a device to itself.
  const std::set<std::string> silent{"empty", "empty_like", "from_blob", "to_device"};
  const auto ones_of = [](DType dtype) { return ones({2, 2, 3, 3}, {.dtype = dtype}); };
  const auto check = [&](const OpRow& row) {
    profile::Profiler profiler;
    row.f(ones_of(accepts(row, kF32) ? kF32 : accepts(row, kI64) ? kI64 : kI8));
    profiler.stop();
    CHECK_MESSAGE(profiler.key_averages().find(row.op) != nullptr, row.op);
  };
  for (const OpRow& row : kWithWork) check(row);
  for (const OpRow& row : all_rows()) {
    const bool no_work =
        std::ranges::any_of(kWithWork, [&](const OpRow& r) { return r.op == row.op; });
    if (!no_work && silent.count(row.op) == 0) check(row);
  }
}
