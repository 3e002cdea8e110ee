// The order in which reduce_cpu.cpp visits elements: blocks that fit the cache, chunks of blocks
// for the threads, pairs of chunks.
//
// Dimensions are sorted by the input's strides. If the densest is reduced ("inner": sum over C of
// [N,C]), a block is kBlock numbers of one output. If it is kept ("outer": sum over N of [N,C]), a
// block is kRows rows of up to kColumns adjacent outputs. Both read memory in order. A chunk of
// kChunkBlocks blocks is one piece of work; chunks are joined in pairs. All of this follows from
// the shape, so the result does not depend on the number of threads.
#pragma once

#include <vector>

#include "lathe/core/ceil_div.h"
#include "lathe/core/loop_nest.h"
#include "lathe/core/strided_loop.h"
#include "lathe/core/tensor.h"
#include "lathe/core/thread_pool.h"

namespace lathe::reduce_order {

inline constexpr int64_t kBlock = 1024, kRows = 32, kColumns = 256, kChunkBlocks = 64;

/// to[i] = the number at from + i * step bytes.
template <class A>
using Load = void (*)(A* to, const char* from, int64_t n, int64_t step);
/// Writes one result at `to`.
template <class A>
using Store = void (*)(void* to, A value);

/// The loops of a reduction, one at least of each kind. Operand 0 is the input, operand 1 the
/// output; steps in bytes.
struct Loops {
  LoopNest kept, reduced;
  bool inner = true;  // the densest dimension is reduced
  const char* in;
  char* out;
};
using Walk = NestWalk<2>;

/// The loops that reduce x into `out`. out and x have the same number of dimensions, and at least
/// one element each.
Loops loops_of(const Tensor& out, const Tensor& x);

/// Joins n partials of `width` numbers each, in pairs, into the first.
template <class Folder>
void join_pairs(typename Folder::Partial* parts, int64_t n, int64_t width) {
  for (int64_t step = 1; step < n; step *= 2) {
    for (int64_t i = 0; i + step < n; i += 2 * step) {
      for (int64_t c = 0; c < width; ++c) {
        Folder::join(parts[i * width + c], parts[(i + step) * width + c]);
      }
    }
  }
}

/// The densest dimension is reduced: one output at a time.
template <class Folder, class A = typename Folder::Value>
class Inner {
 public:
  Inner(const Loops& loops, Load<A> load, int64_t element_bytes, bool direct, const Folder& folder)
      : loops_(loops),
        load_(load),
        folder_(folder),
        size_(loops.reduced.dims[0].size),
        step_(loops.reduced.dims[0].step[0]),
        direct_(direct && step_ == element_bytes) {
    rows_ = loops.reduced.numel() / size_;
    pieces_ = ceil_div(size_, kBlock);
    group_ = size_ >= kBlock ? 1 : kBlock / size_;
    blocks_ = ceil_div(rows_, group_) * pieces_;
    chunks_ = ceil_div(blocks_, kChunkBlocks);
  }

  void run(Store<A> store) {
    using Partial = typename Folder::Partial;
    const int64_t outputs = loops_.kept.numel();
    const int64_t per_item = std::max<int64_t>(1, rows_ * size_ / chunks_);
    const int64_t grain = std::max<int64_t>(1, kParallelGrain / per_item);
    if (chunks_ == 1) {
      parallel_for(outputs, grain, [&](int64_t begin, int64_t end) {
        const int64_t* step = loops_.kept.dims[0].step;
        each_row<2>(loops_.kept, begin, end, [&](const int64_t* offset, int64_t first, int64_t n) {
          const char* in = loops_.in + offset[0] + first * step[0];
          char* out = loops_.out + offset[1] + first * step[1];
          for (int64_t o = 0; o < n; ++o, in += step[0], out += step[1]) {
            store(out, folder_.finish(fold_chunk(in, 0)));
          }
        });
      });
      return;
    }
    std::vector<Partial> parts(static_cast<size_t>(chunks_ * outputs));
    parallel_for(outputs * chunks_, grain, [&](int64_t begin, int64_t end) {
      for (int64_t item = begin; item < end; ++item) {
        const Walk output(loops_.kept, item / chunks_);
        parts[static_cast<size_t>(item)] = fold_chunk(loops_.in + output.offset[0], item % chunks_);
      }
    });
    Walk output(loops_.kept, 0);
    for (int64_t o = 0; o < outputs; ++o, output.next()) {
      Partial* own = parts.data() + o * chunks_;
      join_pairs<Folder>(own, chunks_, 1);
      store(loops_.out + output.offset[1], folder_.finish(own[0]));
    }
  }

 private:
  typename Folder::Partial fold_chunk(const char* in, int64_t chunk) const {
    const int64_t end = std::min(blocks_, (chunk + 1) * kChunkBlocks);
    if (blocks_ == 1) return fold_block(in, 0);
    typename Folder::Partial total = Folder::start();
    for (int64_t b = chunk * kChunkBlocks; b < end; ++b) {
      Folder::join(total, fold_block(in, b));
    }
    return total;
  }

  /// Folds a piece of one long row, or several short rows gathered. Inlined, because a call of its
  /// own, with room for `gathered`, costs as much as a short row.
  [[gnu::always_inline]] typename Folder::Partial fold_block(const char* in, int64_t block) const {
    A gathered[kBlock];
    if (blocks_ == 1 && rows_ == 1) {  // the usual case of a short row: nothing to compute first
      if (direct_) return Folder::fold(reinterpret_cast<const A*>(in), size_);
      load_(gathered, in, size_, step_);
      return Folder::fold(gathered, size_);
    }
    const int64_t first = block / pieces_ * group_, count = std::min(group_, rows_ - first);
    const int64_t start = block % pieces_ * kBlock, n = std::min(kBlock, size_ - start);
    Walk row(loops_.reduced, first, 1);
    const char* from = in + row.offset[0] + start * step_;
    if (count == 1 && direct_) return Folder::fold(reinterpret_cast<const A*>(from), n);
    for (int64_t r = 0; r < count; ++r, row.next()) {
      load_(gathered + r * n, in + row.offset[0] + start * step_, n, step_);
    }
    return Folder::fold(gathered, count * n);
  }

  const Loops& loops_;
  Load<A> load_;
  const Folder& folder_;
  int64_t size_, step_;  // of a row: the innermost reduced dimension
  bool direct_;          // the numbers can be read where they are
  int64_t rows_, pieces_, group_, blocks_, chunks_;
};

/// The densest dimension is kept: a tile of adjacent outputs at a time.
template <class Folder, class A = typename Folder::Value>
class Outer {
 public:
  using Partial = typename Folder::Partial;

  Outer(const Loops& loops, Load<A> load, int64_t element_bytes, bool direct, const Folder& folder)
      : loops_(loops),
        load_(load),
        folder_(folder),
        cols_(loops.kept.dims[0]),
        direct_(direct && cols_.step[0] == element_bytes) {
    rows_ = loops.reduced.numel();
    tiles_ = ceil_div(cols_.size, kColumns);
    width_ = std::min(cols_.size, kColumns);
    chunks_ = ceil_div(ceil_div(rows_, kRows), kChunkBlocks);
  }

  void run(Store<A> store) {
    const int64_t bands = loops_.kept.numel() / cols_.size * tiles_;  // each is a tile of outputs
    std::vector<Partial> parts(static_cast<size_t>(chunks_ > 1 ? bands * chunks_ * width_ : 0));
    const int64_t per_item = std::max<int64_t>(1, rows_ * width_ / chunks_);
    const int64_t grain = std::max<int64_t>(1, kParallelGrain / per_item);
    parallel_for(bands * chunks_, grain, [&](int64_t begin, int64_t end) {
      Partial local[kColumns];
      for (int64_t item = begin; item < end; ++item) {
        const int64_t band = item / chunks_;
        Partial* part = chunks_ == 1 ? local : parts.data() + item * width_;
        fold_chunk(part, band, item % chunks_);
        if (chunks_ == 1) write(band, part, store);
      }
    });
    if (chunks_ == 1) return;
    for (int64_t band = 0; band < bands; ++band) {
      Partial* own = parts.data() + band * chunks_ * width_;
      join_pairs<Folder>(own, chunks_, width_);
      write(band, own, store);
    }
  }

 private:
  int64_t columns_of(int64_t band) const {
    return std::min(kColumns, cols_.size - band % tiles_ * kColumns);
  }

  void fold_chunk(Partial* total, int64_t band, int64_t chunk) const {
    const int64_t n = columns_of(band);
    const char* in = loops_.in + Walk(loops_.kept, band / tiles_, 1).offset[0] +
                     band % tiles_ * kColumns * cols_.step[0];
    const int64_t begin = chunk * kChunkBlocks * kRows;
    const int64_t end = std::min(rows_, begin + kChunkBlocks * kRows);
    Walk row(loops_.reduced, begin);
    A gathered[kRows * kColumns];
    const A* rows[kRows];
    Partial block[kColumns];
    for (int64_t r = begin; r < end;) {
      int count = 0;
      for (; count < kRows && r < end; ++count, ++r, row.next()) {
        const char* from = in + row.offset[0];
        if (direct_) {
          rows[count] = reinterpret_cast<const A*>(from);
        } else {
          load_(gathered + count * n, from, n, cols_.step[0]);
          rows[count] = gathered + count * n;
        }
      }
      if (r - count == begin) {
        Folder::fold_rows(total, rows, count, n);
      } else {
        Folder::fold_rows(block, rows, count, n);
        for (int64_t c = 0; c < n; ++c) Folder::join(total[c], block[c]);
      }
    }
  }

  void write(int64_t band, const Partial* part, Store<A> store) const {
    char* to = loops_.out + Walk(loops_.kept, band / tiles_, 1).offset[1] +
               band % tiles_ * kColumns * cols_.step[1];
    const int64_t n = columns_of(band);
    for (int64_t c = 0; c < n; ++c) store(to + c * cols_.step[1], folder_.finish(part[c]));
  }

  const Loops& loops_;
  Load<A> load_;
  const Folder& folder_;
  const LoopDim& cols_;  // the innermost kept dimension
  bool direct_;
  int64_t rows_, tiles_, width_, chunks_;
};

/// Runs a reduction. `direct`: the tensor's elements are of type A, so `load` would only copy them.
template <class Folder, class A = typename Folder::Value>
void run(const Loops& loops, Load<A> load, int64_t element_bytes, bool direct, Store<A> store,
         const Folder& folder) {
  if (loops.inner) {
    Inner<Folder>(loops, load, element_bytes, direct, folder).run(store);
  } else {
    Outer<Folder>(loops, load, element_bytes, direct, folder).run(store);
  }
}

}  // namespace lathe::reduce_order
