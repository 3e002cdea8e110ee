// Numbers that these tests and their Python scripts (golden_resnet.py, golden_logits.py) make
// alike, so that weights and images need no files.
#pragma once

#include <cstdint>
#include <vector>

#include "lathe/core/tensor.h"
#include "lathe/ops/creation.h"

namespace lathe::test {

/// Number i of a stream, in [-1, 1): MurmurHash3's finaliser.
inline double uniform(uint32_t stream, uint32_t i) {
  uint32_t x = stream * 2654435761u + i;
  x ^= x >> 16;
  x *= 0x85EBCA6Bu;
  x ^= x >> 13;
  x *= 0xC2B2AE35u;
  x ^= x >> 16;
  return x / 2147483648.0 - 1;
}

/// The first numbers of a stream, in f64.
inline Tensor uniforms(uint32_t stream, const Shape& shape) {
  std::vector<double> values(static_cast<size_t>(numel_of(shape)));
  for (size_t i = 0; i < values.size(); ++i) values[i] = uniform(stream, static_cast<uint32_t>(i));
  return tensor(values).reshape(shape);
}

}  // namespace lathe::test
