// ControlServer: a thread of rank 0, to which all ranks are connected. It lets ranks in, keeps what
// they leave for each other, and finds out which one failed. That rank 0 itself has died the others
// see in control_client.h, the other end. The messages are in control.h.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "lathe/distributed/control.h"
#include "lathe/distributed/socket.h"

namespace lathe::distributed {

class ControlServer {
 public:
  ControlServer(Descriptor listener, const GroupOptions& options);
  /// Tells all ranks that rank 0 leaves.
  ~ControlServer();

 private:
  struct Peer {
    explicit Peer(Descriptor socket) : lines(std::move(socket)) {}
    Lines lines;
    std::string from;      // its address
    std::string nonce;     // what its proof must contain
    int64_t rank = -1;     // -1: not let in yet
    bool trusted = false;  // it knows the token
    bool closed = false;
    Clock::time_point heard = Clock::now();
    int64_t calls = -1;  // its answer to a report; -1: none yet
    std::vector<std::string> texts;
  };
  struct Member {  // a rank that has joined
    std::string host;
    int64_t pid = 0;
    bool joined = false, left = false;
  };
  struct Trouble {  // a call failed somewhere, and the cause is looked for
    int64_t call = 0;
    int64_t rank = 0;  // who said so first
    std::string text;
    Clock::time_point decide_at;
  };

  void run();
  void poll_once();
  void accept_peers();
  void read_from(Peer& peer);
  void handle(Peer& peer, const Message& received);
  bool is_wrong(const Peer& peer, const Message& received);
  void let_in(Peer& peer, const Message& received);
  void refuse(Peer& peer, const nlohmann::json& hello, const std::string& why);
  void peer_closed(Peer& peer);
  void check_time();
  void begin_trouble(const Peer& peer, const nlohmann::json& message);
  void decide();
  bool find_odd_call();
  void fail(int64_t rank, const std::string& text);
  void send_to_all(const nlohmann::json& message);
  void answer_gets();
  void say_who_is_missing();
  bool all_joined() const { return joined_ == options_.world_size; }
  std::string missing_text(const std::string& when) const;
  std::string name(int64_t rank) const { return name_of(rank, members_.at(rank).host); }

  const GroupOptions options_;
  const Limits limits_;
  Descriptor listener_;
  WakePipe wake_;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::vector<Member> members_;  // by rank
  int64_t joined_ = 0;
  std::string last_refused_;  // who was not let in, and why
  std::map<std::string, std::string> values_;
  std::vector<std::pair<int64_t, std::string>> waiting_gets_;  // rank, key
  std::vector<Trouble> trouble_;                               // none or one
  std::string failed_;                                         // the message that ended the group
  const Clock::time_point begin_ = Clock::now();
  Clock::time_point next_beat_ = begin_;
  Clock::time_point next_accept_ = begin_;  // later where there are no descriptors left
  std::atomic<bool> stop_ = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace lathe::distributed
