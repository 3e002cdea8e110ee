// ControlClient: joining, the thread that listens, and what a rank asks of rank 0.
#include "lathe/distributed/control_client.h"

#include <poll.h>
#include <unistd.h>

#include "lathe/core/format.h"
#include "lathe/core/start_thread.h"
#include "lathe/core/version.h"
#include "lathe/distributed/error.h"

namespace lathe::distributed {

namespace {

std::string own_host() {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  return name;
}

constexpr auto kBetweenAttempts = std::chrono::milliseconds(50);

}  // namespace

ControlClient::ControlClient(const GroupOptions& options, Callbacks callbacks)
    : options_(options),
      limits_(options),
      callbacks_(std::move(callbacks)),
      own_nonce_(random_nonce()),
      server_text_(options.rendezvous) {
  const auto deadline = Clock::now() + std::chrono::milliseconds(
                                           static_cast<int64_t>(options.timeout_seconds * 1000));
  while (!try_to_connect(deadline)) {
    if (refused_ || Clock::now() > deadline)
      give_up(refused_
                  ? refusal_
                  : concat("rank 0 was not found at ", server_text_, " within ",
                           options.timeout_seconds, " s: ", refusal_.empty() ? problem_ : refusal_),
              0);
    std::this_thread::sleep_for(kBetweenAttempts);
  }
  heard_ = Clock::now();
  thread_ = start_thread("process group: connection to rank 0", [this] { run(); });
  try {
    wait_for_all(deadline);
  } catch (...) {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.wake();
    thread_.join();
    throw;
  }
}

ControlClient::~ControlClient() {
  {
    std::unique_lock lock(mutex_);
    if (!said_fail_ && !closed_ && !failure_) {
      {
        const std::lock_guard sending(sending_);
        lines_->send(to_line({{"bye", options_.rank}}));
      }
      changed_.wait_for(lock, limits_.verdict, [&] {
        return failure_ || closed_ || static_cast<int64_t>(left_.size()) == options_.world_size;
      });
    }
    stop_ = true;
  }
  wake_.wake();
  thread_.join();
}

void ControlClient::give_up(const std::string& text, int64_t rank) const {
  throw DistributedError("process group: " + text, here(__FILE__, __LINE__), rank, host_of(rank));
}

std::string ControlClient::host_of(int64_t rank) const {
  return rank >= 0 && static_cast<size_t>(rank) < hosts_.size() ? hosts_[static_cast<size_t>(rank)]
                                                                : "";
}

bool ControlClient::try_to_connect(Clock::time_point deadline) {
  const std::optional<HostPort> place = find_place(options_, problem_);
  if (!place) return false;
  const bool by_file = options_.rendezvous.starts_with("file:");
  const auto soon = std::min(deadline, Clock::now() + limits_.silence);
  Descriptor socket = connect_to(*place, soon, problem_);
  if (!socket.valid()) return false;
  lines_ = std::make_unique<Lines>(std::move(socket));
  bool said_hello = false;
  while (Clock::now() < soon) {
    pollfd entry = {lines_->socket(), POLLIN, 0};
    poll(&entry, 1, static_cast<int>(kBetweenAttempts.count()));
    const bool open = lines_->receive();
    std::string line;
    while (lines_->next(line)) {
      const Message received = read_message(line, Sender::kServerBeforeJoin);
      const nlohmann::json& message = received.content;
      if (!received.fault.empty()) {
        refusal_ = concat("the process at ", place->text(), " sent ", received.fault);
        refused_ = !by_file;
        return false;
      }
      if (message.contains("nonce") && !said_hello) {
        say_hello(text_of(message, "nonce"));
        said_hello = true;
      } else if (message.contains("refused")) {
        refusal_ = concat("rank 0 at ", place->text(), " refused ", name_of(options_.rank, ""),
                          ", because ", text_of(message, "refused"));
        refused_ = !by_file;  // a file may be left of another run, and be written soon
        return false;
      } else if (message.contains("failed")) {
        handle(received);
        return true;
      } else if (message.contains("welcome")) {
        if (text_of(message, "welcome") == proof(options_.token, "server " + own_nonce_))
          return true;
        refusal_ = concat("the process at ", place->text(), " does not know the job token");
        refused_ = !by_file;
        return false;
      }
    }
    if (!open) problem_ = "the process that listens there is no Lathe";
    if (!open) return false;
  }
  problem_ = "a process listens there but does not answer: it is stopped, or is no Lathe";
  return false;
}

void ControlClient::say_hello(const std::string& nonce) {
  lines_->send(
      to_line({{"hello", options_.rank},
               {"world_size", options_.world_size},
               {"host", own_host()},
               {"pid", static_cast<int64_t>(getpid())},
               {"version", version()},
               {"nonce", own_nonce_},
               {"proof", proof(options_.token, concat("client ", nonce, " ", options_.rank))}}));
}

void ControlClient::wait_for_all(Clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  const bool over =
      changed_.wait_until(lock, deadline, [&] { return failure_.has_value() || !hosts_.empty(); });
  if (failure_) give_up(failure_->text, failure_->rank);
  if (!over)
    give_up(concat(missing_.empty() ? "not all ranks have joined" : missing_, " within ",
                   options_.timeout_seconds, " s"),
            -1);
}

void ControlClient::run() {
  bool open = true, rank_0_left = false;
  while (true) {
    std::string line;
    while (!closed_ && lines_->next(line)) {  // at first, what came with the welcome
      heard_ = Clock::now();
      handle(read_message(line, Sender::kServer));
    }
    {
      const std::lock_guard lock(mutex_);
      if (stop_) return;
      if (!open) {
        closed_ = true;
        changed_.notify_all();
      }
      rank_0_left = left_.contains(0);
    }
    if (!open && !rank_0_left)
      set_failure(concat(name_of(0, host_of(0)),
                         " ended without a word: it was killed, crashed or "
                         "lost its connection"),
                  0);
    check_silence();
    pollfd entries[] = {{wake_.read_end.get(), POLLIN, 0}, {lines_->socket(), POLLIN, 0}};
    poll(entries, closed_ ? 1 : 2, static_cast<int>(limits_.beat.count()));
    wake_.drain();
    open = closed_ || lines_->receive();
  }
}

void ControlClient::check_silence() {
  if (closed_) return;
  const auto now = Clock::now();
  if (now - heard_ > limits_.silence)
    set_failure(
        concat(name_of(0, host_of(0)), " has not answered for ", seconds_text(limits_.silence),
               ": it is stopped, or its machine cannot be reached"),
        0);
  if (now < next_beat_) return;
  next_beat_ = now + limits_.beat;
  const std::lock_guard sending(sending_);
  lines_->send(to_line({{"beat", options_.rank}}));
}

// What is wrong with a message of rank 0, also by what it sent before.
std::string ControlClient::fault_of(const Message& received) const {
  if (!received.fault.empty()) return received.fault;
  const nlohmann::json& message = received.content;
  if (message.contains("hosts")) {
    const auto names = static_cast<int64_t>(message["hosts"].size());
    if (!hosts_.empty()) return "\"hosts\" a second time";
    if (names != options_.world_size)
      return concat("a message whose \"hosts\" are ", names, " in a world of ",
                    options_.world_size);
  }
  const int64_t left = integer_of(message, "left", 0), beat = integer_of(message, "beat", 0);
  if (left < 0 || left >= options_.world_size)
    return concat("a message whose \"left\" is ", left, " in a world of ", options_.world_size);
  if (beat != 0) return concat("a message whose \"beat\" is ", beat);
  return "";
}

void ControlClient::handle(const Message& received) {
  const nlohmann::json& message = received.content;
  if (const std::string fault = fault_of(received); !fault.empty())
    return set_failure(concat(name_of(0, host_of(0)), " sent ", fault), 0);
  if (message.contains("failed"))
    return set_failure(text_of(message, "failed"), integer_of(message, "rank", -1));
  if (message.contains("report")) {
    const auto [calls, texts] = callbacks_.report();
    const std::lock_guard sending(sending_);
    lines_->send(to_line({{"calls", calls}, {"texts", texts}}));
    return;
  }
  const std::lock_guard lock(mutex_);
  if (message.contains("hosts")) {
    for (const auto& host : message["hosts"]) hosts_.push_back(host.get<std::string>());
  }
  if (message.contains("missing")) missing_ = text_of(message, "missing");
  if (message.contains("key")) values_[text_of(message, "key")] = text_of(message, "value");
  if (message.contains("left")) left_.insert(integer_of(message, "left", -1));
  changed_.notify_all();
}

void ControlClient::set_failure(const std::string& text, int64_t rank) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_) return;
    failure_ = {text, rank};
    changed_.notify_all();
  }
  callbacks_.failed({text, rank});
}

void ControlClient::set(const std::string& key, const std::string& value) {
  const std::lock_guard sending(sending_);
  lines_->send(to_line({{"set", key}, {"value", value}}));
}

std::string ControlClient::get(const std::string& key) {
  {
    const std::lock_guard sending(sending_);
    lines_->send(to_line({{"get", key}}));
  }
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, limits_.call,
                    [&] { return failure_.has_value() || values_.contains(key) || closed_; });
  if (failure_) give_up(failure_->text, failure_->rank);
  const auto value = values_.find(key);
  if (value != values_.end()) return value->second;
  give_up(closed_ ? concat(name_of(0, host_of(0)), " has left the group before ",
                           name_of(options_.rank, host_of(options_.rank)),
                           " was connected to all others")
                  : concat("no rank has said \"", key, "\" within ", seconds_text(limits_.call)),
          closed_ ? 0 : -1);
}

bool ControlClient::somebody_left() const {
  const std::lock_guard lock(mutex_);
  return !left_.empty();
}

Failure ControlClient::cause_of(int64_t call, const std::string& text) {
  {
    const std::lock_guard sending(sending_);
    lines_->send(to_line({{"trouble", call}, {"text", text}}));
  }
  std::unique_lock lock(mutex_);
  // Twice: the verdict begins when rank 0 reads the question.
  changed_.wait_for(lock, 2 * limits_.verdict, [&] { return failure_.has_value(); });
  if (failure_) return *failure_;
  if (left_.contains(0))
    return {concat(name_of(0, host_of(0)), " has left the group, ",
                   name_of(options_.rank, host_of(options_.rank)), " still calls ", text),
            0};
  return {concat(name_of(options_.rank, host_of(options_.rank)), " could not finish call ", call,
                 ", ", text),
          options_.rank};
}

void ControlClient::fail(const std::string& text, int64_t cause) noexcept {
  try {
    {
      const std::lock_guard lock(mutex_);
      if (said_fail_ || failure_) return;
      said_fail_ = true;
    }
    const std::lock_guard sending(sending_);
    lines_->send(to_line({{"fail", text}, {"cause", cause}}));
  } catch (...) {  // out of memory: the connection breaks when this process ends
  }
}

}  // namespace lathe::distributed
