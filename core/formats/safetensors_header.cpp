// The JSON header of a safetensors file. It is read from left to right without building a tree: a
// hostile header costs no more memory than the entries that it spells out.
#include "lathe/core/formats/safetensors_header.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "lathe/core/checked_size.h"
#include "lathe/core/formats/json_cursor.h"
#include "lathe/core/json.h"

namespace lathe::safetensors {

namespace {

using nlohmann::json;

constexpr std::string_view kMetadataName = "__metadata__";

struct DTypeName {
  std::string_view name;
  DType dtype;
};
constexpr DTypeName kDTypeNames[] = {
    {"BOOL", kBool}, {"U8", kU8},   {"I8", kI8},     {"I16", kI16}, {"I32", kI32},
    {"I64", kI64},   {"F16", kF16}, {"BF16", kBF16}, {"F32", kF32}, {"F64", kF64},
};

const char* name_of(JsonKind kind) {
  switch (kind) {
    case JsonKind::kObject: return "an object";
    case JsonKind::kArray: return "an array";
    case JsonKind::kString: return "a string";
    case JsonKind::kUnsigned: return "a number";
    case JsonKind::kNegative: return "a negative number";
    case JsonKind::kFraction: return "a fraction";
    case JsonKind::kBoolean: return "a boolean";
    case JsonKind::kNull: return "null";
  }
  return "";
}

/// Reads the format's own structure and refuses everything else.
class HeaderReader {
 public:
  HeaderReader(std::string_view text, std::string_view file)
      : json_(text, concat(file, ": the header")), file_(file) {}

  Header read() {
    read_object([&](std::string_view name) {
      const bool is_metadata = name == kMetadataName;
      if (is_metadata && has_metadata_) fail("entry ", in_quotes(name), " appears twice");
      has_metadata_ |= is_metadata;
      name_ = name;
      check(JsonKind::kObject, "entry ", name_);
      is_metadata ? read_metadata() : read_entry();
    });
    json_.expect_end();
    return std::move(out_);
  }

 private:
  /// {"key": value, …}; calls `read_value` after each colon.
  template <class F>
  void read_object(F read_value) {
    json_.expect('{');
    if (json_.take('}')) return;
    std::string unescaped;
    do {
      const std::string_view key = json_.string(unescaped);
      json_.expect(':');
      read_value(key);
    } while (json_.take(','));
    json_.expect('}');
  }

  void read_metadata() {
    std::string unescaped;
    read_object([&](std::string_view key) {
      if (out_.metadata.contains(key)) fail("metadata key ", in_quotes(key), " appears twice");
      const std::string owned(key);
      check(JsonKind::kString, "metadata ", owned);
      const std::string_view value = json_.string(unescaped);
      std::string& text = out_.metadata[owned];
      value.data() == unescaped.data() ? text.swap(unescaped) : void(text = value);
    });
  }

  void read_entry() {
    HeaderEntry& entry = out_.entries.emplace_back();
    entry.name = name_;
    bool has_dtype = false, has_shape = false, has_range = false;
    const auto once = [&](bool& has, std::string_view field) {
      if (has) fail("entry ", in_quotes(name_), ": field ", in_quotes(field), " appears twice");
      has = true;
    };
    read_object([&](std::string_view field) {
      if (field == "dtype") {
        once(has_dtype, field);
        check(JsonKind::kString, "entry ", name_);
        entry.dtype = read_dtype();
      } else if (field == "shape") {
        once(has_shape, field);
        read_numbers([&](int64_t size) {
          if (entry.shape.size() == kMaxDims)
            fail("entry ", in_quotes(name_), " has more than ", kMaxDims, " dimensions");
          entry.shape.push_back(size);
        });
      } else if (field == "data_offsets") {
        once(has_range, field);
        int count = 0;
        read_numbers([&](int64_t offset) {
          if (count == 0) entry.begin = offset;
          if (count == 1) entry.end = offset;
          ++count;
        });
        if (count != 2)
          fail("entry ", in_quotes(name_), ": data_offsets has ", count, " numbers instead of 2");
      } else {
        fail("entry ", in_quotes(name_), ": unknown field ", in_quotes(field));
      }
    });
    const char* missing = !has_dtype   ? "dtype"
                          : !has_shape ? "shape"
                          : !has_range ? "data_offsets"
                                       : nullptr;
    if (missing != nullptr) fail("entry ", in_quotes(name_), " has no \"", missing, "\"");
  }

  DType read_dtype() {
    std::string unescaped;
    const std::string_view text = json_.string(unescaped);
    const auto found = std::ranges::find(kDTypeNames, text, &DTypeName::name);
    if (found == std::end(kDTypeNames))
      fail("entry ", in_quotes(name_), ": dtype ", in_quotes(text), " is not one that lathe has");
    return found->dtype;
  }

  template <class F>
  void read_numbers(F use) {
    check(JsonKind::kArray, "entry ", name_);
    json_.expect('[');
    if (json_.take(']')) return;
    do {
      check(JsonKind::kUnsigned, "entry ", name_);
      const uint64_t value = json_.number();
      if (!std::in_range<int64_t>(value))
        fail("entry ", in_quotes(name_), ": ", value, " is too large");
      use(static_cast<int64_t>(value));
    } while (json_.take(','));
    json_.expect(']');
  }

  /// Checks that the next value is of this kind.
  void check(JsonKind wanted, const char* of_what, const std::string& name) {
    const JsonKind kind = json_.kind();
    if (kind != wanted)
      fail(of_what, in_quotes(name), ": ", name_of(kind), " where the format has none");
  }

  template <class... Args>
  [[noreturn]] void fail(const Args&... text) {
    LATHE_FAIL(DataError, file_, ": ", text...);
  }

  JsonCursor json_;
  std::string_view file_;
  Header out_;
  std::string name_;  // of the current entry
  bool has_metadata_ = false;
};

void check_names(Header& header, std::string_view file) {
  const auto name = [&](size_t i) -> const std::string& { return header.entries[i].name; };
  std::ranges::sort(header.order, {}, name);
  const auto twice = std::ranges::adjacent_find(header.order, {}, name);
  LATHE_CHECK(DataError, twice == header.order.end(), file, ": entry ", in_quotes(name(*twice)),
              " appears twice");
}

/// Checks that each entry's size fits its shape and dtype, and that the entries in header.order
/// fill [0, data_bytes) without hole or overlap. Without data_bytes they may end anywhere.
void check_ranges(Header& header, std::optional<uint64_t> data_bytes, std::string_view file) {
  for (const HeaderEntry& e : header.entries) {
    // A size of 0 counts as 1 here, because the other sizes must be sane too.
    CheckedSize bytes = size_of(e.dtype);
    for (const int64_t size : e.shape) bytes *= std::max<int64_t>(size, 1);
    const int64_t most = bytes.value_or_throw<DataError>(
        file, ": entry ", in_quotes(e.name), ": the size of ", e.dtype, e.shape, " overflows");
    const int64_t want = std::ranges::find(e.shape, 0) == e.shape.end() ? most : 0;
    LATHE_CHECK(DataError, e.begin <= e.end && e.end - e.begin == want, file, ": entry ",
                in_quotes(e.name), ": data_offsets [", e.begin, ",", e.end, "] do not hold the ",
                want, " bytes of ", e.dtype, e.shape);
  }
  std::ranges::sort(header.order, {}, [&](size_t i) {
    return std::tuple(header.entries[i].begin, header.entries[i].end, i);
  });
  int64_t at = 0;
  for (const size_t i : header.order) {
    const HeaderEntry& e = header.entries[i];
    LATHE_CHECK(DataError, e.begin == at, file, ": entry ", in_quotes(e.name), " begins at byte ",
                e.begin, " of the values, but the entry before it ends at ", at,
                e.begin < at ? " (overlap)" : " (hole)");
    at = e.end;
  }
  const uint64_t found = data_bytes.value_or(static_cast<uint64_t>(at));
  LATHE_CHECK(DataError, static_cast<uint64_t>(at) == found, file, ": the entries hold ", at,
              " bytes of values but the file holds ", found);
}

std::string json_string(std::string_view text, const char* what) {
  try {
    return json(text).dump();
  } catch (const json::exception&) {
    LATHE_FAIL(ValueError, "safetensors: ", what, " ",
               json(text).dump(-1, ' ', false, json::error_handler_t::replace), " is not UTF-8");
  }
}

std::string_view name_in_file(DType dtype) {
  return std::ranges::find(kDTypeNames, dtype, &DTypeName::dtype)->name;
}

}  // namespace

std::string in_quotes(std::string_view text) {
  constexpr size_t kMost = 100;
  const bool cut = text.size() > kMost;
  return json(text.substr(0, kMost)).dump(-1, ' ', false, json::error_handler_t::replace) +
         (cut ? "…" : "");
}

Header parse_header(std::string_view text, std::optional<uint64_t> data_bytes,
                    std::string_view file) {
  LATHE_CHECK(DataError, text.starts_with('{'), file, ": the header does not begin with '{'");
  Header header = HeaderReader(text, file).read();
  header.order.resize(header.entries.size());
  std::iota(header.order.begin(), header.order.end(), size_t{0});
  check_names(header, file);
  check_ranges(header, data_bytes, file);
  return header;
}

std::string format_header(const StateDict& tensors, const Metadata& metadata,
                          std::vector<size_t>& order) {
  LATHE_CHECK(ValueError, !metadata.contains(kChecksumKey), "safetensors: metadata key \"",
              kChecksumKey, "\" is reserved");
  const auto entry = [&](size_t i) -> const StateDict::Entry& {
    return tensors.begin()[static_cast<std::ptrdiff_t>(i)];
  };
  order.resize(tensors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::greater{},
                           [&](size_t i) { return size_of(entry(i).second.dtype()); });
  std::vector<int64_t> begins(tensors.size());
  int64_t at = 0;
  for (const size_t i : order) {
    begins[i] = at;
    at += entry(i).second.bytes();
  }

  std::string out = concat(kChecksumStart, std::string(kChecksumDigits, '0'), "\"");
  for (const auto& [key, text] : metadata) {
    out += concat(",", json_string(key, "metadata key"), ":", json_string(text, "metadata"));
  }
  out += '}';
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto& [name, tensor] = entry(i);
    LATHE_CHECK(ValueError, name != kMetadataName, "safetensors: \"", name,
                "\" cannot be a tensor's name");
    out += concat(",", json_string(name, "name"), ":{\"dtype\":\"", name_in_file(tensor.dtype()),
                  "\",\"shape\":", tensor.shape(), ",\"data_offsets\":[", begins[i], ",",
                  begins[i] + tensor.bytes(), "]}");
  }
  out += '}';
  out.append((8 - out.size() % 8) % 8, ' ');
  LATHE_CHECK(ValueError, out.size() <= kMaxHeaderBytes, "safetensors: a header of ", out.size(),
              " bytes is above the format's limit of ", kMaxHeaderBytes);
  return out;
}

}  // namespace lathe::safetensors
