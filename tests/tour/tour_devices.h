// What tests of the tour's chapters 7 and 8 put in place of a GPU: memory that nobody touches, and
// engines whose times are given.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "lathe/core/memory/block_pool.h"
#include "lathe/ops/conv/search/conv_search.h"

namespace lathe::test {

constexpr size_t kMiB = 1 << 20;

/// A device that gives addresses which nobody touches, up to a limit.
class Addresses final : public RawMemory {
 public:
  explicit Addresses(size_t limit) : limit_(limit) {}
  void* allocate(size_t bytes) noexcept override {
    if (held_ + bytes > limit_) return nullptr;
    held_ += bytes;
    next_ += bytes;
    sizes_[next_ - bytes] = bytes;
    return reinterpret_cast<void*>(next_ - bytes);
  }
  void deallocate(void* block) noexcept override {
    held_ -= sizes_.at(reinterpret_cast<uintptr_t>(block));
  }
  EventHandle record(StreamHandle) noexcept override { return this; }
  void release(EventHandle) noexcept override {}
  bool query(EventHandle) noexcept override { return true; }
  bool synchronize() noexcept override { return true; }
  MemoryInfo mem_info() noexcept override { return {limit_ - held_, limit_}; }

 private:
  size_t limit_, held_ = 0;
  uintptr_t next_ = kMiB;
  std::map<uintptr_t, size_t> sizes_;
};

/// Engine i takes ms[i] per run and needs workspace[i] bytes.
class Engines final : public ConvEngines {
 public:
  std::vector<double> ms;
  std::vector<int64_t> workspace;
  double first_ms = 0;  // that the very first run of engine 0 takes longer
  double now = 0;
  int64_t runs = 0;  // of all engines, warm-ups included
  std::vector<int64_t> executed;

  std::vector<ConvEngineInfo> suggested(ConvHeuristic heuristic) override {
    std::vector<ConvEngineInfo> out;
    for (size_t i = 0; i < ms.size() && heuristic == ConvHeuristic::kA; ++i) {
      out.push_back({.engine = {.index = static_cast<int64_t>(i), .setting = {}},
                     .workspace_bytes = workspace.empty() ? 0 : workspace[i]});
    }
    return out;
  }
  int64_t prepare(const ConvEngine& e) override {
    return workspace.empty() ? 0 : workspace[static_cast<size_t>(e.index)];
  }
  ConvTime time(const ConvEngine& e, int count) override {
    const double extra = e.index == 0 ? std::exchange(first_ms, 0) : 0;
    const double mean = ms[static_cast<size_t>(e.index)] + extra / count;
    now += count * mean;
    runs += count;
    return {mean, count};
  }
  void execute(const ConvEngine& e) override { executed.push_back(e.index); }
  int64_t available_bytes() override { return INT64_MAX; }
  bool capturing() override { return false; }
};

inline ConvKey benchmark_key() {
  ConvKey key;
  key.mode = ConvMode::kBenchmark;
  key.workspace_limit_bytes = 1 << 20;
  return key;
}

}  // namespace lathe::test
