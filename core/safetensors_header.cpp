// The JSON header of a safetensors file; see safetensors_header.h. It is read event by event (SAX):
// no tree is built, so a hostile header costs no more memory than the entries that it spells out.
#include "lathe/core/safetensors_header.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <unordered_set>

#include "lathe/core/checked_size.h"

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

/// Receives the header's tokens and accepts only the format's own structure.
class HeaderReader final : public json::json_sax_t {
 public:
  HeaderReader(std::string_view file, Header& out) : file_(file), out_(out) {}

  bool start_object(size_t) override {
    if (at_ == At::kStart) return go(At::kTop);
    if (at_ != At::kTop) return unexpected("an object");
    if (name_ == kMetadataName) return go(At::kMetadata);
    seen_ = 0;
    out_.entries.push_back({.name = name_});
    return go(At::kEntry);
  }

  bool key(std::string& text) override {
    if (at_ == At::kTop) {
      name_ = text;
      if (!names_.insert(text).second) fail("entry ", in_quotes(text), " appears twice");
    } else if (at_ == At::kMetadata) {
      metadata_key_ = text;
      if (out_.metadata.contains(text)) fail("metadata key ", in_quotes(text), " appears twice");
    } else {
      field_ = field_from(text);
      if (seen_ & field_)
        fail("entry ", in_quotes(name_), ": field ", in_quotes(text), " appears twice");
      seen_ |= field_;
    }
    return true;
  }

  bool end_object() override {
    if (at_ == At::kEntry) {
      const char* missing = !(seen_ & kDType)   ? "dtype"
                            : !(seen_ & kShape) ? "shape"
                            : !(seen_ & kRange) ? "data_offsets"
                                                : nullptr;
      if (missing != nullptr) fail("entry ", in_quotes(name_), " has no \"", missing, "\"");
    }
    return go(at_ == At::kTop ? At::kEnd : At::kTop);
  }

  bool start_array(size_t) override {
    if (at_ != At::kEntry || field_ == kDType) return unexpected("an array");
    range_size_ = 0;
    return go(At::kNumbers);
  }

  bool end_array() override {
    if (field_ == kRange && range_size_ != 2) {
      fail("entry ", in_quotes(name_), ": data_offsets has ", range_size_, " numbers instead of 2");
    }
    return go(At::kEntry);
  }

  bool number_unsigned(uint64_t value) override {
    if (at_ != At::kNumbers) return unexpected("a number");
    if (!std::in_range<int64_t>(value))
      fail("entry ", in_quotes(name_), ": ", value, " is too large");
    const auto number = static_cast<int64_t>(value);
    HeaderEntry& entry = out_.entries.back();
    if (field_ == kShape) {
      if (entry.shape.size() == kMaxDims) {
        fail("entry ", in_quotes(name_), " has more than ", kMaxDims, " dimensions");
      }
      entry.shape.push_back(number);
    } else {
      if (range_size_ == 0) entry.begin = number;
      if (range_size_ == 1) entry.end = number;
      ++range_size_;
    }
    return true;
  }

  bool string(std::string& text) override {
    if (at_ == At::kMetadata) {
      out_.metadata.emplace(metadata_key_, text);
      return true;
    }
    if (at_ != At::kEntry || field_ != kDType) return unexpected("a string");
    const auto found = std::ranges::find(kDTypeNames, text, &DTypeName::name);
    if (found == std::end(kDTypeNames)) {
      fail("entry ", in_quotes(name_), ": dtype ", in_quotes(text), " is not one that lathe has");
    }
    out_.entries.back().dtype = found->dtype;
    return true;
  }

  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("a boolean"); }
  bool number_integer(int64_t) override { return unexpected("a negative number"); }
  bool number_float(double, const std::string&) override { return unexpected("a fraction"); }
  bool binary(json::binary_t&) override { return unexpected("binary data"); }
  bool parse_error(size_t position, const std::string&, const json::exception&) override {
    fail("the header is not valid JSON at its byte ", position);
  }

 private:
  enum class At { kStart, kTop, kEntry, kNumbers, kMetadata, kEnd };
  enum Field : unsigned { kDType = 1, kShape = 2, kRange = 4 };

  bool go(At next) {
    at_ = next;
    return true;
  }

  Field field_from(std::string_view text) {
    if (text == "dtype") return kDType;
    if (text == "shape") return kShape;
    if (text == "data_offsets") return kRange;
    fail("entry ", in_quotes(name_), ": unknown field ", in_quotes(text));
  }

  [[noreturn]] bool unexpected(const char* what) {
    if (at_ == At::kStart) fail("the header is ", what, " instead of an object");
    fail(at_ == At::kMetadata ? "metadata " : "entry ",
         in_quotes(at_ == At::kMetadata ? metadata_key_ : name_), ": ", what,
         " where the format has none");
  }

  template <class... Args>
  [[noreturn]] void fail(const Args&... text) {
    LATHE_FAIL(DataError, file_, ": ", text...);
  }

  std::string_view file_;
  Header& out_;
  At at_ = At::kStart;
  std::string name_, metadata_key_;
  std::unordered_set<std::string> names_;
  Field field_ = kDType;  // of an entry: whose value comes next
  unsigned seen_ = 0;     // the entry's fields so far
  int range_size_ = 0;
};

/// Each entry's size fits its shape and dtype; together, in header.order, the entries tile [0,
/// data_bytes).
void check_ranges(Header& header, uint64_t data_bytes, std::string_view file) {
  for (const HeaderEntry& e : header.entries) {
    CheckedSize bytes =
        size_of(e.dtype);  // a size of 0 counts as 1 here: the other sizes must be sane, too
    for (const int64_t size : e.shape) bytes *= std::max<int64_t>(size, 1);
    const int64_t most = bytes.value_or_throw<DataError>(
        file, ": entry ", in_quotes(e.name), ": the size of ", e.dtype, e.shape, " overflows");
    const int64_t want = std::ranges::find(e.shape, 0) == e.shape.end() ? most : 0;
    LATHE_CHECK(DataError, e.begin <= e.end && e.end - e.begin == want, file, ": entry ",
                in_quotes(e.name), ": data_offsets [", e.begin, ",", e.end, "] do not hold the ",
                want, " bytes of ", e.dtype, e.shape);
  }
  header.order.resize(header.entries.size());
  std::iota(header.order.begin(), header.order.end(), size_t{0});
  std::ranges::stable_sort(header.order, {}, [&](size_t i) {
    return std::pair(header.entries[i].begin, header.entries[i].end);
  });
  int64_t at = 0;
  for (const size_t i : header.order) {
    const HeaderEntry& e = header.entries[i];
    LATHE_CHECK(DataError, e.begin == at, file, ": entry ", in_quotes(e.name), " begins at byte ",
                e.begin, " of the values, but the entry before it ends at ", at,
                e.begin < at ? " (overlap)" : " (hole)");
    at = e.end;
  }
  LATHE_CHECK(DataError, static_cast<uint64_t>(at) == data_bytes, file, ": the entries hold ", at,
              " bytes of values but the file holds ", data_bytes);
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

Header parse_header(std::string_view text, uint64_t data_bytes, std::string_view file) {
  LATHE_CHECK(DataError, text.starts_with('{'), file, ": the header does not begin with '{'");
  Header header;
  HeaderReader reader(file, header);
  json::sax_parse(text.begin(), text.end(), &reader);
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
