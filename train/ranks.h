// Ranks: the processes of one training, and what they tell each other. trainer_ranks.cpp: what they
// agree on after each batch.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lathe/core/config.h"
#include "lathe/distributed/process_group.h"
#include "lathe/nn/checkpoint.h"
#include "lathe/nn/module.h"

namespace lathe::train {

/// Numbers on their way to be added up over all ranks.
struct LATHE_API RankSums {
  Tensor values = {};
  distributed::Work work = {};

  /// The sums. Waits.
  /// throws: DistributedError.
  std::vector<double> wait();
};

/// One process by itself has rank 0 of 1; then nothing here waits.
/// All ranks make the same calls in the same order. Each call throws DistributedError, which names
/// rank and cause, if another rank has ended, does not answer or has failed.
class LATHE_API Ranks {
 public:
  Ranks() = default;
  /// The group must outlive it. Null: one process.
  explicit Ranks(distributed::ProcessGroup* group) : group_(group) {}
  static const Ranks& one();

  int64_t rank() const { return group_ ? group_->rank() : 0; }
  int64_t size() const { return group_ ? group_->world_size() : 1; }
  /// Among the ranks on this machine.
  int64_t local_rank() const { return group_ ? group_->options().local_rank : 0; }
  int64_t local_size() const { return group_ ? group_->options().local_world_size : 1; }
  bool alone() const { return group_ == nullptr; }
  /// The rank that writes the run folder and talks to the user.
  bool is_first() const { return rank() == 0; }
  /// Not if it is alone.
  distributed::ProcessGroup& group() const { return *group_; }

  /// Begins to add up `numbers` over all ranks.
  RankSums begin_sum(const std::vector<double>& numbers) const;
  /// The texts of all ranks, by number.
  std::vector<std::string> from_all(const std::string& text) const;
  /// The text of rank 0.
  std::string from_first(const std::string& text) const;
  /// The checkpoint of rank 0.
  std::optional<Checkpoint> from_first(const std::optional<Checkpoint>& checkpoint) const;
  /// Gives the model's buffers the values of rank 0.
  void share_buffers(nn::Module& model) const;
  /// throws: DistributedError naming the first rank and line in which `text` differs from rank 0's.
  void check_same(const char* what, const std::string& text) const;
  /// Returns when all ranks have come here.
  void meet() const;
  /// Calls `work`, which makes no calls here, and returns when all ranks have done theirs. A
  /// download may take hours: as long as its rank lives, the others wait, beyond the time that a
  /// call may take.
  /// throws: what `work` throws; the others then learn that this rank has failed.
  void wait_for_each(const std::function<void()>& work) const;
  /// Before an end or an error that all ranks agree on: returns when each of them knows it, so that
  /// the first one to leave is no cause for the others.
  void part() const;
  /// From the present state of the default generators on, which is the same on all ranks, each rank
  /// draws numbers of its own on `device`. Rank 0 draws those that one process would draw.
  void separate_random_numbers(Device device) const;

  /// Tells the others why this rank ends.
  void abort(const std::string& reason) const noexcept;

 private:
  distributed::ProcessGroup* group_ = nullptr;  // null: alone
};

}  // namespace lathe::train
