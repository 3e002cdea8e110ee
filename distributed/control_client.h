// ControlClient: a rank's connection to rank 0 (control_server.h), and the thread that listens on
// it. The messages are in control.h.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "lathe/distributed/control.h"
#include "lathe/distributed/socket.h"

namespace lathe::distributed {

class ControlClient {
 public:
  struct Callbacks {  // both called on the client's thread
    /// How many calls this rank has made, and the texts of the last ones.
    std::function<std::pair<int64_t, std::vector<std::string>>()> report;
    /// The group has failed. Called once.
    std::function<void(const Failure& failure)> failed;
  };

  /// Joins. Returns when all ranks have joined.
  /// throws: DistributedError.
  ControlClient(const GroupOptions& options, Callbacks callbacks);
  /// Leaves in good order, unless the group failed. Waits for the others to leave too, but not for
  /// long: a connection that closes with unread bytes in it would take what is on its way along.
  ~ControlClient();

  /// The machines of all ranks.
  const std::vector<std::string>& hosts() const { return hosts_; }
  /// The address of this machine on the way to rank 0.
  std::string local_address() const { return local_end(lines_->socket()).host; }

  void set(const std::string& key, const std::string& value);
  /// Waits until some rank has set it.
  /// throws: DistributedError if the group fails, if rank 0 has left, or if that takes longer than
  /// a call may.
  std::string get(const std::string& key);

  /// True if a rank has left in good order.
  bool somebody_left() const;
  /// Why call number `call` failed here. Waits for rank 0's verdict, not longer than it may take.
  Failure cause_of(int64_t call, const std::string& text);
  /// Tells all ranks that the group cannot go on, and which rank is the cause.
  void fail(const std::string& text, int64_t cause) noexcept;

 private:
  bool try_to_connect(Clock::time_point deadline);
  void say_hello(const std::string& nonce);
  void wait_for_all(Clock::time_point deadline);
  void run();
  void handle(const Message& received);
  std::string fault_of(const Message& received) const;
  void set_failure(const std::string& text, int64_t rank);
  void check_silence();
  [[noreturn]] void give_up(const std::string& text, int64_t rank) const;
  std::string host_of(int64_t rank) const;

  const GroupOptions options_;
  const Limits limits_;
  const Callbacks callbacks_;
  const std::string own_nonce_;
  std::string server_text_;  // where rank 0 is looked for
  std::string problem_;      // why it was not reached
  std::string refusal_;      // what rank 0 said to it
  bool refused_ = false;     // that is final
  std::unique_ptr<Lines> lines_;
  WakePipe wake_;

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::mutex sending_;
  std::vector<std::string> hosts_;
  std::string missing_;
  std::map<std::string, std::string> values_;
  std::optional<Failure> failure_;
  std::set<int64_t> left_;
  bool closed_ = false, said_fail_ = false, stop_ = false;
  Clock::time_point heard_ = Clock::now(), next_beat_ = Clock::now();
  std::thread thread_;
};

/// The address that rank 0 listens on: for a file the one of options.address or the loopback one.
/// The port for a file is a free one.
/// throws: ValueError for an address that is none, or has port 0.
HostPort place_to_listen(const GroupOptions& options);
/// Writes where rank 0 listens into the file of the options, if they name one.
/// throws: FileError.
void publish_place(const GroupOptions& options, const HostPort& place);
/// Where rank 0 listens; absent as long as the file of the options does not say it, and `problem`
/// then says why. Never waits.
/// throws: ValueError if that file is not a regular one.
std::optional<HostPort> find_place(const GroupOptions& options, std::string& problem);
/// The numeric address of the local interface `name`, or `name` itself if there is none.
std::string address_of_interface(const std::string& name);

}  // namespace lathe::distributed
