// Packing and padding: each is one index_select over the elements of all steps.
#include "lathe/nn/packed_sequence.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "lathe/core/error.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/index.h"
#include "lathe/ops/join.h"
#include "lathe/ops/pad.h"
#include "lathe/ops/rearrange.h"
#include "lathe/ops/views.h"

namespace lathe::nn::utils::rnn {

namespace {

/// The elements of x [n,…] in the order of `index`.
Tensor chosen(const Tensor& x, const std::vector<int64_t>& index) {
  return index_select(x, 0, tensor(index, {.device = x.device()}));
}

/// Where each sequence goes if the longest comes first.
std::vector<int64_t> longest_first(const std::vector<int64_t>& lengths) {
  std::vector<int64_t> order(lengths.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::ranges::greater(),
                           [&](int64_t n) { return lengths[static_cast<size_t>(n)]; });
  return order;
}

std::vector<int64_t> inverse_of(const std::vector<int64_t>& order) {
  std::vector<int64_t> places(order.size());
  for (size_t i = 0; i < order.size(); ++i)
    places[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  return places;
}

}  // namespace

std::vector<int64_t> lengths_of(const std::vector<int64_t>& batch_sizes) {
  std::vector<int64_t> lengths(batch_sizes.empty() ? 0 : static_cast<size_t>(batch_sizes[0]));
  for (const int64_t size : batch_sizes)
    for (int64_t n = 0; n < size; ++n) ++lengths[static_cast<size_t>(n)];
  return lengths;
}

void check_packed(const char* who, const PackedSequence& s) {
  const auto& sizes = s.batch_sizes;
  LATHE_CHECK(ValueError, s.data.defined() && s.data.ndim() > 0 && !sizes.empty(), who,
              ": expected data and a batch size for each step (data: ", s.data, ", ", sizes.size(),
              " batch sizes)");
  LATHE_CHECK(ValueError, std::ranges::is_sorted(sizes, std::ranges::greater()) && sizes.back() > 0,
              who, ": batch_sizes must be positive and must not grow, got ", sizes.front(),
              " first and ", sizes.back(), " last");
  const int64_t sum = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  LATHE_CHECK(ValueError, sum == s.data.dim(0), who, ": batch_sizes add up to ", sum,
              " elements (data: ", s.data, ")");
  const auto &order = s.sorted_indices, &back = s.unsorted_indices;
  std::vector<int64_t> numbers = order;
  std::ranges::sort(numbers);
  std::vector<int64_t> all(order.empty() ? 0 : static_cast<size_t>(sizes[0]));
  std::iota(all.begin(), all.end(), 0);
  LATHE_CHECK(ValueError, numbers == all && back == inverse_of(order), who,
              ": sorted_indices and unsorted_indices must be permutations of the ", sizes[0],
              " sequences, each the inverse of the other, got ", order.size(), " and ", back.size(),
              " numbers");
}

PackedSequence pack_padded_sequence(const Tensor& x_in, const std::vector<int64_t>& lengths,
                                    const PackOptions& opt) {
  LATHE_CHECK(ShapeError,
              x_in.ndim() >= 2 && !lengths.empty() &&
                  x_in.dim(opt.batch_first ? 0 : 1) == std::ssize(lengths),
              "pack_padded_sequence: expected a sequence for each of ", lengths.size(),
              " lengths (x: ", x_in, ")");
  const Tensor x = opt.batch_first ? transpose(x_in, 0, 1) : x_in;  // [T,N,…]
  const int64_t T = x.dim(0), N = x.dim(1);
  for (const int64_t length : lengths) {
    LATHE_CHECK(ValueError, length >= 1 && length <= T,
                "pack_padded_sequence: lengths must be in [1,", T, "], got ", length);
  }
  const auto longer = std::ranges::is_sorted_until(lengths, std::ranges::greater());
  const bool sorted = longer == lengths.end();
  LATHE_CHECK(ValueError, sorted || !opt.enforce_sorted, "pack_padded_sequence: length ", *longer,
              " comes after ", *(longer - 1),
              "; with enforce_sorted the longest sequence comes first");
  PackedSequence out;
  const std::vector<int64_t> order = longest_first(lengths);
  std::vector<int64_t> places;  // of data's elements in [T*N,…]
  for (int64_t t = 0; t < T; ++t) {
    int64_t size = 0;
    for (; size < N; ++size) {
      const int64_t n = order[static_cast<size_t>(size)];
      if (lengths[static_cast<size_t>(n)] <= t) break;
      places.push_back(t * N + n);
    }
    if (size > 0) out.batch_sizes.push_back(size);
  }
  out.data = chosen(flatten(x, 0, 1), places);
  if (!sorted) {
    out.sorted_indices = order;
    out.unsorted_indices = inverse_of(order);
  }
  return out;
}

PackedSequence pack_padded_sequence(const Tensor& x, const Tensor& lengths,
                                    const PackOptions& options) {
  LATHE_CHECK(DTypeError, lengths.defined() && is_integer(lengths.dtype()),
              "pack_padded_sequence: lengths must be integers (lengths: ", lengths, ")");
  return pack_padded_sequence(x, lengths.to_vector<int64_t>(), options);
}

PaddedSequence pad_packed_sequence(const PackedSequence& s, const PadOptions& opt) {
  check_packed("pad_packed_sequence", s);
  const auto steps = static_cast<int64_t>(s.batch_sizes.size());
  LATHE_CHECK(ValueError, opt.total_length == 0 || opt.total_length >= steps,
              "pad_packed_sequence: total_length is ", opt.total_length,
              ", but the longest sequence has ", steps, " elements");
  const int64_t T = opt.total_length == 0 ? steps : opt.total_length, N = s.batch_sizes[0];
  const bool sorted = s.sorted_indices.empty();
  const int64_t padding = s.data.dim(0);  // the place of the padding, after data's elements
  std::vector<int64_t> places(static_cast<size_t>(T * N), padding);
  int64_t place = 0;
  for (int64_t t = 0; t < steps; ++t) {
    for (int64_t i = 0; i < s.batch_sizes[static_cast<size_t>(t)]; ++i) {
      const int64_t n = sorted ? i : s.sorted_indices[static_cast<size_t>(i)];
      places[static_cast<size_t>(opt.batch_first ? n * T + t : t * N + n)] = place++;
    }
  }
  Shape one = s.data.shape();
  one[0] = 1;
  const Tensor filler =
      full(one, opt.padding_value, {.dtype = s.data.dtype(), .device = s.data.device()});
  const Tensor all = chosen(cat({s.data, filler}), places);
  Shape shape = all.shape();
  shape[0] = opt.batch_first ? T : N;
  shape.insert(0, opt.batch_first ? N : T);
  PaddedSequence out{view(all, shape), {}};
  const std::vector<int64_t> lengths = lengths_of(s.batch_sizes);
  out.lengths = lengths;
  for (size_t i = 0; i < s.sorted_indices.size(); ++i)
    out.lengths[static_cast<size_t>(s.sorted_indices[i])] = lengths[i];
  return out;
}

Tensor pad_sequence(const Tensors& sequences, const PadSequenceOptions& opt) {
  LATHE_CHECK(ValueError, !sequences.empty(), "pad_sequence: expected one sequence at least");
  int64_t longest = 0;
  for (const Tensor& s : sequences) {
    LATHE_CHECK(ShapeError, s.ndim() > 0, "pad_sequence: a sequence must be [length,…], got ", s);
    longest = std::max(longest, s.dim(0));
  }
  Tensors padded;
  for (const Tensor& s : sequences) {
    std::vector<int64_t> amounts(2 * static_cast<size_t>(s.ndim()));
    amounts.back() = longest - s.dim(0);
    padded.push_back(pad(s, amounts, opt.padding_value));
  }
  return stack(padded, opt.batch_first ? 0 : 1);
}

PackedSequence pack_sequence(const Tensors& sequences, bool enforce_sorted) {
  const Tensor x = pad_sequence(sequences);
  std::vector<int64_t> lengths;
  for (const Tensor& s : sequences) lengths.push_back(s.dim(0));
  return pack_padded_sequence(x, lengths, {.enforce_sorted = enforce_sorted});
}

}  // namespace lathe::nn::utils::rnn
