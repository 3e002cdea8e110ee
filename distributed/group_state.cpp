// GroupState: the thread that runs calls in order, and failures.
#include "lathe/distributed/group_state.h"

#include <cstring>

#include "lathe/core/files/write_signals.h"
#include "lathe/core/format.h"
#include "lathe/core/hooks/range.h"

namespace lathe::distributed::detail {

namespace {

// How far a rank may be ahead of another that fails: over NCCL, and in a step with divided state,
// it queues many calls and waits for none. The report of all is shorter than Lines::kLongest.
constexpr size_t kTextsKept = 1024;
constexpr size_t kTextCompared = 256;

}  // namespace

GroupState::~GroupState() { leave(); }

void GroupState::leave() noexcept {
  {
    const std::lock_guard lock(mutex_);
    leaving_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  leave_device();
  client_.reset();
  server_.reset();
  std::deque<std::shared_ptr<Call>> failed;  // each one holds this object
  {
    const std::lock_guard lock(mutex_);
    std::swap(failed, queue_);
  }
  backend_.reset();
  device_backend_.reset();
}

std::shared_ptr<Call> GroupState::start(Call made) {
  auto call = std::make_shared<Call>(std::move(made));
  std::unique_lock lock(mutex_);
  if (failure_) throw_failure();
  call->number = ++calls_;
  texts_.push_back(call->text);
  if (texts_.size() > kTextsKept) texts_.pop_front();
  call->group = shared_from_this();
  if (options_.world_size == 1) {
    lock.unlock();
    call->run(*backend_);
    call->run = {};
    call->done = true;
  } else {
    queue_.push_back(call);
    changed_.notify_all();
  }
  return call;
}

void GroupState::run_calls() {
  const WriteSignals no_pipe_signal;  // Gloo writes to connections that may be closed
  while (true) {
    std::shared_ptr<Call> call;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return leaving_ || failure_ || !queue_.empty(); });
      if (failure_ || queue_.empty()) return;
      call = queue_.front();
      call->running = true;
    }
    try {
      run(*call);
    } catch (const std::exception& error) {
      bool is_known;
      {
        const std::lock_guard lock(mutex_);
        is_known = failure_.has_value();
        call->running = false;
        changed_.notify_all();
      }
      std::string text = call->text;
      if (dynamic_cast<const DeviceBackendError*>(&error) != nullptr)
        text += concat(" (", error.what(), ")");
      if (!is_known) set_failure(client_->cause_of(call->number, text));
      return;
    }
    const std::lock_guard lock(mutex_);
    call->done = true;
    call->running = false;
    call->run = {};
    queue_.pop_front();
    changed_.notify_all();
  }
}

void GroupState::run(Call& call) {
  const profile::Range range(call.name);
  // One on a GPU was compared before it was queued, also if that failed: here and nowhere else.
  if (options_.debug && !call.device.is_cuda()) compare(call);
  call.run(*backend_);
}

void GroupState::compare(const Call& call) {
  const auto n = static_cast<size_t>(options_.world_size);
  std::string own = call.text.substr(0, kTextCompared - 1);
  own.resize(kTextCompared);
  std::string all(n * kTextCompared, '\0');
  backend_->all_gather(all.data(), own.data(), kTextCompared);
  std::vector<std::string> texts;
  for (size_t rank = 0; rank < n; ++rank) texts.emplace_back(all.c_str() + rank * kTextCompared);
  const std::optional<Disagreement> odd = find_disagreement(texts);
  if (!odd) return;
  const std::string text = odd->text(call.number, hosts_[static_cast<size_t>(odd->rank)]);
  client_->fail(text, odd->rank);
  set_failure({text, odd->rank});
  throw_failure();
}

void GroupState::wait(Call& call) {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return call.reached || is_over(call); });
    if (!call.done && failure_) throw_failure();
  }
  if (call.reached) call.reached->block(current_stream(call.device));
  const std::lock_guard lock(finishing_);  // a copy of the handle may be waited for, too
  call.kept.clear();
  if (!call.finish) return;
  call.finish();
  call.finish = {};
}

bool GroupState::is_done(const Call& call) const {
  const std::lock_guard lock(mutex_);
  return is_over(call);
}

void GroupState::set_failure(const Failure& failure) {
  DeviceBackend* on_gpu = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (failure_) return;
    failure_ = failure;
    changed_.notify_all();
    if (!backend_) return;
    on_gpu = device_backend_.get();
  }
  backend_->abort();
  if (on_gpu != nullptr) on_gpu->abort();
}

std::vector<std::string> GroupState::all_gather_text(const std::string& text) {
  const auto n = static_cast<size_t>(options_.world_size);
  const auto gather = [&](const std::string& own) {
    struct Memory {
      std::string own, all;
    };
    const auto memory = std::make_shared<Memory>();  // a call may outlive the wait for it
    *memory = {own, std::string(n * own.size(), '\0')};
    const auto call =
        start({concat("all_gather_text of ", own.size(), " bytes"), "all_gather_text",
               [memory](Backend& backend) {
                 backend.all_gather(memory->all.data(), memory->own.data(), memory->own.size());
               }});
    wait(*call);
    return memory->all;
  };
  const auto own_length = static_cast<int64_t>(text.size());
  std::vector<int64_t> lengths(n);
  const std::string sizes = gather({reinterpret_cast<const char*>(&own_length), sizeof own_length});
  std::memcpy(lengths.data(), sizes.data(), sizes.size());
  const auto longest = static_cast<size_t>(*std::ranges::max_element(lengths));
  std::string own = text;
  own.resize(longest);
  const std::string all = longest > 0 ? gather(own) : "";
  std::vector<std::string> texts;
  for (size_t rank = 0; rank < n; ++rank)
    texts.push_back(all.substr(rank * longest, static_cast<size_t>(lengths[rank])));
  return texts;
}

void GroupState::throw_failure() const {
  const auto rank = static_cast<size_t>(failure_->rank);
  throw DistributedError("process group: " + failure_->text, here(__FILE__, __LINE__),
                         failure_->rank, rank < hosts_.size() ? hosts_[rank] : "");
}

std::pair<int64_t, std::vector<std::string>> GroupState::report() const {
  const std::lock_guard lock(mutex_);
  return {calls_, {texts_.begin(), texts_.end()}};
}

void GroupState::abort(const std::string& reason) noexcept {
  try {
    {
      const std::lock_guard lock(mutex_);
      if (!client_ || failure_) return;
    }
    const int64_t rank = options_.rank;
    const std::string text =
        concat(name_of(rank, hosts_[static_cast<size_t>(rank)]), " failed: ", reason);
    client_->fail(text, rank);
    set_failure({text, rank});
  } catch (const std::exception&) {  // out of memory: the connection breaks when the process ends
  }
}

}  // namespace lathe::distributed::detail
