// LiveMemory: records which tensors are alive, the op and the call that made each, and what grows
// from step to step. While none is there, it costs one load in the life of a tensor.
//
//   profile::LiveMemory memory;
//   for (…) { train(batch); memory.step(); }
//   std::cout << memory.table() << memory.growth_text();
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <source_location>
#include <string>
#include <vector>

#include "lathe/core/config.h"
#include "lathe/core/device.h"
#include "lathe/core/dtype.h"
#include "lathe/core/profile/memory_tag.h"
#include "lathe/core/shape.h"

namespace lathe {

class Storage;
struct TensorImpl;

namespace profile {

/// Memory of a tensor that is alive. Views share it, and count once.
struct LiveTensor {
  int64_t bytes = 0;
  Device device;
  bool pinned = false;
  MemoryTag tag = MemoryTag::kOther;
  DType dtype = DType::kU8;  // of the first tensor that had it
  Shape shape = {};
  const char* op = "";                  // the recorded op whose result it is; "" for none
  int64_t step = 0;                     // how many step() there were before it was made
  std::vector<void*> stack = {};        // return addresses, innermost first
  LATHE_API std::string place() const;  // "train.cpp:42 (train())", see user_call() in stack.h
};

/// What one call of the program leaves behind, more from step to step.
struct Growth {
  std::string op, place;
  double bytes_per_step = 0, tensors_per_step = 0;
  double nodes_per_step = 0;  // of the autograd graph
  // The growing graph ends here: the result of this op, or a tensor made of it, is what is kept.
  bool holds_graph = false;
};

class LiveMemory {
 public:
  /// Begins. Tensors that are there already are not seen.
  /// throws: StateError if another LiveMemory is there, with the place where it was made.
  LATHE_API explicit LiveMemory(std::source_location place = std::source_location::current());
  LATHE_API ~LiveMemory();
  LiveMemory(const LiveMemory&) = delete;
  LiveMemory& operator=(const LiveMemory&) = delete;

  /// The tensors that were made since the begin and are alive, the largest first.
  LATHE_API std::vector<LiveTensor> live() const;
  /// The same as text: size, tag, dtype and shape, op, place.
  LATHE_API std::string table(size_t rows = 20) const;

  /// Ends a step of the training: notes what is alive. Call it when what a step leaves is gone.
  LATHE_API void step();
  /// What grew in most of the steps, and is more at the last than at the first; graphs that are
  /// kept come first, then the most bytes. The first step counts as warm-up. Empty before the
  /// fourth step().
  LATHE_API std::vector<Growth> growth() const;
  /// A sentence for each. "" if nothing grows.
  LATHE_API std::string growth_text() const;

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
  bool ends_graph(const Key& key) const;

  int64_t steps_ = 0;
  std::map<Key, Samples> places_;
};

/// Who holds the memory of `device`, as the end of an error: "tensors hold weights 3 GiB, …", and
/// while a LiveMemory records the largest tensors and where they were made.
/// throws: std::bad_alloc.
LATHE_API std::string who_holds(Device device, bool pinned);

namespace detail {
LATHE_API extern constinit std::atomic<bool> live_wanted;
/// False only when no LiveMemory reads the tensor any more.
inline bool notes_live() noexcept { return live_wanted.load(std::memory_order_acquire); }
void note_alive(const Storage& storage) noexcept;
void note_gone(const void* object) noexcept;
void note_shape(const TensorImpl& tensor) noexcept;
void note_maker(const void* node, const char* op, std::vector<const void*> inputs,
                const Storage* output) noexcept;
}  // namespace detail

/// Says that a storage or a node begins or ends to be alive. For the library.
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
/// The first tensor of its storage.
inline void note_shape(const TensorImpl& tensor) noexcept {
  if (detail::notes_live()) [[unlikely]]
    detail::note_shape(tensor);
}

}  // namespace profile
}  // namespace lathe
