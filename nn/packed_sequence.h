// Sequences of different lengths in one tensor, as the recurrent layers take them (recurrent.h).
#pragma once

#include <cstdint>
#include <vector>

#include "lathe/core/tensor.h"

namespace lathe::nn::utils::rnn {

/// Sequences without padding. `data` holds the first elements of all sequences, then the second
/// elements of all sequences that have one, and so on. The longest sequence comes first.
struct LATHE_API PackedSequence {
  Tensor data;                       // [sum of the lengths,…]
  std::vector<int64_t> batch_sizes;  // for each step the number of sequences that have it
  // Empty if the caller's sequences were already sorted by length.
  std::vector<int64_t> sorted_indices;  // for each sequence in data its place in the caller's list
  std::vector<int64_t> unsorted_indices;  // for each sequence of the caller its place in data

  Tensors tensors() const { return {data}; }
};

struct PackOptions {
  bool batch_first = false;    // x is [N,T,…], not [T,N,…]
  bool enforce_sorted = true;  // the lengths must not grow; false: any order
};

/// Packs the first lengths[n] elements of each sequence n of x [T,N,…].
/// grad: x.
/// throws: ShapeError unless x has at least two dimensions and a sequence for each length;
/// ValueError for a length outside [1, T] or, with enforce_sorted, for a length above the one
/// before.
/// ref: torch.nn.utils.rnn.pack_padded_sequence.
LATHE_API PackedSequence pack_padded_sequence(const Tensor& x, const std::vector<int64_t>& lengths,
                                              const PackOptions& options = {});
/// Like pack_padded_sequence() with a vector, for lengths in a tensor [N] of integers. Waits for
/// the tensor's device.
LATHE_API PackedSequence pack_padded_sequence(const Tensor& x, const Tensor& lengths,
                                              const PackOptions& options = {});

struct PadOptions {
  bool batch_first = false;  // the result is [N,T,…], not [T,N,…]
  double padding_value = 0;
  int64_t total_length = 0;  // T; 0: that of the longest sequence
};

struct PaddedSequence {
  Tensor x;
  std::vector<int64_t> lengths;
};

/// The inverse of pack_padded_sequence(): a padded tensor, with the sequences in the caller's
/// order.
/// grad: data.
/// throws: ValueError if total_length is shorter than a sequence, or for a PackedSequence whose
/// data and batch_sizes do not belong together.
/// ref: torch.nn.utils.rnn.pad_packed_sequence.
LATHE_API PaddedSequence pad_packed_sequence(const PackedSequence& sequence,
                                             const PadOptions& options = {});

struct PadSequenceOptions {
  bool batch_first = false;
  double padding_value = 0;
};

/// Sequences [length,…] as one tensor [T,N,…], padded at their ends.
/// grad: the sequences.
/// throws: ValueError for an empty list; ShapeError, DTypeError for sequences that differ in more
/// than their length.
LATHE_API Tensor pad_sequence(const Tensors& sequences, const PadSequenceOptions& options = {});
/// Packs sequences [length,…].
/// throws: as pad_sequence and pack_padded_sequence.
LATHE_API PackedSequence pack_sequence(const Tensors& sequences, bool enforce_sorted = true);

/// The length of each sequence, in the order of PackedSequence::data.
std::vector<int64_t> lengths_of(const std::vector<int64_t>& batch_sizes);
/// Checks that batch_sizes belong to data and do not grow. `who` begins the message.
/// throws: ValueError.
void check_packed(const char* who, const PackedSequence& sequence);

}  // namespace lathe::nn::utils::rnn
