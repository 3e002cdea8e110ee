// LiveMemory: records which tensors are alive, the op and the call that made each, and what grows
// from step to step. While no LiveMemory exists, the cost is three loads in the life of a tensor
// and two in the life of a graph node.
//
//   profile::LiveMemory memory;
//   for (…) { train(batch); memory.step(); }
//   std::cout << memory.table() << memory.growth_text();
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "lathe/core/config.h"
#include "lathe/core/device.h"
#include "lathe/core/dtype.h"
#include "lathe/core/error.h"
#include "lathe/core/hooks/memory_tag.h"
#include "lathe/core/shape.h"

namespace lathe {

class Storage;
struct TensorImpl;

namespace profile {

/// The memory of a tensor that is alive. A tensor and its views count once.
struct LATHE_API LiveTensor {
  int64_t bytes = 0;
  Device device;
  bool pinned = false;
  MemoryTag tag = MemoryTag::kOther;
  DType dtype = DType::kU8;  // of the first tensor in this memory
  Shape shape = {};
  const char* op = "";            // the recorded op whose result it is; "" for none
  int64_t step = 0;               // how many step() there were before it was made
  std::vector<void*> stack = {};  // return addresses, innermost first
  std::string place() const;      // "train.cpp:42 (train())", see user_call() in stack.h
};

/// A call of the program that keeps more from step to step: bytes, tensors or autograd nodes.
struct Growth {
  std::string op, place;
  double bytes_per_step = 0, tensors_per_step = 0;
  double nodes_per_step = 0;  // of the autograd graph
  // true: a growing graph ends here. The program keeps the result of this op, or a tensor made of
  // it.
  bool holds_graph = false;
};

class LATHE_API LiveMemory {
 public:
  /// Starts recording new tensors. Tensors that exist already are not seen.
  /// throws: StateError if another LiveMemory exists; the message says where it was made.
  [[nodiscard]] explicit LiveMemory(SourcePlace place = here(__builtin_FILE(), __builtin_LINE()));
  ~LiveMemory();
  LiveMemory(const LiveMemory&) = delete;
  LiveMemory& operator=(const LiveMemory&) = delete;

  /// The tensors that were made since this object and are alive, the largest first.
  std::vector<LiveTensor> live() const;
  /// The tensors of live() as text: size, tag, dtype and shape, op and place of the `rows` largest
  /// ones. Also says how many tensors and nodes could not be recorded for lack of memory.
  std::string table(size_t rows = 20) const;

  /// Ends a training step: notes what is alive. Call it when the temporaries of the step are gone.
  void step();
  /// The calls that keep more and more: their live bytes, or the number of their live tensors and
  /// autograd nodes, reach a new maximum in most steps. The first step is not counted: it is
  /// warm-up. Calls that keep an autograd graph come first, then all others, each sorted by bytes.
  /// Empty before the fourth step().
  std::vector<Growth> growth() const;
  /// growth() as text, a sentence for each call; "" if nothing grows.
  std::string growth_text() const;

 private:
  struct Key {
    const char* op;
    std::vector<void*> stack;
    auto operator<=>(const Key&) const = default;
  };
  struct Sample {
    int64_t step = 0, bytes = 0, tensors = 0, nodes = 0;
  };
  using Samples = std::vector<Sample>;

  bool grows(const Samples& samples) const;
  static std::set<Key> ends_of_graphs();

  int64_t steps_ = 0;
  std::map<Key, Samples> places_;
};

namespace detail {
LATHE_API extern constinit std::atomic<bool> live_wanted;
/// False only when no LiveMemory reads the tensor any more.
inline bool notes_live() noexcept { return live_wanted.load(std::memory_order_acquire); }
void note_alive(const Storage& storage) noexcept;
void note_gone(const void* object) noexcept;
void note_shape(const TensorImpl& tensor) noexcept;
void note_maker(const void* node, const char* op, std::vector<const void*> inputs,
                const Storage* output) noexcept;
/// "; the largest: …", three tensors of `device` and where they were made; "" while none records.
std::string largest_alive(Device device, bool pinned);
}  // namespace detail

/// The library calls these when a storage or an autograd node is made or freed.
inline void note_alive(const Storage& storage) noexcept {
  if (detail::notes_live()) [[unlikely]]
    detail::note_alive(storage);
}
inline void note_gone(const Storage& storage) noexcept {
  if (detail::notes_live()) [[unlikely]]
    detail::note_gone(&storage);
}
inline void note_node_gone(const void* node) noexcept {
  if (detail::notes_live()) [[unlikely]]
    detail::note_gone(node);
}
/// For the library: notes the first tensor of its storage.
inline void note_shape(const TensorImpl& tensor) noexcept {
  if (detail::notes_live()) [[unlikely]]
    detail::note_shape(tensor);
}

}  // namespace profile
}  // namespace lathe
