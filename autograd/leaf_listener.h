// LeafListener: learns while a backward pass runs that the gradient of a leaf is complete, and may
// give the leaf another one. What overlaps with a backward pass (DistributedDataParallel) hangs on
// it. leaf_listener.cpp: the leaves' links and Listening, the engine's part.
//
// Note [When a gradient is complete]
// Nodes run newest first. So a leaf's gradient is complete when the oldest node with an edge to it
// has run, or was passed over because nothing arrived there. The engine looks for these nodes
// before the pass, in one walk over the graph, and only if some leaf has a listener.
// A node that is computed again (checkpoint) may lead to any leaf. Its new graph is walked when it
// is made. Until the oldest node of this kind has run, with all that it led to, no gradient is
// complete. So of a model with checkpoints all gradients are complete only late in the pass.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <queue>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "lathe/autograd/node.h"
#include "lathe/core/function_ref.h"
#include "lathe/core/tensor.h"

namespace lathe::autograd {

/// Each leaf has a number, which its listener chose. All calls come on the thread of backward(),
/// outside the locks of gradients. Passes of grad() change no gradient, and nobody hears of them.
class LATHE_API LeafListener {
 public:
  struct Pass {
    std::vector<size_t> leaves;  // of this listener, in no order: the pass leads to them
    bool all_known;              // false: a checkpoint may lead to further ones
    bool create_graph;
  };
  struct NewGrad {
    Tensor leaf;
    Tensor grad;  // in memory that no grad() shares
  };

  virtual ~LeafListener() = default;

  /// A pass that leads to at least one of the leaves. Unless this returns true, nothing else is
  /// called, and the pass is as without a listener. What it throws, backward() throws.
  virtual bool begin(const Pass& pass) = 0;
  /// The gradient that the pass has for a leaf is complete; the leaf's hooks have seen it.
  /// Undefined: the pass leads to the leaf, but no gradient came. True: the listener takes it, and
  /// the pass adds nothing to grad().
  virtual bool complete(size_t number, const Tensor& gradient) = 0;
  /// All gradients are complete. What this throws, backward() throws, and no grad() has changed.
  /// → what grad() of which leaves is to be. A grad() that exists gets the values in place.
  virtual std::vector<NewGrad> end() = 0;
  /// The pass fails, and no grad() changes. Comes after begin(), also if that or end() threw.
  virtual void failed(const char* reason) noexcept = 0;
};

/// `listener`, which must outlive the link, hears of `leaf` under `number`. Ends with the leaf.
/// throws: StateError if `leaf` is no leaf that requires grad, or has a listener.
LATHE_API void listen(const Tensor& leaf, LeafListener& listener, size_t number);
/// Ends that. Does nothing for a leaf without a listener.
LATHE_API void stop_listening(const Tensor& leaf) noexcept;

/// What a leaf keeps of its listener.
class LeafLink {
 public:
  LeafLink(LeafListener& listener, size_t number) noexcept;
  ~LeafLink();
  LeafLink(const LeafLink&) = delete;
  LeafLink& operator=(const LeafLink&) = delete;

  LeafListener& listener;
  const size_t number;
};

/// True if some leaf of the process has a listener. One load.
bool any_listeners() noexcept;

/// The listeners of one backward pass.
class Listening {
 public:
  /// `only`: null, or the leaves whose grad() may change.
  Listening(bool create_graph, const Tensors* only) : create_graph_(create_graph), only_(only) {}

  /// Walks over what `edge` leads to.
  void follow(const Edge& edge);
  /// Calls begin() of the listeners that the walks found since.
  void announce();
  /// Calls `tell` for each leaf that is complete when `next` is the newest node that waits (0: none
  /// waits), then forgets it.
  using Tell = FunctionRef<void(TensorImpl* leaf, LeafListener& listener, size_t number)>;
  void complete(uint64_t next, Tell tell);
  std::vector<LeafListener::NewGrad> end();
  void fail(const char* reason) noexcept;

 private:
  void see_leaf(const IntrusivePtr<TensorImpl>& leaf, uint64_t node);

  const bool create_graph_;
  const Tensors* const only_;
  std::unordered_set<uint64_t> seen_;   // numbers of nodes, which may be gone by now
  uint64_t oldest_again_ = UINT64_MAX;  // the oldest node that is computed again
  struct Oldest {
    uint64_t node;  // the oldest one with an edge to the leaf
    const LeafLink* link;
  };
  std::unordered_map<TensorImpl*, Oldest> waiting_;
  struct Place {
    uint64_t node;
    int64_t order;  // of leaves with the same node: falls as they are found
    TensorImpl* leaf;
    auto operator<=>(const Place&) const = default;
  };
  std::priority_queue<Place> by_age_;  // newest first; some outdated
  int64_t order_ = 0;
  std::vector<TensorImpl*> found_;  // since announce()
  std::vector<LeafListener*> listeners_, declined_;
};

}  // namespace lathe::autograd
