// The smallest thing that can be saved, for tests of what is in a file: a tensor of one number.
#pragma once

#include <filesystem>
#include <vector>

#include "lathe/nn/checkpoint.h"
#include "lathe/ops/creation.h"
#include "lathe/train/snapshot.h"

namespace lathe::test {

struct Number {
  Tensor value = zeros({1000});
  StateDict state_dict() const {
    StateDict out;
    out.add("value", value);
    return out;
  }
  void load_state_dict(const StateDict&) {}
};

/// The number in a checkpoint that has a Number.
inline float saved_number(const std::filesystem::path& file) {
  return read_checkpoint(file.string()).tensors.at("value").to_vector<float>()[0];
}

inline Checkpoint state_of(Number& number) { return collect_checkpoint({{"model", number}}); }

/// The values in a snapshot of such a checkpoint.
inline std::vector<float> values_of(const train::Snapshot& snapshot) {
  return snapshot.checkpoint().tensors.at("value").to_vector<float>();
}

}  // namespace lathe::test
