// The messages between ranks: limits, proofs, parsing.
#include "lathe/distributed/control.h"

#include <algorithm>
#include <random>

#include "lathe/core/files/hash.h"
#include "lathe/core/format.h"

namespace lathe::distributed {

using std::chrono::milliseconds;

Limits::Limits(const GroupOptions& options) {
  const auto part = [&](double share) {
    return milliseconds(
        std::max<int64_t>(1, static_cast<int64_t>(options.timeout_seconds * 1000 * share)));
  };
  join = part(0.9);
  call = part(0.75);
  silence = part(0.75);
  stranger = std::min(silence, milliseconds(10'000));
  beat = std::min(part(0.1), milliseconds(5000));
  verdict = std::min(part(0.1), milliseconds(1000));
}

std::string proof(const std::string& token, const std::string& text) {
  const std::string key = sha256_hex(token);
  return sha256_hex("outer:" + key + sha256_hex("inner:" + key + text));
}

std::string random_nonce() {
  std::random_device device;
  std::string bits;
  for (int i = 0; i < 8; ++i) bits += std::to_string(device()) + " ";
  return sha256_hex(bits).substr(0, 32);
}

nlohmann::json parse_message(const std::string& line) {
  nlohmann::json message = nlohmann::json::parse(line, nullptr, false);
  return message.is_object() ? message : nlohmann::json::object();
}

std::string to_line(const nlohmann::json& message) {
  return message.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string text_of(const nlohmann::json& message, const char* member) {
  const auto at = message.find(member);
  return at != message.end() && at->is_string() ? at->get<std::string>() : std::string();
}

int64_t integer_of(const nlohmann::json& message, const char* member, int64_t absent) {
  const auto at = message.find(member);
  return at != message.end() && at->is_number_integer() ? at->get<int64_t>() : absent;
}

std::optional<Disagreement> find_disagreement(const std::vector<std::string>& texts) {
  const auto count = [&](const std::string& text) { return std::ranges::count(texts, text); };
  const auto right = std::ranges::max_element(texts, {}, count);
  const auto wrong = std::ranges::find_if(texts, [&](const auto& text) { return text != *right; });
  if (wrong == texts.end()) return std::nullopt;
  return Disagreement{wrong - texts.begin(), *wrong, *right, count(*right) == 1};
}

std::string Disagreement::text(int64_t call, const std::string& host) const {
  return concat("in call ", call, ", ", name_of(rank, host), " called ", wrong, ", and ",
                by_one ? "another rank " : "others ", right);
}

std::string name_of(int64_t rank, const std::string& host) {
  return concat("rank ", rank, host.empty() ? "" : " (" + host + ")");
}

std::string seconds_text(milliseconds time) {
  return concat(static_cast<double>(time.count()) / 1000, " s");
}

}  // namespace lathe::distributed
