// Watchers: what the debug scopes of core/debug are told about the ops of their thread. They share
// the profiler's flag: while no watcher is there, a range does nothing for them. An op that may
// throw what a watcher found (raise_found()) loads the flag once more.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lathe/core/config.h"
#include "lathe/core/hooks/range.h"
#include "lathe/core/tensor.h"

namespace lathe::profile {

inline bool watched() noexcept { return (wanted.load(std::memory_order_relaxed) & kWatched) != 0; }

/// Watchers of all threads that are told of gradients.
LATHE_API extern constinit std::atomic<int64_t> gradient_watchers;
/// Gradients that somebody looks at are made whole before. A backward pass may otherwise leave two
/// halves of a sum to an op that adds them up with fewer roundings.
inline bool gradients_watched() noexcept {
  return gradient_watchers.load(std::memory_order_relaxed) != 0;
}

/// A range that is open on a thread with a watcher. A Range of the program's own is none.
struct WatchedOp {
  const char* name;
  Kind kind;
  Tensors inputs;
};

/// Is told what its thread does from its construction to its end. What one of its functions throws
/// leaves the op at the next place where the library may throw, see raise_found(). Ops that a
/// function of a watcher calls are not watched.
class LATHE_API Watcher {
 public:
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

  /// A range began; it is the last of open_ops().
  virtual void begins() {}
  /// The op of the last of open_ops() was called with these beside its tensors (note_arguments).
  virtual void arguments(std::span<const Argument>) {}
  /// An op inside the ranges of open_ops() computed y.
  virtual void output(const Tensor&) {}
  /// The last of open_ops() ends.
  virtual void ends() {}
  /// The outermost range ended; it is still in open_ops().
  virtual void outermost_ends() {}
  /// The op recorded autograd node `number`. Keeps where it was called: keep_call().
  virtual void node(const char* op, uint64_t number);
  /// Follows node(): its inputs and its outputs, in order. Either may be undefined.
  virtual void connected(uint64_t, std::span<const Input>, std::span<const Input>) {}
  /// A backward pass has reached node `number`.
  virtual void backward(uint64_t) {}
  /// Node `number` was released on this thread: no backward pass will reach it any more.
  virtual void gone(uint64_t) {}
  /// The closure of node `number` of `op` computed `gradient` of its input `input` from `dy`. With
  /// Gradients::kIgnore nobody sees to it that this is called.
  virtual void gradient(const char*, uint64_t, size_t, const Tensor&, const Tensors&) {}
  /// Memory of a tensor on the CPU or a GPU was taken, or is about to be given back.
  virtual void memory(const Storage&, bool /*taken*/) {}
  /// The program is about to read values of this tensor: item(), to_vector(). This function may
  /// throw through the call.
  virtual void read(const Tensor&) {}
  /// The host is about to wait for a GPU, and no MeantWait says that it should. This function may
  /// throw through the wait.
  virtual void wait(const char*) {}

 protected:
  /// What a watcher is not told of stays as it is without watchers, to the bit.
  enum class Gradients : uint8_t { kWatch, kIgnore };

  /// Begins to watch the calling thread.
  explicit Watcher(Gradients gradients = Gradients::kWatch);
  /// On the same thread.
  ~Watcher();

  /// The open ranges of this thread, outermost first.
  static std::span<const WatchedOp> open_ops() noexcept;
  /// The path of the innermost layer whose forward pass runs on this thread: "Net.conv1", or "".
  static const std::string& layer() noexcept;

 private:
  const Gradients gradients_;
};

/// Says to the watchers of this thread that a layer's forward pass runs.
class LATHE_API Layer {
 public:
  [[nodiscard]] explicit Layer(std::string path);
  ~Layer();
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;

 private:
  std::string before_;
};

/// While it lives, its thread waits for a GPU on purpose, and watchers are not told of the wait.
class LATHE_API MeantWait {
 public:
  [[nodiscard]] MeantWait() noexcept;
  ~MeantWait();
  MeantWait(const MeantWait&) = delete;
  MeantWait& operator=(const MeantWait&) = delete;
};

/// Where an op was called that recorded a node.
struct NodeCall {
  std::string layer;         // see Watcher::layer()
  std::vector<void*> stack;  // return addresses, innermost first
};
/// Keeps it until the node or the last watcher goes. Thread-safe, as call_of().
LATHE_API void keep_call(uint64_t node, NodeCall call);
LATHE_API std::optional<NodeCall> call_of(uint64_t node);

namespace detail {
LATHE_API bool open_watched(Kind kind, const char* name, std::span<const Input> inputs) noexcept;
LATHE_API void close_watched() noexcept;
LATHE_API void watch_output(const Tensor& y) noexcept;
LATHE_API void watch_node(const char* op, uint64_t number) noexcept;
LATHE_API void watch_connected(uint64_t number, std::span<const Input> inputs,
                               std::span<const Input> outputs) noexcept;
LATHE_API void watch_backward(uint64_t number) noexcept;
LATHE_API void watch_gradient(const char* op, uint64_t number, size_t input, const Tensor& gradient,
                              const Tensors& dy);
LATHE_API void watch_memory(const Storage& storage, bool taken) noexcept;
LATHE_API void watch_read(const Tensor& t);
LATHE_API void watch_wait(const char* what);
LATHE_API void watch_gone(uint64_t node) noexcept;
LATHE_API void raise_found();
}  // namespace detail

/// Throws what a watcher of this thread found meanwhile. Called where an op may throw.
inline void raise_found() {
  if (watched()) [[unlikely]]
    detail::raise_found();
}

/// Says that the host is about to wait for a GPU because of `what`. Call it before work is queued
/// that must not outlive the call.
/// throws: what a watcher throws.
inline void before_wait(const char* what) {
  if (watched()) [[unlikely]]
    detail::watch_wait(what);
}

}  // namespace lathe::profile
