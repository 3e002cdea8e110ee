// Memory: which values of a program may lie in the same memory. Internal: program.h is what others
// use.
#pragma once

#include <cstddef>
#include <numeric>
#include <vector>

namespace lathe::jit::pt2 {

/// Slots that may lie in the same memory, as groups.
class Memory {
 public:
  explicit Memory(size_t slots) : parent_(slots), outside_(slots) {
    std::iota(parent_.begin(), parent_.end(), 0);
  }

  /// A number that the slots of one group share.
  int find(int slot) {
    while (parent_[at(slot)] != slot) slot = parent_[at(slot)] = parent_[at(parent_[at(slot)])];
    return slot;
  }
  void join(int a, int b) {
    a = find(a);
    b = find(b);
    if (outside_[at(a)]) outside_[at(b)] = true;
    parent_[at(a)] = b;
  }
  /// The tensor belongs to somebody else.
  void set_outside(int slot) { outside_[at(find(slot))] = true; }
  bool is_outside(int slot) { return outside_[at(find(slot))]; }

 private:
  static size_t at(int slot) { return static_cast<size_t>(slot); }

  std::vector<int> parent_;
  std::vector<bool> outside_;
};

}  // namespace lathe::jit::pt2
