// What control_client.h and control_server.h say to each other: JSON objects, one per line.
//
//   server   {"nonce"}                              to everyone who connects
//   client   {"hello": rank, "world_size", "host", "pid", "version", "nonce", "proof"}
//   server   {"refused": text} | {"welcome": proof}
//   server   {"missing": text}                      which ranks; again when a rank has joined
//   server   {"hosts": [names]}                     all have joined
//   client   {"set": key, "value"} · {"get": key}   server: {"key", "value"}
//   both     {"beat": own rank}                     ten times per timeout
//   client   {"trouble": call, "text"}              a call failed here; what is the cause?
//   server   {"report": call}                       to all
//   client   {"calls", "texts": of the last ones}
//   client   {"fail": text, "cause": rank}          the group cannot go on
//   client   {"bye": own rank}                      ends in good order
//   server   {"failed": text, "rank"} · {"left": rank}
//
// Both ends check each message (read_message). A rank that sends a wrong one ends the group, which
// is told what was wrong. A process that does not know the token is refused, or not heard.
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

/// Who sends a message: a rank, or rank 0's server before and after it lets that rank in; or a rank
/// that says to all others whether it can use NCCL (device_answers.h).
enum class Sender { kRank, kServerBeforeJoin, kServer, kRankWithDevice };

/// A line that was received.
struct Message {
  // Empty if the line is no object, or not UTF-8.
  nlohmann::json content = nlohmann::json::object();
  std::string fault = {};  // a message without "value"; empty if nothing is wrong

  bool contains(const char* member) const { return content.contains(member); }
};

/// A line as a message. Its fault, if it has one:
///   - it is none of the messages that the sender may send
///   - a member is missing, or appears twice
///   - a member has another type, or is an integer out of range
/// Ignores further members, which another version may have.
Message read_message(const std::string& line, Sender sender);

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
