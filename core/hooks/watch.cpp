// The watchers of each thread, its open ranges for them, and the calls that made autograd's nodes.
#include "lathe/core/hooks/watch.h"

#include <algorithm>
#include <exception>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "lathe/core/hooks/stack.h"

namespace lathe::profile {

namespace {

struct Thread {
  std::vector<Watcher*> watchers;
  std::vector<WatchedOp> open;
  std::exception_ptr found;
  std::string layer;
  bool inside = false;  // a function of a watcher runs
};

Thread& thread() {
  thread_local Thread instance;
  return instance;
}

constinit thread_local int meant_waits = 0;    // MeantWaits of this thread
constinit thread_local int watchers_here = 0;  // for what goes after thread() has gone

struct Calls {
  std::mutex mutex;
  std::unordered_map<uint64_t, NodeCall> of_node;
  int64_t watchers = 0;  // of all threads
};
// Never destroyed: nodes may go after static objects.
Calls& calls() {
  static Calls& instance = *new Calls;
  return instance;
}

/// Calls f(watcher) for each of this thread, unless it is one of them that calls.
template <class F>
void tell(Thread& here, const F& f) {
  if (here.inside) return;
  here.inside = true;
  const struct Leave {
    bool& inside;
    ~Leave() { inside = false; }
  } leave{here.inside};
  for (Watcher* const watcher : here.watchers) f(*watcher);
}

/// The same where nothing may be thrown: keeps the first exception for raise_found().
template <class F>
void tell_later(const F& f) noexcept {
  Thread& here = thread();
  try {
    tell(here, f);
  } catch (...) {
    if (!here.found) here.found = std::current_exception();
  }
}

}  // namespace

constinit std::atomic<int64_t> gradient_watchers = 0;

Watcher::Watcher(Gradients gradients) : gradients_(gradients) {
  if (gradients_ == Gradients::kWatch) gradient_watchers.fetch_add(1, std::memory_order_relaxed);
  thread().watchers.push_back(this);
  ++watchers_here;
  const std::lock_guard lock(calls().mutex);
  if (++calls().watchers == 1) wanted.fetch_or(kWatched, std::memory_order_relaxed);
}

Watcher::~Watcher() {
  if (gradients_ == Gradients::kWatch) gradient_watchers.fetch_sub(1, std::memory_order_relaxed);
  Thread& here = thread();
  std::erase(here.watchers, this);
  --watchers_here;
  if (here.watchers.empty()) {
    here.open.clear();
    here.found = nullptr;
  }
  const std::lock_guard lock(calls().mutex);
  if (--calls().watchers > 0) return;
  wanted.fetch_and(~kWatched, std::memory_order_relaxed);
  calls().of_node.clear();
}

std::span<const WatchedOp> Watcher::open_ops() noexcept { return thread().open; }

const std::string& Watcher::layer() noexcept { return thread().layer; }

void Watcher::node(const char*, uint64_t number) { keep_call(number, {layer(), call_stack()}); }

Layer::Layer(std::string path) : before_(std::exchange(thread().layer, std::move(path))) {}
Layer::~Layer() { thread().layer = std::move(before_); }

MeantWait::MeantWait() noexcept { ++meant_waits; }
MeantWait::~MeantWait() { --meant_waits; }

void keep_call(uint64_t node, NodeCall call) {
  const std::lock_guard lock(calls().mutex);
  calls().of_node.insert_or_assign(node, std::move(call));
}

std::optional<NodeCall> call_of(uint64_t node) {
  const std::lock_guard lock(calls().mutex);
  const auto at = calls().of_node.find(node);
  return at == calls().of_node.end() ? std::nullopt : std::optional(at->second);
}

namespace detail {

bool open_watched(Kind kind, const char* name, std::span<const Input> inputs) noexcept {
  Thread& here = thread();
  if (here.watchers.empty() || here.inside || kind == Kind::kUser) return false;
  try {
    WatchedOp op{name, kind, {}};
    op.inputs.reserve(inputs.size());
    for (const Input& input : inputs) op.inputs.push_back(*input.tensor);
    here.open.push_back(std::move(op));
  } catch (...) {  // no memory: the op is not watched
    return false;
  }
  tell_later([](Watcher& watcher) { watcher.begins(); });
  return true;
}

void close_watched() noexcept {
  Thread& here = thread();
  if (here.open.empty()) return;  // its watcher went before it
  tell_later([](Watcher& watcher) { watcher.ends(); });
  if (here.open.size() == 1) tell_later([](Watcher& watcher) { watcher.outermost_ends(); });
  here.open.pop_back();
}

void watch_arguments(std::span<const Argument> arguments) noexcept {
  if (watched()) tell_later([&](Watcher& watcher) { watcher.arguments(arguments); });
}

void watch_output(const Tensor& y) noexcept {
  tell_later([&](Watcher& watcher) { watcher.output(y); });
}

void watch_node(const char* op, uint64_t number) noexcept {
  tell_later([&](Watcher& watcher) { watcher.node(op, number); });
}

void watch_connected(uint64_t number, std::span<const Input> inputs,
                     std::span<const Input> outputs) noexcept {
  tell_later([&](Watcher& watcher) { watcher.connected(number, inputs, outputs); });
}

void watch_backward(uint64_t number) noexcept {
  tell_later([&](Watcher& watcher) { watcher.backward(number); });
}

void watch_gradient(const char* op, uint64_t number, size_t input, const Tensor& gradient,
                    const Tensors& dy) {
  tell(thread(), [&](Watcher& watcher) { watcher.gradient(op, number, input, gradient, dy); });
}

void watch_memory(const Storage& storage, bool taken) noexcept {
  if (watchers_here == 0) return;
  tell_later([&](Watcher& watcher) { watcher.memory(storage, taken); });
}

void watch_read(const Tensor& t) {
  tell(thread(), [&](Watcher& watcher) { watcher.read(t); });
}

void watch_wait(const char* what) {
  if (meant_waits > 0) return;
  tell(thread(), [&](Watcher& watcher) { watcher.wait(what); });
}

void watch_gone(uint64_t node) noexcept {
  if (watchers_here > 0) tell_later([&](Watcher& watcher) { watcher.gone(node); });
  const std::lock_guard lock(calls().mutex);
  calls().of_node.erase(node);
}

void raise_found() {
  if (thread().found) std::rethrow_exception(std::exchange(thread().found, nullptr));
}

}  // namespace detail
}  // namespace lathe::profile
