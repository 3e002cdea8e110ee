// Values of JSON with their kinds checked, and the tables of weights.
#include "lathe/graph/pt2/pt2_json.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "lathe/core/error.h"
#include "lathe/core/format.h"
#include "lathe/core/formats/safetensors_header.h"
#include "lathe/core/json_members.h"
#include "lathe/graph/pt2/pt2_schema.h"

namespace lathe::jit::pt2 {

using safetensors::in_quotes;

void wrong(const std::string& what, const std::string& why) {
  LATHE_FAIL(DataError, what, " ", why);
}

const Json* find(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

const Json& member(const Json& object, const char* key, const std::string& what) {
  const Json* const found = find(object, key);
  if (found == nullptr) wrong(what, concat("has no \"", key, "\""));
  return *found;
}

const Json& array(const Json& object, const char* key, const std::string& what) {
  const Json& out = member(object, key, what);
  if (!out.is_array()) wrong(what, concat("has a \"", key, "\" that is no list"));
  return out;
}

const std::string& text(const Json& value, const std::string& what) {
  if (!value.is_string()) wrong(what, "is no text");
  return value.get_ref<const std::string&>();
}

int64_t integer(const Json& value, const std::string& what) {
  const bool fits = value.is_number_integer() &&
                    (!value.is_number_unsigned() || value.get<uint64_t>() <= uint64_t{INT64_MAX});
  if (!fits) wrong(what, "is no 64-bit integer");
  return value.get<int64_t>();
}

bool boolean(const Json& value, const std::string& what) {
  if (!value.is_boolean()) wrong(what, "is neither true nor false");
  return value.get<bool>();
}

double real(const Json& value, const std::string& what) {
  if (value.is_number()) return value.get<double>();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (value == "Infinity") return kInfinity;
  if (value == "-Infinity") return -kInfinity;
  if (value == "NaN") return std::numeric_limits<double>::quiet_NaN();
  wrong(what, "is no number");
}

namespace {

constexpr std::pair<int64_t, DType> kDTypes[] = {{1, kU8},    {2, kI8},   {3, kI16}, {4, kI32},
                                                 {5, kI64},   {6, kF16},  {7, kF32}, {8, kF64},
                                                 {12, kBool}, {13, kBF16}};

}  // namespace

DType dtype(const Json& value, const std::string& what) {
  const int64_t number = integer(value, what);
  for (const auto& [known, type] : kDTypes) {
    if (known == number) return type;
  }
  wrong(what, concat("has PyTorch's dtype ", number, ", which has no counterpart here"));
}

int64_t number_of(DType dtype) {
  return std::ranges::find(kDTypes, dtype, &std::pair<int64_t, DType>::second)->first;
}

Format format(const Json& value, const std::string& what) {
  switch (const int64_t number = integer(value, what)) {
    case 1: return Format::kContiguous;
    case 2: return Format::kChannelsLast;
    case 4: return Format::kPreserve;
    default: wrong(what, concat("has PyTorch's memory format ", number, ", which is not known"));
  }
}

/// The only member of a union: {"as_int": 3}.
std::pair<std::string_view, const Json*> alternative(const Json& value, const std::string& what) {
  if (!value.is_object() || value.size() != 1) wrong(what, "is not one value with its kind");
  return {value.begin().key(), &value.begin().value()};
}

// A callback of the parser would do, but it takes time quadratic in the length of a list.
void check_depth(std::string_view json, const std::string& what) {
  constexpr int kMostDeep = 200;  // sub-graphs in sub-graphs need 70
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (c == '"') in_string = !in_string;
    if (in_string) {
      if (c == '\\') ++i;
      continue;
    }
    if (c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') --depth;
    if (depth > kMostDeep) wrong(what, concat("is nested more than ", kMostDeep, " deep"));
  }
}

Json parse_json(std::string_view json, const std::string& file) {
  check_depth(json, file);
  try {
    Json out = Json::parse(json);
    if (!out.is_object()) wrong(file, "is no JSON object");
    const std::optional<std::string> twice = doubled_member(json);
    if (twice) wrong(file + ":", in_quotes(*twice) + " appears twice");
    return out;
  } catch (const Json::exception& error) {
    wrong(file + ":", concat("damaged JSON, ", error.what()));
  }
}

namespace {

/// A size or stride that must be known: {"as_int": 3}.
int64_t known(const Json& value, const std::string& what) {
  const auto [kind, inner] = alternative(value, what);
  if (kind != "as_int") wrong(what, "is not known before the program runs");
  return integer(*inner, what);
}

}  // namespace

std::vector<Payload> parse_payloads(std::string_view json, std::string_view name) {
  const std::string file(name);
  const Json root = parse_json(json, file);
  std::vector<Payload> out;
  for (const auto& [key, entry] : member(root, "config", file).items()) {
    const std::string what = concat(file, ": ", in_quotes(key));
    const Json* const pickled = find(entry, "use_pickle");
    const Json* const meta = find(entry, "tensor_meta");
    if ((pickled != nullptr && boolean(*pickled, what)) || meta == nullptr) continue;
    Payload& payload = out.emplace_back();
    payload.name = key;
    payload.entry = text(member(entry, "path_name", what), what);
    payload.dtype = dtype(member(*meta, "dtype", what), what);
    const auto numbers = [&](const char* list) {
      const Json& items = array(*meta, list, what);
      if (items.size() > static_cast<size_t>(kMaxDims)) {
        wrong(what, concat("has ", items.size(), " dimensions, more than ", kMaxDims));
      }
      Dims dims;
      for (const Json& item : items) {
        dims.push_back(known(item, what));
        if (dims.back() < 0) wrong(what, concat("has a negative number among its ", list));
      }
      return dims;
    };
    payload.shape = numbers("sizes");
    payload.strides = numbers("strides");
    payload.offset = known(member(*meta, "storage_offset", what), what);
  }
  return out;
}

}  // namespace lathe::jit::pt2
