// The control connection by itself: values that nobody leaves, and strangers that send anything.
// What ranks are told when one fails: failure_test.cpp.
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lathe/core/format.h"
#include "lathe/core/seconds_since.h"
#include "lathe/distributed/control_client.h"
#include "lathe/distributed/control_server.h"
#include "lathe/distributed/error.h"
#include "lathe/distributed/hex.h"
#include "lathe/distributed/process_group.h"
#include "patience.h"
#include "ranks.h"

using namespace lathe;
using namespace lathe::distributed;
using lathe::test::unless_contained;
using lathe::test::with_patience;

namespace {

/// Rank 0's server and as many clients as there are ranks, in this process.
struct Control {
  Control(int64_t n, double timeout_seconds) {
    options.world_size = n;
    options.token = "test";
    options.timeout_seconds = timeout_seconds;
    Descriptor listener = listen_on({"127.0.0.1", 0});
    place = {"127.0.0.1", local_end(listener.get()).port};
    options.rendezvous = "tcp://" + place.text();
    server.emplace(std::move(listener), options);
    clients.resize(static_cast<size_t>(n));
  }

  void join_all() {
    std::vector<std::thread> threads;
    for (size_t rank = 0; rank < clients.size(); ++rank) {
      threads.emplace_back([this, rank] {
        GroupOptions own = options;
        own.rank = static_cast<int64_t>(rank);
        try {
          clients[rank] = std::make_unique<ControlClient>(
              own, ControlClient::Callbacks{[] {
                                              return std::pair{0, std::vector<std::string>()};
                                            },
                                            [](const Failure&) {}});
        } catch (const Error&) {  // the client stays null
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  /// At the same time: each waits for the others to leave.
  ~Control() {
    std::vector<std::thread> threads;
    for (auto& client : clients) threads.emplace_back([&client] { client.reset(); });
    for (std::thread& thread : threads) thread.join();
  }

  GroupOptions options;
  HostPort place;
  std::optional<ControlServer> server;
  std::vector<std::unique_ptr<ControlClient>> clients;
};

Descriptor stranger(const HostPort& place) {
  std::string problem;
  Descriptor socket = connect_to(place, Clock::now() + std::chrono::seconds(5), problem);
  REQUIRE(socket.valid());
  return socket;
}

}  // namespace

TEST_CASE("bytes travel as pairs of hexadecimal digits, and what is none is refused") {
  const std::vector<char> bytes = {0, 1, 127, static_cast<char>(0x80), static_cast<char>(0xff)};
  CHECK(to_hex(bytes) == "00017f80ff");
  CHECK(from_hex("00017f80ff") == bytes);
  CHECK(from_hex("").empty());
  for (const char* const text : {"0", "00017", "0g", "g0", "1 ", " 1", "-1", "+1", "0x", "0F"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(from_hex(text), DistributedError);
  }
}

TEST_CASE("a value that no rank leaves is not waited for longer than a call may take") {
  with_patience([](double factor) -> std::string {
    Control control(2, 0.5 * factor);
    control.join_all();
    if (control.clients[0] == nullptr || control.clients[1] == nullptr) return "not joined";
    const auto get = [&](const char* key) -> std::string {
      try {
        return control.clients[1]->get(key);
      } catch (const DistributedError& error) {
        return error.message();
      }
    };
    control.clients[0]->set("known", "value");
    std::string wrong = unless_contained(get("known"), "value");
    wrong += unless_contained(get("unknown"),
                              concat("no rank has said \"unknown\" within ", 0.375 * factor, " s"));
    control.clients[0].reset();  // rank 0 leaves in good order
    control.server.reset();
    return wrong + unless_contained(get("unknown"), "has left the group before rank 1");
  });
}

TEST_CASE("the reason with which rank 0 ends the group arrives, however soon rank 0 leaves") {
  for (int i = 0; i < 20; ++i) {
    Control control(2, 60);
    control.join_all();
    REQUIRE(control.clients[1] != nullptr);
    control.clients[0]->fail("rank 0 failed: the disk is full", 0);
    control.clients[0].reset();
    control.server.reset();
    CHECK(control.clients[1]->cause_of(1, "barrier").text == "rank 0 failed: the disk is full");
  }
}

TEST_CASE("what strangers send to rank 0 does not keep ranks from joining") {
  Control control(2, 30);  // join_all() does not join if it takes longer
  std::vector<Descriptor> strangers;
  const std::string lines(1 << 20, '\n');
  const std::string garbage[] = {lines,
                                 lines,
                                 lines,
                                 lines,
                                 std::string(1 << 20, '['),
                                 std::string(1 << 20, 'x'),
                                 "\xff\xfe{}\n",
                                 "{\"hello\":\"x\",\"proof\":7}\n",
                                 "{\"fail\":\"no\",\"cause\":0}\n{\"bye\":0}\n",
                                 "{\"hello\":-9223372036854775808,\"nonce\":[]}\n",
                                 "GET / HTTP/1.1\r\n\r\n"};
  for (const std::string& bytes : garbage) {
    strangers.push_back(stranger(control.place));
    ::send(strangers.back().get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  control.join_all();
  CHECK(control.clients[0] != nullptr);
  CHECK(control.clients[1] != nullptr);
}

TEST_CASE("without a free descriptor, the reason for no connection is that") {
  test::Ranks ranks(1, 60, [](const GroupOptions&) -> std::string {
    const Descriptor listener = listen_on({"127.0.0.1", 0});
    const HostPort place = local_end(listener.get());
    rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = 3;
    setrlimit(RLIMIT_NOFILE, &limit);
    std::string problem;
    connect_to(place, Clock::now() + std::chrono::seconds(10), problem);
    try {
      listen_on({"127.0.0.1", 0});
    } catch (const DistributedError& error) {
      return problem + "; " + error.message();
    }
    return "listens";
  });
  CHECK(ranks.result(0) ==
        "Too many open files; process group: rank 0 cannot listen on 127.0.0.1:0: Too many open "
        "files");
}

TEST_CASE("rank 0 does not spin while it has no descriptor for who wants to join") {
  // In a process of its own, whose limit is that of nobody else.
  test::Ranks ranks(1, 60, [](const GroupOptions&) -> std::string {
    Control control(1, 60);
    const Descriptor waits(::socket(AF_INET, SOCK_STREAM, 0));
    const int lowest = ::dup(0);  // the next number that a descriptor would get
    ::close(lowest);
    rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    const rlim_t before = std::exchange(limit.rlim_cur, static_cast<rlim_t>(lowest));
    setrlimit(RLIMIT_NOFILE, &limit);
    sockaddr_in place = {};
    place.sin_family = AF_INET;
    place.sin_port = htons(static_cast<uint16_t>(control.place.port));
    place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(waits.get(), reinterpret_cast<sockaddr*>(&place), sizeof place) != 0)
      return "no connection";
    const clock_t begin = std::clock();
    std::this_thread::sleep_for(std::chrono::milliseconds(400));
    const double busy = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    limit.rlim_cur = before;
    setrlimit(RLIMIT_NOFILE, &limit);
    control.join_all();
    if (control.clients[0] == nullptr) return "not joined afterwards";
    return busy < 0.2 ? "joined" : concat(busy, " s of processor time");
  });
  CHECK(ranks.result(0) == "joined");
}

TEST_CASE("a stranger that says nothing, or nothing that it must, loses its place") {
  Control control(2, 0.5);
  Descriptor socket = stranger(control.place);
  Lines lines(std::move(socket));
  const auto begin = std::chrono::steady_clock::now();
  bool open = true;
  while (open && seconds_since(begin) < 60) {
    lines.send("{}");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    open = lines.receive();
  }
  CHECK(!open);
}

TEST_CASE("a port that no rank knows is refused at once") {
  GroupOptions options;
  options.world_size = 2;
  options.rank = 1;
  options.rendezvous = "tcp://127.0.0.1:0";
  CHECK_THROWS_WITH_AS(ProcessGroup{options}, doctest::Contains("needs a port"), ValueError);
}
