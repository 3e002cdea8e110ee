// What control_client.h and control_server.h say to each other: JSON objects, one per line.
//
//   server   {"nonce"}                              to everyone who connects
//   client   {"hello": rank, "world_size", "host", "pid", "version", "nonce", "proof"}
//   server   {"refused"} | {"welcome": proof, "missing": [ranks]}, again when a rank has joined
//   server   {"hosts": [names]}                     all have joined
//   client   {"set": key, "value"} · {"get": key}   server: {"key", "value"}
//   both     {"beat"}                               ten times per timeout
//   client   {"trouble": call, "text"}              a call failed here; what is the cause?
//   server   {"report"}                             to all
//   client   {"calls", "texts": of the last ones}
//   client   {"fail": text, "cause": rank}          the group cannot go on
//   client   {"bye"}                                ends in good order
//   server   {"failed": text, "rank"} · {"left": rank}
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "lathe/core/json.h"
#include "lathe/distributed/group_options.h"

namespace lathe::distributed {

/// Why a group failed. The text is a sentence for the user.
struct Failure {
  std::string text;
  int64_t rank = -1;
};

/// The time limits, all parts of GroupOptions::timeout_seconds.
struct Limits {
  explicit Limits(const GroupOptions& options);
  std::chrono::milliseconds join;      // for all ranks to join, as rank 0 counts
  std::chrono::milliseconds call;      // for one collective
  std::chrono::milliseconds silence;   // of a rank that is taken for stopped
  std::chrono::milliseconds stranger;  // for a connection to show that it belongs here
  std::chrono::milliseconds beat;      // between two signs of life
  std::chrono::milliseconds verdict;   // for finding the cause of a failed call
};

/// What only one who knows the token can make of `text`: as HMAC (RFC 2104), on the hexadecimal
/// digits of SHA-256.
std::string proof(const std::string& token, const std::string& text);

/// 32 random hexadecimal digits.
std::string random_nonce();

/// A line as an object; empty if it is anything else, or not UTF-8.
nlohmann::json parse_message(const std::string& line);

/// A message as a line.
std::string to_line(const nlohmann::json& message);

/// A member of a message, or `absent` where it is missing or of another type.
std::string text_of(const nlohmann::json& message, const char* member);
int64_t integer_of(const nlohmann::json& message, const char* member, int64_t absent);

/// Which rank disagrees with the others about a call. What most ranks called is right, or else what
/// the first of them called. Absent if all texts are the same.
struct Disagreement {
  int64_t rank;       // the first that is wrong
  std::string wrong;  // what it called
  std::string right;
  bool by_one;  // only one rank called what is right
  std::string text(int64_t call, const std::string& host) const;
};
std::optional<Disagreement> find_disagreement(const std::vector<std::string>& texts);

/// "rank 2 (node7)".
std::string name_of(int64_t rank, const std::string& host);

/// "10 s", "0.5 s".
std::string seconds_text(std::chrono::milliseconds time);

}  // namespace lathe::distributed
