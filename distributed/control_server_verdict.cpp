// ControlServer: which rank is the cause when something went wrong, and the sentence that says so.
// The messages: control_server.cpp. Contract: control_server.h.
#include <algorithm>
#include <limits>

#include "lathe/core/format.h"
#include "lathe/distributed/control_server.h"

namespace lathe::distributed {

void ControlServer::fail(int64_t rank, const std::string& text) {
  if (!failed_.empty()) return;
  const nlohmann::json message = {{"failed", text}, {"rank", rank}};
  failed_ = to_line(message);
  trouble_.clear();
  for (const auto& peer : peers_) {  // also to one that does not fit
    if (peer->trusted && !peer->closed) peer->lines.send(failed_);
  }
}

void ControlServer::peer_closed(Peer& peer) {
  peer.closed = true;
  if (peer.rank < 0) return;
  const Member& member = members_[static_cast<size_t>(peer.rank)];
  if (member.left) return;
  fail(peer.rank, concat(name(peer.rank), " ended without a word: process ", member.pid,
                         " was killed, crashed or lost its connection",
                         all_joined() ? "" : ", before all ranks had joined"));
}

std::string ControlServer::missing_text(const std::string& when) const {
  std::string text;
  int64_t missing = 0;
  for (size_t rank = 0; rank < members_.size(); ++rank) {
    if (members_[rank].joined) continue;
    ++missing;
    if (missing <= 8) text += concat(text.empty() ? "" : ", ", rank);
  }
  text = concat(missing == 1 ? "rank " : "ranks ", text);
  if (missing > 8) text += concat(" and ", missing - 8, " more");
  text += concat(missing == 1 ? " has" : " have", " not joined", when);
  if (!last_refused_.empty()) text += "; " + last_refused_;
  return text;
}

void ControlServer::check_time() {
  const auto now = Clock::now();
  if (!failed_.empty()) return;
  if (!all_joined() && now - begin_ > limits_.join) {
    const auto first = std::ranges::find(members_, false, &Member::joined);
    fail(first - members_.begin(), missing_text(concat(" within ", seconds_text(limits_.join))));
  }
  for (const auto& peer : peers_) {
    const auto limit = peer->rank < 0 ? limits_.stranger : limits_.silence;
    if (now - peer->heard <= limit || peer->closed) continue;
    if (peer->rank < 0) {
      peer->closed = true;
    } else if (!members_[static_cast<size_t>(peer->rank)].left) {
      fail(peer->rank,
           concat(name(peer->rank), " has not answered for ", seconds_text(limits_.silence),
                  ": process ", members_[static_cast<size_t>(peer->rank)].pid,
                  " is stopped, or its machine cannot be reached"));
    }
  }
  if (!trouble_.empty() && now >= trouble_.front().decide_at) decide();
  if (now >= next_beat_) {
    next_beat_ = now + limits_.beat;
    send_to_all({{"beat", 0}});
  }
}

void ControlServer::begin_trouble(const Peer& peer, const nlohmann::json& message) {
  if (!trouble_.empty() || !failed_.empty()) return;
  const int64_t call = integer_of(message, "trouble", 0);
  trouble_.push_back({call, peer.rank, text_of(message, "text"), Clock::now() + limits_.verdict});
  for (const auto& other : peers_) other->calls = -1;
  send_to_all({{"report", call}});
}

// The first call that all ranks still know, and about which they disagree.
bool ControlServer::find_odd_call() {
  std::vector<const Peer*> by_rank(members_.size());
  int64_t first = 1, last = std::numeric_limits<int64_t>::max();
  for (const auto& peer : peers_) {
    if (peer->rank < 0 || peer->calls < 0) continue;
    by_rank[static_cast<size_t>(peer->rank)] = peer.get();
    first = std::max(first, peer->calls - static_cast<int64_t>(peer->texts.size()) + 1);
    last = std::min(last, peer->calls);
  }
  if (std::ranges::count(by_rank, nullptr) > 0) return false;
  for (int64_t call = first; call <= last; ++call) {
    std::vector<std::string> texts;
    for (const Peer* peer : by_rank) texts.push_back(peer->texts.end()[call - peer->calls - 1]);
    if (const auto odd = find_disagreement(texts)) {
      fail(odd->rank, odd->text(call, members_[static_cast<size_t>(odd->rank)].host));
      return true;
    }
  }
  return false;
}

// A rank that ended or is silent has ended the group before this is called, mostly. Otherwise, in
// this order: one that left; one that does not answer; one that made another call; one that has not
// made the call; and if all agree, the rank on which the call failed.
void ControlServer::decide() {
  const Trouble trouble = trouble_.front();
  const std::string waiting = concat(name(trouble.rank), " waited ", seconds_text(limits_.call),
                                     " for it in call ", trouble.call, ", ", trouble.text);
  for (size_t i = 0; i < members_.size(); ++i) {
    const auto rank = static_cast<int64_t>(i);
    if (members_[i].left)
      return fail(rank, concat(name(rank), " has left the group, ", name(trouble.rank),
                               " still calls ", trouble.text));
  }
  for (const auto& peer : peers_) {
    if (peer->rank >= 0 && peer->calls < 0)
      return fail(peer->rank, concat(name(peer->rank), " does not answer, while ", waiting));
  }
  if (find_odd_call()) return;
  for (const auto& peer : peers_) {
    if (peer->rank >= 0 && peer->calls < trouble.call)
      return fail(peer->rank, concat(name(peer->rank), " has made ", peer->calls,
                                     " calls and computes, while ", waiting));
  }
  fail(trouble.rank, concat(name(trouble.rank), " could not finish call ", trouble.call, ", ",
                            trouble.text, ", though all ranks made it"));
}

}  // namespace lathe::distributed
