// GroupState: joining. Only this file asks for a backend. A program that starts no process group
// does not take this file from the static library, and so needs no Gloo.
#include <cstring>
#include <exception>
#include <utility>

#include "lathe/core/files/write_signals.h"
#include "lathe/core/format.h"
#include "lathe/core/log.h"
#include "lathe/core/start_thread.h"
#include "lathe/distributed/group_state.h"

namespace lathe::distributed {

namespace detail {

namespace {

/// A world of one process.
class OneRank final : public Backend {
 public:
  void all_reduce(void*, size_t, DType, Reduce) override {}
  void broadcast(void*, size_t, int) override {}
  void all_gather(void* out, const void* in, size_t bytes) override { std::memcpy(out, in, bytes); }
  void barrier() override {}
  void abort() noexcept override {}
};

/// Who can join can also end the job.
void warn_of_strangers(const GroupOptions& options, const HostPort& end) {
  if (!options.token.empty() || end.host.starts_with("127.") || end.host == "::1") return;
  warn("process group: rank 0 listens on ", end.text(),
       " without a job token: any process that reaches this address can join the job or end it; "
       "set LATHE_JOB_TOKEN (GroupOptions::token) to the same secret on all ranks");
}

}  // namespace

GroupState::GroupState(const GroupOptions& options) : options_(options), limits_(options) {
  check(options);
  if (options.world_size == 1) {
    backend_ = std::make_unique<OneRank>();
    hosts_ = {""};
    return;
  }
  if (!is_available())  // throws, before anybody waits
    make_backend(0, static_cast<int>(options.world_size), "", 0, {});
  if (options.rank == 0) {
    const HostPort place = place_to_listen(options);
    Descriptor listener = listen_on(place);
    const HostPort end = local_end(listener.get());
    publish_place(options, {place.host, end.port});
    warn_of_strangers(options, end);
    server_ = std::make_unique<ControlServer>(std::move(listener), options);
  }
  client_ = std::make_unique<ControlClient>(
      options, ControlClient::Callbacks{[this] { return report(); },
                                        [this](const Failure& failure) { set_failure(failure); }});
  hosts_ = client_->hosts();
  const std::string address =
      options.address.empty() ? client_->local_address() : address_of_interface(options.address);
  connect(address);
  thread_ = start_thread("process group: calls", [this] { run_calls(); });
}

void GroupState::connect(const std::string& address) {
  const WriteSignals no_pipe_signal;  // for Gloo's thread too, which begins here and writes
  try {
    std::unique_ptr<Backend> backend = make_backend(
        static_cast<int>(options_.rank), static_cast<int>(options_.world_size), address,
        limits_.call.count(),
        {[this](const std::string& key, const std::string& value) { client_->set(key, value); },
         [this](const std::string& key) { return client_->get(key); }});
    const std::lock_guard lock(mutex_);
    backend_ = std::move(backend);
  } catch (const Error& error) {
    bool is_known;
    {
      const std::lock_guard lock(mutex_);
      is_known = failure_.has_value();
    }
    if (!is_known)
      client_->fail(concat(name_of(options_.rank, hosts_[static_cast<size_t>(options_.rank)]),
                           " failed: ", error.message()),
                    options_.rank);
    throw;
  }
  const std::lock_guard lock(mutex_);
  if (failure_) throw_failure();
}

}  // namespace detail

ProcessGroup::ProcessGroup(const GroupOptions& options)
    : state_(std::make_shared<detail::GroupState>(options)),
      exceptions_(std::uncaught_exceptions()) {}

}  // namespace lathe::distributed
