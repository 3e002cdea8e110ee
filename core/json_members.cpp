// A pass over a JSON text that builds nothing.
#include "lathe/core/json_members.h"

#include <set>
#include <utility>
#include <vector>

#include "lathe/core/json.h"

namespace lathe {
namespace {

using nlohmann::json;

/// The parser ends where one of these returns false.
class MemberFinder final : public nlohmann::json_sax<json> {
 public:
  std::optional<std::string> found = {};

  bool start_object(size_t /*members*/) override {
    open_.emplace_back();
    return true;
  }
  bool key(std::string& name) override {
    if (!open_.back().insert(name).second) found = name;
    return !found;
  }
  bool end_object() override {
    open_.pop_back();
    return true;
  }
  bool parse_error(size_t, const std::string&, const json::exception&) override { return false; }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(int64_t) override { return true; }
  bool number_unsigned(uint64_t) override { return true; }
  bool number_float(double, const std::string&) override { return true; }
  bool string(std::string&) override { return true; }
  bool binary(json::binary_t&) override { return true; }
  bool start_array(size_t) override { return true; }
  bool end_array() override { return true; }

 private:
  std::vector<std::set<std::string>> open_;  // the names so far of each object that has not ended
};

}  // namespace

std::optional<std::string> doubled_member(std::string_view json_text) {
  MemberFinder finder;
  json::sax_parse(json_text, &finder);
  return std::move(finder.found);
}

}  // namespace lathe
