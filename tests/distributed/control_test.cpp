// The control connection by itself: values that nobody leaves, and strangers that send anything.
// What ranks are told when one fails: failure_test.cpp.
#include <doctest/doctest.h>
#include <sys/socket.h>

#include <chrono>
#include <optional>
#include <thread>

#include "lathe/core/seconds_since.h"
#include "lathe/distributed/control_client.h"
#include "lathe/distributed/control_server.h"
#include "lathe/distributed/error.h"
#include "lathe/distributed/process_group.h"

using namespace lathe;
using namespace lathe::distributed;

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

TEST_CASE("a value that no rank leaves is not waited for longer than a call may take") {
  Control control(2, 2);
  control.join_all();
  REQUIRE(control.clients[1] != nullptr);
  control.clients[0]->set("known", "value");
  CHECK(control.clients[1]->get("known") == "value");
  const auto begin = std::chrono::steady_clock::now();
  CHECK_THROWS_WITH_AS(control.clients[1]->get("unknown"),
                       doctest::Contains("no rank has said \"unknown\" within 1.5 s"),
                       DistributedError);
  control.clients[0].reset();  // rank 0 leaves in good order
  control.server.reset();
  CHECK_THROWS_WITH_AS(control.clients[1]->get("unknown"),
                       doctest::Contains("has left the group before rank 1"), DistributedError);
  CHECK(seconds_since(begin) < 20);
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
  Control control(2, 20);
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
  const auto begin = std::chrono::steady_clock::now();
  control.join_all();
  CHECK(control.clients[0] != nullptr);
  CHECK(control.clients[1] != nullptr);
  CHECK(seconds_since(begin) < 10);
}

TEST_CASE("a stranger that says nothing, or nothing that it must, loses its place") {
  Control control(2, 1);
  Descriptor socket = stranger(control.place);
  Lines lines(std::move(socket));
  const auto begin = std::chrono::steady_clock::now();
  bool open = true;
  while (open && seconds_since(begin) < 20) {
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
