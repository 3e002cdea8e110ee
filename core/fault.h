// Places where tests make a call fail: allocation, opening, writing, renaming. They are part of the
// library on purpose: an error path that no test can reach does not work.
#pragma once

#include <atomic>
#include <cstdint>

namespace lathe {

/// Decides whether a call fails. The code under test calls `hit()` once per call, which costs one
/// relaxed load while unarmed. Thread-safe: exactly as many calls fail as were asked for, whichever
/// threads make them.
class FaultPoint {
 public:
  static constexpr int64_t kForever = INT64_MAX;

  /// True if this call is to fail.
  bool hit() noexcept { return armed_.load(std::memory_order_relaxed) && hit_armed(); }

  /// From now on the n-th call (1 is the next one) fails, and the `times - 1` calls after it.
  void fail_at(int64_t n, int64_t times = 1) noexcept {
    disarm();
    calls_.store(0, std::memory_order_relaxed);
    first_.store(n, std::memory_order_relaxed);
    times_.store(times, std::memory_order_relaxed);
    armed_.store(true, std::memory_order_relaxed);
  }

  /// Counts calls and lets them all pass: calls() then says how many there are.
  void count() noexcept { fail_at(kForever, 0); }

  void disarm() noexcept { armed_.store(false, std::memory_order_relaxed); }

  /// Calls since `fail_at` or `count`.
  int64_t calls() const noexcept { return calls_.load(std::memory_order_relaxed); }

 private:
  bool hit_armed() noexcept {
    const int64_t call = calls_.fetch_add(1, std::memory_order_relaxed) + 1;
    const int64_t first = first_.load(std::memory_order_relaxed);
    return call >= first && call - first < times_.load(std::memory_order_relaxed);
  }

  std::atomic<bool> armed_{false};
  std::atomic<int64_t> calls_{0}, first_{0}, times_{0};
};

/// Arms a point for the rest of a scope.
class ArmedFault {
 public:
  ArmedFault(FaultPoint& point, int64_t n, int64_t times = 1) : point_(point) {
    point_.fail_at(n, times);
  }
  ~ArmedFault() { point_.disarm(); }
  ArmedFault(const ArmedFault&) = delete;
  ArmedFault& operator=(const ArmedFault&) = delete;

 private:
  FaultPoint& point_;
};

}  // namespace lathe
