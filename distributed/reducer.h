// Reducer: averages gradients over ranks while a backward pass runs. Used by data_parallel.cpp; see
// data_parallel.h, Note [Gradients that travel during the backward pass].
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lathe/autograd/leaf_listener.h"
#include "lathe/core/stream.h"
#include "lathe/distributed/buckets.h"
#include "lathe/distributed/data_parallel.h"

namespace lathe::distributed {

class Reducer final : public autograd::LeafListener {
 public:
  /// `parameters`: those to be trained, the same ones on all ranks.
  Reducer(ProcessGroup& group, const nn::Module::Named<Tensor>& parameters,
          const DataParallelOptions& options);
  ~Reducer() override;

  bool begin(const Pass& pass) override;
  bool complete(size_t number, const Tensor& gradient) override;
  std::vector<NewGrad> end() override;
  void failed(const char* reason) noexcept override;

  const std::vector<Bucket>& buckets() const { return buckets_; }

  bool sync = true;  // false: in the scope of no_sync()

 private:
  enum class State : uint8_t { kWaits, kCame, kUnused };
  struct Place {
    size_t bucket, at;
  };
  // Marks of a pass that stayed on a GPU, and what this rank did then.
  struct LateMarks {
    Tensor marks;  // all of them; undefined: there are none
    std::optional<Event> summed;
    std::vector<State> states;
  };

  void set_order(const std::vector<size_t>& order);
  void check_fits(size_t number) const;
  void settle(size_t number, State state, const Tensor& gradient);
  void reduce_complete_buckets();
  void reduce(const Bucket& bucket);
  void mark(const Bucket& bucket) const;
  void collect(size_t bucket);
  bool is_late(const Bucket& bucket) const;
  std::vector<double> marks_of(const Bucket& bucket) const;
  LateMarks keep_marks(const std::vector<const Bucket*>& buckets) const;
  std::vector<double> read(const LateMarks& late);
  bool find_missing();
  void append_new_grads(std::vector<NewGrad>& out, const Bucket& bucket) const;
  void learn_order();
  [[noreturn]] void throw_unused();
  bool alone() const { return group_.world_size() == 1; }
  bool is_recorded() const;

  ProcessGroup& group_;
  const DataParallelOptions options_;
  std::vector<std::string> names_;
  Tensors parameters_;
  std::vector<Bucket> buckets_;
  std::vector<Place> places_;  // of each parameter

  // Of the pass that runs:
  bool running_ = false;
  bool recorded_ = false;  // into a graph: this pass, or the last one
  bool refused_ = false;   // a second pass, which then fails
  std::vector<State> states_;
  std::vector<size_t> waiting_;  // how many gradients each bucket waits for
  struct Travel {
    Tensor memory;  // of the bucket, or a narrower copy of it
    Work work;
  };
  std::vector<Travel> travels_;  // of the buckets so far, in order
  std::vector<size_t> arrived_;  // until the order is learnt

  LateMarks late_;                      // of the pass before
  std::optional<OwnedStream> reading_;  // waits for nothing but what it reads
  bool queues_ = false;  // buckets on a GPU are reduced there, and the host does not wait
  bool learnt_ = false;
};

}  // namespace lathe::distributed
