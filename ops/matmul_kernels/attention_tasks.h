// How the CPU's threads share out attention.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "lathe/core/ceil_div.h"
#include "lathe/core/compute_alone.h"
#include "lathe/core/thread_pool.h"

namespace lathe::cpu {

/// Calls body(worker, task) for each task from 0 to n - 1, in chunks of `grain` on all threads. A
/// chunk takes an idle worker, or one that `make` makes, so that workers keep what they copied.
template <class MakeWorker, class Body>
void share_out(int64_t n, int64_t grain, const MakeWorker& make, const Body& body) {
  using Worker = decltype(make());
  std::mutex mutex;
  std::vector<std::unique_ptr<Worker>> idle;
  const auto take = [&]() -> std::unique_ptr<Worker> {
    const std::lock_guard lock(mutex);
    if (idle.empty()) return nullptr;
    std::unique_ptr<Worker> worker = std::move(idle.back());
    idle.pop_back();
    return worker;
  };
  parallel_for(n, grain, [&](int64_t begin, int64_t end) {
    const ComputeAlone alone;
    std::unique_ptr<Worker> worker = take();
    if (worker == nullptr) worker.reset(new Worker(make()));
    for (int64_t task = begin; task < end; ++task) body(*worker, task);
    const std::lock_guard lock(mutex);
    idle.push_back(std::move(worker));
  });
}

struct GradientTasks {
  int64_t heads, shared;           // of queries; of keys
  int64_t query_tiles, key_tiles;  // of a head
  int64_t work;                    // multiplications for a head of keys
};

/// True if the threads share out heads of keys. Where there are too few heads, they share out tiles
/// of keys and tiles of queries, and each tile of scores is computed for both: 7 matrix products
/// instead of 5.
inline bool shares_out_heads(const GradientTasks& t) {
  const int64_t threads = num_threads();
  return 7 * t.shared >= 5 * threads * ceil_div(t.shared, threads);
}

/// Runs workers over heads or tiles. Both ways must add up in one order, so that the number of
/// threads changes no bit. A worker has
///   worker.add_head(m)               all gradients of head m of keys, and of its queries
///   worker.add_keys(m, tile)         dk and dv of a tile
///   worker.add_queries(h, tile)      dq of a tile
template <class MakeWorker>
void share_out_gradients(const GradientTasks& t, const MakeWorker& make) {
  const auto grain = [&](int64_t tasks) {
    return std::max<int64_t>(1, (1 << 18) / std::max<int64_t>(1, t.work * t.shared / tasks));
  };
  if (shares_out_heads(t)) {
    return share_out(t.shared, grain(t.shared), make,
                     [](auto& worker, int64_t m) { worker.add_head(m); });
  }
  const int64_t key_tasks = t.shared * t.key_tiles, tasks = key_tasks + t.heads * t.query_tiles;
  share_out(tasks, grain(tasks), make, [&](auto& worker, int64_t task) {
    const int64_t rest = task - key_tasks;
    if (rest < 0) {
      worker.add_keys(task / t.key_tiles, task % t.key_tiles);
    } else {
      worker.add_queries(rest / t.query_tiles, rest % t.query_tiles);
    }
  });
}

}  // namespace lathe::cpu
