// The JSON of a .pt2 file. Internal to the pt2_….cpp that read or change it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "lathe/core/json.h"
#include "lathe/graph/pt2/pt2_schema.h"

namespace lathe::jit::pt2 {

using Json = nlohmann::json;

// `what` names the place in the file and begins the message.
// throws, every function: DataError.
[[noreturn]] void wrong(const std::string& what, const std::string& why);
/// Refuses a text nested so deep that what copies or writes its values would overflow the stack.
void check_depth(std::string_view json, const std::string& what);
/// The object of a text.
Json parse_json(std::string_view json, const std::string& file);
/// Null if there is none, or if it is JSON's null.
const Json* find(const Json& object, const char* key);
const Json& member(const Json& object, const char* key, const std::string& what);
const Json& array(const Json& object, const char* key, const std::string& what);
const std::string& text(const Json& value, const std::string& what);
int64_t integer(const Json& value, const std::string& what);
bool boolean(const Json& value, const std::string& what);
/// A number, or "Infinity", "-Infinity" or "NaN".
double real(const Json& value, const std::string& what);
/// Of PyTorch's number.
DType dtype(const Json& value, const std::string& what);
/// PyTorch's number of a dtype.
int64_t number_of(DType dtype);
Format format(const Json& value, const std::string& what);
/// The only member of a union: {"as_int": 3}.
std::pair<std::string_view, const Json*> alternative(const Json& value, const std::string& what);

}  // namespace lathe::jit::pt2
