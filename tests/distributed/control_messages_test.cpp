// Every message of the control connection (distributed/control.h): a member that is missing,
// doubled, of another type or out of range is refused by its name. And the file in which ranks find
// rank 0.
#include <doctest/doctest.h>
#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lathe/core/format.h"
#include "lathe/core/json.h"
#include "lathe/core/version.h"
#include "lathe/distributed/control_client.h"
#include "lathe/distributed/control_server.h"
#include "lathe/distributed/error.h"
#include "lathe/tests/data/files.h"

using namespace lathe;
using namespace lathe::distributed;
using nlohmann::json;

namespace {

constexpr auto kLongest = std::chrono::seconds(20);  // for an answer
const std::string kToken = "test";

/// Rank 1 of 2.
GroupOptions options_at(const Descriptor& listener) {
  GroupOptions options;
  options.world_size = 2;
  options.rank = 1;
  options.token = kToken;
  options.timeout_seconds = 60;
  options.rendezvous = concat("tcp://127.0.0.1:", local_end(listener.get()).port);
  return options;
}

/// The next message; empty if there is none.
json next_message(Lines& lines) {
  const auto deadline = Clock::now() + kLongest;
  std::string line;
  for (bool open = true; open && Clock::now() < deadline; open = lines.receive()) {
    if (lines.next(line)) return json::parse(line);
    pollfd entry = {lines.socket(), POLLIN, 0};
    poll(&entry, 1, 100);
  }
  return lines.next(line) ? json::parse(line) : json::object();
}

struct Line {
  std::string text;
  std::string refusal;  // what its receiver must say
};

/// A message without one of its members, with it twice, and with other values. `kind` is the member
/// that tells which message it is.
std::vector<Line> wrong_lines(const json& good, const std::string& kind) {
  const json not_texts[] = {5, nullptr, json::array({"x"})};
  const json not_numbers[] = {"1", 1.5, true, -2, (int64_t{1} << 53) + 1, UINT64_MAX};
  const json not_lists[] = {"x", 7, json::array({1})};
  std::vector<Line> out;
  for (const auto& [name, value] : good.items()) {
    json without = good;
    without.erase(name);
    const std::string rest = to_line(without), whole = to_line(good);
    out.push_back({rest, name == kind ? "an unknown message " + rest
                                      : concat("a message without \"", name, "\"")});
    out.push_back({concat("{\"", name, "\":", to_line(value), ",", whole.substr(1)),
                   concat("\"", name, "\" appears twice")});
    const auto change = [&, &n = name](const auto& others) {
      for (const json& other : others) {
        json changed = good;
        changed[n] = other;
        out.push_back({to_line(changed), concat("\"", n, "\" is ", to_line(other), " instead of")});
      }
    };
    if (value.is_string()) change(not_texts);
    if (value.is_number()) change(not_numbers);
    if (value.is_array()) change(not_lists);
  }
  return out;
}

/// The server of rank 0, and a connection to it.
struct Server {
  explicit Server(Descriptor listener = listen_on({"127.0.0.1", 0}))
      : options(options_at(listener)),
        place{"127.0.0.1", local_end(listener.get()).port},
        server(std::move(listener), options) {}

  Lines connect() const {
    std::string problem;
    Descriptor socket = connect_to(place, Clock::now() + kLongest, problem);
    REQUIRE(socket.valid());
    return Lines(std::move(socket));
  }

  GroupOptions options;
  HostPort place;
  ControlServer server;
};

json hello_to(const std::string& nonce, int64_t rank = 1, const std::string& token = kToken) {
  return {{"hello", rank},
          {"world_size", 2},
          {"host", "a"},
          {"pid", 7},
          {"version", version()},
          {"nonce", "00"},
          {"proof", proof(token, concat("client ", nonce, " ", rank))}};
}

/// The refusal that comes to a rank, or the failure of its group.
std::string verdict(Lines& rank) {
  while (true) {
    const json message = next_message(rank);
    if (message.empty()) return "no verdict";
    for (const char* kind : {"refused", "failed"}) {
      if (message.contains(kind)) return text_of(message, kind);
    }
  }
}

/// The verdict on rank 1, which says `hello`, and `lines` after it has joined.
std::string verdict_on(const std::string& hello, Lines& rank,
                       const std::vector<std::string>& lines = {}) {
  rank.send(hello);
  for (const std::string& line : lines) rank.send(line);
  return verdict(rank);
}

std::string verdict_on(const std::vector<std::string>& lines) {
  const Server rank_0;
  Lines rank = rank_0.connect();
  const std::string nonce = text_of(next_message(rank), "nonce");
  return verdict_on(to_line(hello_to(nonce)), rank, lines);
}

/// What rank 1 says of a rank 0 that sends these lines before and after it welcomes rank 1. Without
/// the latter there is no welcome.
std::string told_of(const std::vector<std::string>& before, const std::vector<std::string>& after) {
  const Descriptor listener = listen_on({"127.0.0.1", 0});
  std::promise<std::string> failure;
  std::promise<void> over;
  std::thread rank_0([&] {
    pollfd entry = {listener.get(), POLLIN, 0};
    poll(&entry, 1, static_cast<int>(std::chrono::milliseconds(kLongest).count()));
    Lines lines(Descriptor(::accept(listener.get(), nullptr, nullptr)));
    for (const std::string& line : before) lines.send(line);
    if (!after.empty()) {
      const std::string nonce = text_of(next_message(lines), "nonce");
      lines.send(to_line({{"welcome", proof(kToken, "server " + nonce)}}));
      for (const std::string& line : after) lines.send(line);
    }
    over.get_future().wait();
  });
  std::string text = "no failure";
  try {
    const ControlClient client(
        options_at(listener),
        {.report =
             [] {
               return std::pair{0, std::vector<std::string>()};
             },
         .failed = [&](const Failure& found) { failure.set_value(found.text); }});
    std::future<std::string> told = failure.get_future();
    if (told.wait_for(kLongest) == std::future_status::ready) text = told.get();
  } catch (const DistributedError& error) {
    text = error.message();
  }
  over.set_value();
  rank_0.join();
  return text;
}

void check_contains(const std::string& text, const std::string& part, const std::string& line) {
  CHECK_MESSAGE(text.find(part) != std::string::npos, line, " → ", text, ", expected: ", part);
}

}  // namespace

TEST_CASE("control messages: a wrong hello is refused with what is wrong in it") {
  for (const Line& wrong : wrong_lines(hello_to(""), "hello")) {
    if (!json::parse(wrong.text).contains("hello")) continue;  // such a process is not heard
    const Server rank_0;
    Lines rank = rank_0.connect();
    const std::string nonce = text_of(next_message(rank), "nonce");
    std::string line = wrong.text;
    const std::string old_proof = text_of(hello_to(""), "proof");
    const std::string new_proof = text_of(hello_to(nonce), "proof");
    for (size_t at = line.find(old_proof); at != line.npos; at = line.find(old_proof))
      line.replace(at, old_proof.size(), new_proof);
    check_contains(verdict_on(line, rank), wrong.refusal, line);
  }
}

TEST_CASE("control messages: a hello of another job, version, world or rank is refused") {
  const auto said_to = [](const std::function<json(const std::string& nonce)>& hello) {
    const Server rank_0;
    Lines rank = rank_0.connect();
    const std::string nonce = text_of(next_message(rank), "nonce");
    return verdict_on(to_line(hello(nonce)), rank);
  };
  const auto with = [](const char* member, const json& value, const char* without = "") {
    return [=](const std::string& nonce) {
      json hello = hello_to(nonce);
      hello[member] = value;
      hello.erase(without);
      return hello;
    };
  };
  const std::string token = "it does not know the job token";
  CHECK(said_to([](auto& nonce) { return hello_to(nonce, 1, "other"); }) == token);
  CHECK(said_to([](auto& nonce) { return hello_to(nonce + "0"); }) == token);
  CHECK(said_to(with("hello", 0)) == token);  // the proof is that of rank 1
  const std::string here = concat(", rank 0 runs ", version());
  CHECK(said_to(with("version", "0.0")) == "rank 1 (a) runs Lathe 0.0" + here);
  CHECK(said_to(with("version", "99", "pid")) == "rank 1 (a) runs Lathe 99" + here);
  CHECK(said_to(with("world_size", 3)) == "rank 1 (a) was started for 3 ranks, rank 0 for 2");
  CHECK(said_to([](auto& nonce) { return hello_to(nonce, 2); }) ==
        "there is no rank 2 (a) in a world of 2");

  const Server rank_0;
  Lines first = rank_0.connect(), second = rank_0.connect();
  first.send(to_line(hello_to(text_of(next_message(first), "nonce"))));
  REQUIRE(next_message(first).contains("welcome"));
  const std::string nonce = text_of(next_message(second), "nonce");
  check_contains(verdict_on(to_line(hello_to(nonce)), second),
                 "rank 1 was started twice: as process 7 on a and as process 7 on a", "hello");
}

TEST_CASE("control messages: a rank that sends a wrong one ends the group, and is named") {
  const std::pair<const char*, json> messages[] = {
      {"set", {{"set", "k"}, {"value", "v"}}},
      {"get", {{"get", "k"}}},
      {"beat", {{"beat", 1}}},
      {"trouble", {{"trouble", 3}, {"text", "barrier"}}},
      {"calls", {{"calls", 3}, {"texts", json::array({"barrier"})}}},
      {"fail", {{"fail", "the disk is full"}, {"cause", 0}}},
      {"bye", {{"bye", 1}}}};
  for (const auto& [kind, good] : messages) {
    // A good one is taken: the verdict is on what follows.
    const std::string last = kind == std::string("fail") ? "the disk is full" : "\"get\" is 5";
    check_contains(verdict_on({to_line(good), "{\"get\":5}"}), last, to_line(good));
    for (const Line& wrong : wrong_lines(good, kind)) {
      const std::string text = verdict_on({wrong.text});
      check_contains(text, "rank 1 (a) sent ", wrong.text);
      check_contains(text, wrong.refusal, wrong.text);
    }
  }
  for (const Line& wrong :
       {Line{"{\"beat\":0}", "a message whose \"beat\" is 0"},
        Line{"{\"bye\":0}", "a message whose \"bye\" is 0"},
        Line{"{\"fail\":\"x\",\"cause\":2}", "a message whose \"cause\" is 2 in a world of 2"},
        Line{to_line(hello_to("")), "\"hello\" a second time"},
        Line{"{\"left\":1}", "an unknown message {\"left\":1}"},
        Line{R"({"get":"k","\u001b":1,"\u001b":2})", R"(a message in which "\x1b" appears twice)"},
        Line{"[]", "a line that is no message"}, Line{"", "a line that is no message"},
        Line{"{\"get\":\"\xff\"}", "a line that is no message"}})
    check_contains(verdict_on({wrong.text}), "rank 1 (a) sent " + wrong.refusal, wrong.text);
  const std::string set = to_line({{"set", "k"}, {"value", "v"}});
  check_contains(verdict_on({set, set}), "rank 1 (a) sent a second value of \"k\"", set);
}

TEST_CASE("control messages: a process that greets with a wrong one is not taken for rank 0") {
  const std::string nonce = "{\"nonce\":\"00\"}";
  const std::pair<const char*, json> messages[] = {{"nonce", {{"nonce", "00"}}},
                                                   {"refused", {{"refused", "no"}}},
                                                   {"welcome", {{"welcome", "00"}}},
                                                   {"failed", {{"failed", "no"}, {"rank", 0}}}};
  for (const auto& [kind, good] : messages) {
    for (const Line& wrong : wrong_lines(good, kind)) {
      const std::string text = told_of({nonce, wrong.text}, {});
      check_contains(text, "process group: the process at 127.0.0.1:", wrong.text);
      check_contains(text, wrong.refusal, wrong.text);
    }
  }
  check_contains(told_of({nonce, "{\"welcome\":\"00\"}"}, {}), "does not know the job token", "");
  check_contains(told_of({"HTTP/1.1 400 Bad Request"}, {}), "sent a line that is no message", "");
  check_contains(told_of({nonce, "{\"refused\":\"x\"}"}, {}), "refused rank 1, because x", "");
  CHECK(told_of({nonce, "{\"failed\":\"x\",\"rank\":0}"}, {}) == "process group: x");
}

TEST_CASE("control messages: if rank 0 sends a wrong one, the group ends, and rank 0 is named") {
  const std::string nonce = "{\"nonce\":\"00\"}", hosts = "{\"hosts\":[\"a\",\"b\"]}";
  const std::pair<const char*, json> messages[] = {{"missing", {{"missing", "rank 0"}}},
                                                   {"hosts", {{"hosts", json::array({"a", "b"})}}},
                                                   {"key", {{"key", "k"}, {"value", "v"}}},
                                                   {"beat", {{"beat", 0}}},
                                                   {"report", {{"report", 3}}},
                                                   {"failed", {{"failed", "no"}, {"rank", 0}}},
                                                   {"left", {{"left", 0}}}};
  for (const auto& [kind, good] : messages) {
    for (const Line& wrong : wrong_lines(good, kind)) {
      const std::string text = told_of({nonce}, {wrong.text});
      check_contains(text, "rank 0 sent ", wrong.text);
      check_contains(text, wrong.refusal, wrong.text);
    }
  }
  for (const Line& wrong :
       {Line{"{\"hosts\":[\"a\"]}", "\"hosts\" are 1 in a world of 2"},
        Line{"{\"left\":2}", "\"left\" is 2 in a world of 2"},
        Line{"{\"left\":-1}", "\"left\" is -1 in a world of 2"},
        Line{"{\"beat\":1}", "\"beat\" is 1"}, Line{nonce, "an unknown message " + nonce},
        Line{"x", "a line that is no message"}})
    check_contains(told_of({nonce}, {wrong.text}), wrong.refusal, wrong.text);
  check_contains(told_of({nonce}, {hosts, hosts}), "rank 0 (a) sent \"hosts\" a second time", "");
}

TEST_CASE("control messages: what a rendezvous file holds instead of one address is named") {
  const data::testing::TempDir folder;
  GroupOptions options;
  options.rendezvous = "file://" + (folder / "place").string();
  const auto found = [&](const std::string& content) -> std::string {
    data::testing::write_file(folder / "place", content);
    std::string problem;
    const std::optional<HostPort> place = find_place(options, problem);
    return place ? place->text() : problem;
  };
  CHECK(found("127.0.0.1:29500\n") == "127.0.0.1:29500");
  CHECK(found("[::1]:1") == "[::1]:1");
  for (const char* content : {"", "\n", "\n127.0.0.1:29500\n"})
    CHECK(found(content) == "rank 0 has not written its address there");
  for (const char* line : {"127.0.0.1", "127.0.0.1:", ":29500", "127.0.0.1:0", "127.0.0.1:-1",
                           "127.0.0.1:65536", "127.0.0.1:2950x", "127.0.0.1:29500 ", "tcp"})
    CHECK(found(std::string(line) + "\n") ==
          concat("it holds \"", line, "\" instead of HOST:PORT"));
  CHECK(found("\x1b\n") == "it holds \"\\x1b\" instead of HOST:PORT");
  for (const char* content : {"127.0.0.1:29500\n127.0.0.1:29500\n", "127.0.0.1:29500\n\n"})
    CHECK(found(content) == "it holds more than the line of an address");
}
