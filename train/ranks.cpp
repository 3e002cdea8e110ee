// Ranks: sums over all ranks, and the values of rank 0 on all of them.
#include "lathe/train/ranks.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "lathe/autograd/grad_mode.h"
#include "lathe/core/copy.h"
#include "lathe/core/error.h"
#include "lathe/core/format.h"
#include "lathe/core/random/generator.h"
#include "lathe/core/start_thread.h"
#include "lathe/distributed/replicate.h"
#include "lathe/distributed/tensor_list.h"

namespace lathe::train {
std::vector<double> RankSums::wait() {
  work.wait();
  return values.to_vector<double>();
}

const Ranks& Ranks::one() {
  static const Ranks ranks;
  return ranks;
}

RankSums Ranks::begin_sum(const std::vector<double>& numbers) const {
  RankSums out{.values = empty({static_cast<int64_t>(numbers.size())}, {.dtype = kF64})};
  std::ranges::copy(numbers, out.values.data<double>());
  if (group_) out.work = group_->all_reduce_(out.values);
  return out;
}

std::vector<std::string> Ranks::from_all(const std::string& text) const {
  return group_ ? group_->all_gather_text(text) : std::vector<std::string>{text};
}

std::string Ranks::from_first(const std::string& text) const {
  if (!group_) return text;
  return group_->all_gather_text(is_first() ? text : std::string()).front();
}

std::optional<Checkpoint> Ranks::from_first(const std::optional<Checkpoint>& checkpoint) const {
  if (!group_) return checkpoint;
  const std::string list = from_first(
      checkpoint ? distributed::tensor_list(checkpoint->tensors, checkpoint->metadata) : "");
  if (list.empty()) return std::nullopt;
  const safetensors::Header sent =
      distributed::read_tensor_list(*group_, "train::Ranks: the checkpoint", 0, list);
  Checkpoint out{.tensors = {}, .metadata = sent.metadata, .has_checksum = true};
  for (const safetensors::HeaderEntry& entry : sent.entries) {
    const Tensor value = is_first() ? checkpoint->tensors.at(entry.name).detach().contiguous()
                                    : empty(entry.shape, {.dtype = entry.dtype});
    group_->broadcast_(value).wait();
    out.tensors.add(entry.name, value);
  }
  return is_first() ? checkpoint : out;
}

void Ranks::share_buffers(nn::Module& model) const {
  if (!group_) return;
  const NoGrad no_grad;
  for (const auto& [name, buffer] : model.named_buffers()) group_->broadcast_(buffer).wait();
}

void Ranks::check_same(const char* what, const std::string& text) const {
  if (group_) distributed::check_same(*group_, what, group_->all_gather_text(text));
}

void Ranks::meet() const {
  if (group_) group_->barrier().wait();
}

void Ranks::wait_for_each(const std::function<void()>& work) const {
  if (!group_) return work();
  std::mutex mutex;
  std::condition_variable changed;
  enum class State { kBusy, kDone, kFailed } state = State::kBusy;  // of this rank's work
  std::exception_ptr problem;
  const auto pause =
      std::chrono::duration<double>(std::min(5.0, 0.05 * group_->options().timeout_seconds));
  // A call of all ranks now and then, so that none of them waits in one for long.
  std::thread rounds = start_thread("ranks that wait for each other", [&] {
    try {
      std::unique_lock lock(mutex);
      while (state != State::kFailed) {
        const std::string word = state == State::kDone ? "done" : "busy";
        lock.unlock();
        const std::vector<std::string> words = group_->all_gather_text(word);
        lock.lock();
        if (std::ranges::all_of(words, [](const std::string& w) { return w == "done"; })) return;
        changed.wait_for(lock, pause, [&] { return state != State::kBusy; });
      }
    } catch (...) {
      problem = std::current_exception();
    }
  });
  const auto end = [&](State how) {
    {
      const std::lock_guard lock(mutex);
      state = how;
    }
    changed.notify_all();
    rounds.join();
  };
  try {
    work();
  } catch (...) {
    end(State::kFailed);
    throw;
  }
  end(State::kDone);
  if (problem) std::rethrow_exception(problem);
}

void Ranks::part() const {
  if (group_) distributed::wait_until_all_know(*group_);
}

void Ranks::separate_random_numbers(Device device) const {
  if (is_first()) return;
  // Rank 0 computes on the first GPU.
  const Generator::State same =
      default_generator(device.is_cuda() ? Device("cuda:0") : kCPU).state();
  constexpr uint64_t kApart = 0x9E3779B97F4A7C15;  // far from seeds that people choose
  default_generator(device).set_state(
      {same.seed + static_cast<uint64_t>(rank()) * kApart, same.offset});
}

void Ranks::abort(const std::string& reason) const noexcept {
  if (group_) group_->abort(reason);
}

}  // namespace lathe::train
