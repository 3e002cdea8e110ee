// The messages between ranks: limits, proofs, parsing.
#include "lathe/distributed/control.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <random>
#include <utility>

#include "lathe/core/files/hash.h"
#include "lathe/core/format.h"
#include "lathe/core/json_members.h"
#include "lathe/core/printable.h"

namespace lathe::distributed {

using nlohmann::json;
using std::chrono::milliseconds;

namespace {

enum class Is { kText, kTexts, kRank, kCount };  // kRank: -1 for none

struct Member {
  const char* name = nullptr;
  Is type = Is::kText;
};

/// The first member tells which kind of message it is.
struct MessageKind {
  Sender sender;
  Member members[7];
};

constexpr MessageKind kMessageKinds[] = {
    {Sender::kServerBeforeJoin, {{"nonce", Is::kText}}},
    {Sender::kServerBeforeJoin, {{"refused", Is::kText}}},
    {Sender::kServerBeforeJoin, {{"welcome", Is::kText}}},
    {Sender::kServerBeforeJoin, {{"failed", Is::kText}, {"rank", Is::kRank}}},
    {Sender::kServer, {{"missing", Is::kText}}},
    {Sender::kServer, {{"hosts", Is::kTexts}}},
    {Sender::kServer, {{"key", Is::kText}, {"value", Is::kText}}},
    {Sender::kServer, {{"beat", Is::kRank}}},
    {Sender::kServer, {{"report", Is::kCount}}},
    {Sender::kServer, {{"failed", Is::kText}, {"rank", Is::kRank}}},
    {Sender::kServer, {{"left", Is::kRank}}},
    {Sender::kRank,
     {{"hello", Is::kRank},
      {"world_size", Is::kCount},
      {"host", Is::kText},
      {"pid", Is::kCount},
      {"version", Is::kText},
      {"nonce", Is::kText},
      {"proof", Is::kText}}},
    {Sender::kRank, {{"set", Is::kText}, {"value", Is::kText}}},
    {Sender::kRank, {{"get", Is::kText}}},
    {Sender::kRank, {{"beat", Is::kRank}}},
    {Sender::kRank, {{"trouble", Is::kCount}, {"text", Is::kText}}},
    {Sender::kRank, {{"calls", Is::kCount}, {"texts", Is::kTexts}}},
    {Sender::kRank, {{"fail", Is::kText}, {"cause", Is::kRank}}},
    {Sender::kRank, {{"bye", Is::kRank}}},
    {Sender::kRankWithDevice,
     {{"problem", Is::kText}, {"device", Is::kText}, {"gpu", Is::kText}, {"id", Is::kText}}},
};

bool is_text(const json& value) { return value.is_string(); }

bool is_of(const json& value, Is type) {
  constexpr uint64_t kMost = uint64_t{1} << 53;
  const auto from = [&](int64_t least) {  // the parser takes an integer from 0 on as unsigned
    if (value.is_number_unsigned()) return value.get<uint64_t>() <= kMost;
    return value.is_number_integer() && value.get<int64_t>() >= least;
  };
  switch (type) {
    case Is::kText: return is_text(value);
    case Is::kTexts: return value.is_array() && std::all_of(value.begin(), value.end(), is_text);
    case Is::kRank: return from(-1);
    case Is::kCount: return from(0);
  }
  return false;
}

const char* description(Is type) {
  switch (type) {
    case Is::kText: return "a text";
    case Is::kTexts: return "a list of texts";
    case Is::kRank: return "a rank";
    case Is::kCount: return "a count";
  }
  return "";
}

/// At most 60 bytes of a text that somebody sent.
std::string excerpt(const std::string& text) {
  return printable(text.substr(0, 60)) + (text.size() <= 60 ? "" : "…");
}

/// What is wrong with a message, apart from members that appear twice.
std::string fault_of(const json& message, Sender sender) {
  const auto* const kind = std::ranges::find_if(kMessageKinds, [&](const MessageKind& k) {
    return k.sender == sender && message.contains(k.members[0].name);
  });
  if (kind == std::end(kMessageKinds))
    return concat("an unknown message ", excerpt(to_line(message)));
  for (const Member& m : kind->members) {
    if (m.name == nullptr) break;
    const auto value = message.find(m.name);
    if (value == message.end()) return concat("a message without \"", m.name, "\"");
    if (!is_of(*value, m.type))
      return concat("a message whose \"", m.name, "\" is ", excerpt(to_line(*value)),
                    " instead of ", description(m.type));
  }
  return "";
}

}  // namespace

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

Message read_message(const std::string& line, Sender sender) {
  json parsed = json::parse(line, nullptr, false);
  if (!parsed.is_object()) return {.fault = "a line that is no message"};
  std::string fault = fault_of(parsed, sender);
  const std::optional<std::string> twice = doubled_member(line);
  if (fault.empty() && twice)
    fault = concat("a message in which \"", excerpt(*twice), "\" appears twice");
  return {std::move(parsed), std::move(fault)};
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
