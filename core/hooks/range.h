// Ranges: what code says about itself to a Profiler (profiler.h) that records, and to the watchers
// of its thread (watch.h). While there is none of either, each of these calls is one relaxed load
// and a branch.
//
//   { profile::Range range("load"); … }            a range of the program's own
//   const profile::OpRange range("relu", {x});     the first statement of an op
//
// A range ends where its scope does, also through an exception. It ends on the thread on which it
// began. A range that is open when a recording begins or ends is not part of it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>
#include <typeinfo>
#include <vector>

#include "lathe/core/config.h"
#include "lathe/core/device.h"

namespace lathe {

class Tensor;

namespace profile {

/// What kind of work a range stands for.
enum class Kind : uint8_t {
  kOp,         // an op of ops/
  kView,       // an op that moves no values
  kBackward,   // the gradient of one recorded op
  kOptimizer,  // a step of an optimiser or of a loss scaler
  kUser,       // a Range of the program, or a step of the Profiler
  kData,       // waiting for a batch
  kCopy,       // values between host and GPU
  kSync,       // the host waits for a GPU
  kDevice,     // in tables: a kernel or copy on a GPU, as it saw it itself
};

/// What is wanted now, as bits; 0 while no profiler records and no thread has a watcher.
enum Wanted : uint32_t {
  kRanges = 1,
  kShapes = 2,
  kStacks = 4,
  kMemory = 8,
  kDeviceTimes = 16,
  kNvtx = 32,
  kActivities = 64,  // what the GPU says itself; then without kDeviceTimes
  kWatched = 128,    // a thread has a watcher
};
LATHE_API extern constinit std::atomic<uint32_t> wanted;

/// True while ranges are recorded, or a thread has a watcher.
inline bool recording() noexcept { return wanted.load(std::memory_order_relaxed) != 0; }

/// A borrowed input of an op. It may be undefined.
struct Input {
  Input(const Tensor& t) : tensor(&t) {}
  const Tensor* tensor;
};

/// A borrowed argument: its address and its type.
struct Argument {
  const void* value;
  const std::type_info* type;

  /// The value if it is of this type, else null.
  template <class T>
  const T* as() const {
    return *type == typeid(T) ? static_cast<const T*>(value) : nullptr;
  }
};

/// What OpRange, Range and BackwardRange share: they end what they began.
class LATHE_API Scope {
 public:
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

  /// True if this range is recorded, or a watcher was told of it.
  explicit operator bool() const { return session_ != 0; }

 protected:
  Scope() = default;
  ~Scope() {
    if (session_ != 0) [[unlikely]]
      end();
  }

  void begin(Kind kind, const char* name, const Input* inputs, size_t count) noexcept;
  void begin_on(Kind kind, const char* name, Device device) noexcept;
  void begin_copied(std::string_view name) noexcept;
  void begin_backward(const char* name, uint64_t sequence, Device device) noexcept;
  void begin_list(Kind kind, const char* name, const std::vector<Tensor>& inputs) noexcept;

 private:
  void end() noexcept;

  uint64_t session_ = 0;  // of the recording it belongs to, and whether it is watched; 0: neither
  size_t depth_ = 0;      // its place among the open ranges of the thread
};

/// The range of an op or of another part of the library. `name` is a string literal.
class LATHE_API OpRange : public Scope {
 public:
  explicit OpRange(const char* name, std::initializer_list<Input> inputs = {},
                   Kind kind = Kind::kOp) noexcept {
    if (recording()) [[unlikely]]
      begin(kind, name, inputs.begin(), inputs.size());
  }
  OpRange(const char* name, const std::vector<Tensor>& inputs, Kind kind = Kind::kOp) noexcept {
    if (recording()) [[unlikely]]
      begin_list(kind, name, inputs);
  }
};

/// The same without inputs, for work on `device`.
class LATHE_API DeviceRange : public Scope {
 public:
  DeviceRange(const char* name, Device device, Kind kind = Kind::kOp) noexcept {
    if (recording()) [[unlikely]]
      begin_on(kind, name, device);
  }
};

/// A range of the program's own (PyTorch's record_function). The name is copied.
class LATHE_API Range : public Scope {
 public:
  explicit Range(std::string_view name) noexcept {
    if (recording()) [[unlikely]]
      begin_copied(name);
  }
};

/// The gradient of the op that recorded node `sequence`.
class LATHE_API BackwardRange : public Scope {
 public:
  BackwardRange(const char* op, uint64_t sequence, Device device) noexcept {
    if (recording()) [[unlikely]]
      begin_backward(op, sequence, device);
  }
};

namespace detail {
LATHE_API void note_output(const Tensor& y) noexcept;
LATHE_API void note_node(const char* op, uint64_t sequence) noexcept;
LATHE_API void note_flops(double count) noexcept;
LATHE_API void note_bytes(double count) noexcept;
LATHE_API void note_memory(int64_t bytes, Device device) noexcept;
LATHE_API void watch_arguments(std::span<const Argument> arguments) noexcept;
/// Decides whether calls in the innermost open range have the stack of the range's op. → the old
/// setting
LATHE_API bool lend_stack(bool lend) noexcept;
}  // namespace detail

/// While it is there, the program's own code runs inside a gradient: a hook, for instance. The ops
/// that it calls have stacks of their own.
class HookScope {
 public:
  HookScope() noexcept : lent_(recording() && detail::lend_stack(false)) {}
  ~HookScope() {
    if (lent_) [[unlikely]]
      detail::lend_stack(true);
  }
  HookScope(const HookScope&) = delete;
  HookScope& operator=(const HookScope&) = delete;

 private:
  bool lent_;
};

// What follows adds to the innermost open range of this thread.

/// Says what the op of the innermost open range was called with beside its tensors, in the order of
/// its declaration. Options are passed whole, also the tensors in them.
template <class... T>
void note_arguments(const T&... values) noexcept {
  if (!recording()) [[likely]]
    return;
  const Argument arguments[] = {{&values, &typeid(T)}...};
  detail::watch_arguments(arguments);
}

/// Counts floating-point operations, a multiplication with addition as 2. `count()` is called only
/// while recording().
template <class Count>
void note_flops(Count&& count) {
  if (recording()) [[unlikely]]
    detail::note_flops(static_cast<double>(count()));
}

/// Counts bytes that are read or written, for what is neither an input nor the output of an op.
template <class Count>
void note_bytes(Count&& count) {
  if (recording()) [[unlikely]]
    detail::note_bytes(static_cast<double>(count()));
}

/// Counts the bytes of y, the result of an op. autograd::record does it for the ops that call it.
inline void note_output(const Tensor& y) noexcept {
  if (recording()) [[unlikely]]
    detail::note_output(y);
}

/// Says that the op made autograd node `sequence`.
inline void note_node(const char* op, uint64_t sequence) noexcept {
  if (recording()) [[unlikely]]
    detail::note_node(op, sequence);
}

/// Says that this thread took (`bytes` > 0) or gave back memory of `device`.
inline void note_memory(int64_t bytes, Device device) noexcept {
  if ((wanted.load(std::memory_order_relaxed) & kMemory) != 0) [[unlikely]]
    detail::note_memory(bytes, device);
}

}  // namespace profile
}  // namespace lathe
