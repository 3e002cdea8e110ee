// ControlServer: connections and messages. What it concludes from them: control_server_verdict.cpp.
#include "lathe/distributed/control_server.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "lathe/core/format.h"
#include "lathe/core/printable.h"
#include "lathe/core/start_thread.h"
#include "lathe/core/version.h"

namespace lathe::distributed {

namespace {

// Connections that have not shown that they belong here.
constexpr size_t kMostStrangers = 256, kLongestOfStrangers = 4096;
constexpr auto kBetweenAccepts = std::chrono::milliseconds(100);

}  // namespace

ControlServer::ControlServer(Descriptor listener, const GroupOptions& options)
    : options_(options),
      limits_(options),
      listener_(std::move(listener)),
      members_(static_cast<size_t>(options.world_size)),
      thread_(start_thread("process group: rank 0", [this] { run(); })) {}

ControlServer::~ControlServer() {
  stop_ = true;
  wake_.wake();
  thread_.join();
}

void ControlServer::run() {
  while (!stop_) poll_once();
  for (const auto& peer : peers_) read_from(*peer);  // why rank 0 leaves may be on its way
  send_to_all({{"left", 0}});
}

void ControlServer::poll_once() {
  std::vector<pollfd> entries = {{wake_.read_end.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
  if (Clock::now() < next_accept_) entries[1].events = 0;
  for (const auto& peer : peers_) entries.push_back({peer->lines.socket(), POLLIN, 0});
  const int64_t wait_ms = std::clamp<int64_t>(limits_.verdict.count() / 2, 1, 100);
  poll(entries.data(), entries.size(), static_cast<int>(wait_ms));
  if (entries[0].revents != 0) wake_.drain();
  for (size_t i = 2; i < entries.size(); ++i) {
    if (entries[i].revents != 0) read_from(*peers_[i - 2]);
  }
  if (entries[1].revents != 0) accept_peers();
  check_time();
  std::erase_if(peers_, [](const auto& peer) { return peer->closed; });
}

void ControlServer::accept_peers() {
  while (true) {
    Descriptor socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.valid()) {
      const bool nobody_waits = errno == EAGAIN || errno == EWOULDBLOCK;
      // Who waits stays in the queue, and poll() would return at once for ever.
      if (!nobody_waits && errno != EINTR && errno != ECONNABORTED)
        next_accept_ = Clock::now() + kBetweenAccepts;
      return;
    }
    const auto strangers = std::ranges::count(peers_, int64_t{-1}, [](auto& p) { return p->rank; });
    if (static_cast<size_t>(strangers) >= kMostStrangers) continue;
    const std::string from = far_end(socket.get()).text();
    Peer& peer = *peers_.emplace_back(std::make_unique<Peer>(std::move(socket)));
    peer.lines.limit(kLongestOfStrangers);
    peer.from = from;
    peer.nonce = random_nonce();
    peer.lines.send(to_line({{"nonce", peer.nonce}}));
  }
}

void ControlServer::read_from(Peer& peer) {
  const bool open = peer.lines.receive();
  std::string line;
  while (!peer.closed && peer.lines.next(line)) {
    if (peer.rank >= 0) peer.heard = Clock::now();
    handle(peer, read_message(line, Sender::kRank));
  }
  if (!open && !peer.closed) peer_closed(peer);
}

// Ends the group if a rank sent what it may not.
bool ControlServer::is_wrong(const Peer& peer, const Message& received) {
  std::string fault = received.fault;
  for (const char* of_itself : {"beat", "bye"}) {
    const int64_t rank = integer_of(received.content, of_itself, peer.rank);
    if (fault.empty() && rank != peer.rank)
      fault = concat("a message whose \"", of_itself, "\" is ", rank);
  }
  const int64_t cause = integer_of(received.content, "cause", peer.rank);
  if (fault.empty() && cause >= options_.world_size)
    fault = concat("a message whose \"cause\" is ", cause, " in a world of ", options_.world_size);
  if (const std::string key = text_of(received.content, "set");
      fault.empty() && received.contains("set") && values_.contains(key))
    fault = concat("a second value of \"", printable(key), "\"");
  if (fault.empty() && received.contains("hello")) fault = "\"hello\" a second time";
  if (!fault.empty()) fail(peer.rank, concat(name(peer.rank), " sent ", fault));
  return !fault.empty();
}

void ControlServer::handle(Peer& peer, const Message& received) {
  const nlohmann::json& message = received.content;
  if (peer.rank < 0) {
    if (received.contains("hello")) let_in(peer, received);
    return;
  }
  if (is_wrong(peer, received)) return;
  if (message.contains("set")) {
    values_[text_of(message, "set")] = text_of(message, "value");
    answer_gets();
  } else if (message.contains("get")) {
    waiting_gets_.emplace_back(peer.rank, text_of(message, "get"));
    answer_gets();
  } else if (message.contains("trouble")) {
    begin_trouble(peer, message);
  } else if (message.contains("calls")) {
    peer.calls = integer_of(message, "calls", 0);
    peer.texts.clear();
    for (const auto& text : message["texts"]) peer.texts.push_back(text.get<std::string>());
  } else if (message.contains("fail")) {
    fail(integer_of(message, "cause", peer.rank), text_of(message, "fail"));
  } else if (message.contains("bye")) {
    members_[static_cast<size_t>(peer.rank)].left = true;
    send_to_all({{"left", peer.rank}});
  }
}

void ControlServer::refuse(Peer& peer, const nlohmann::json& hello, const std::string& why) {
  last_refused_ = concat("a process at ", peer.from, " that called itself rank ",
                         integer_of(hello, "hello", -1), " was refused, because ", why);
  peer.lines.send(to_line({{"refused", why}}));
  peer.closed = true;
  say_who_is_missing();
}

void ControlServer::let_in(Peer& peer, const Message& received) {
  const nlohmann::json& hello = received.content;
  const int64_t rank = integer_of(hello, "hello", -1);
  const int64_t world_size = integer_of(hello, "world_size", -1);
  const std::string host = text_of(hello, "host"), version_there = text_of(hello, "version");
  const std::string expected = proof(options_.token, concat("client ", peer.nonce, " ", rank));
  if (text_of(hello, "proof") != expected)
    return refuse(
        peer, hello,
        received.fault.empty() ? "it does not know the job token" : "it sent " + received.fault);
  peer.trusted = true;
  if (!failed_.empty()) {
    peer.lines.send(failed_);
    return;
  }
  peer.lines.send(
      to_line({{"welcome", proof(options_.token, "server " + text_of(hello, "nonce"))}}));
  const std::string name = name_of(rank, host);
  // Another version may have other members.
  if (version_there != version() && (received.fault.empty() || !version_there.empty()))
    return fail(rank, concat(name, " runs Lathe ", version_there, ", rank 0 runs ", version()));
  if (!received.fault.empty()) return fail(rank, concat(name, " sent ", received.fault));
  if (world_size != options_.world_size)
    return fail(rank, concat(name, " was started for ", world_size, " ranks, rank 0 for ",
                             options_.world_size));
  if (rank < 0 || rank >= options_.world_size)
    return fail(rank, concat("there is no ", name, " in a world of ", options_.world_size));
  Member& member = members_[static_cast<size_t>(rank)];
  const int64_t pid = integer_of(hello, "pid", 0);
  if (member.joined)
    return fail(rank, concat("rank ", rank, " was started twice: as process ", member.pid, " on ",
                             member.host, " and as process ", pid, " on ", host));
  peer.rank = rank;
  peer.heard = Clock::now();
  peer.lines.limit(Lines::kLongest);
  member = {host, pid, true, false};
  ++joined_;
  if (!all_joined()) return say_who_is_missing();
  nlohmann::json hosts = nlohmann::json::array();
  for (const Member& m : members_) hosts.push_back(m.host);
  send_to_all({{"hosts", hosts}});
}

void ControlServer::say_who_is_missing() {
  if (!all_joined()) send_to_all({{"missing", missing_text("")}});
}

void ControlServer::answer_gets() {
  std::erase_if(waiting_gets_, [&](const auto& get) {
    const auto value = values_.find(get.second);
    if (value == values_.end()) return false;
    for (const auto& peer : peers_) {
      if (peer->rank == get.first)
        peer->lines.send(to_line({{"key", get.second}, {"value", value->second}}));
    }
    return true;
  });
}

void ControlServer::send_to_all(const nlohmann::json& message) {
  const std::string line = to_line(message);
  for (const auto& peer : peers_) {
    if (peer->rank >= 0 && !peer->closed) peer->lines.send(line);
  }
}

}  // namespace lathe::distributed
