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

struct LoopDim {
  int64_t size, in, out;  // steps in bytes; out is 0 where the dimension is reduced
};

/// Some dimensions of a loop nest; the first is the innermost.
struct Loops {
  LoopDim dims[kMaxDims];
  int count = 0;

  int64_t size() const {
    int64_t n = 1;
    for (int d = 0; d < count; ++d) n *= dims[d].size;
    return n;
  }
  void push(const LoopDim& dim) {
    if (count > 0) {
      LoopDim& last = dims[count - 1];
      if (dim.in == last.in * last.size && dim.out == last.out * last.size) {
        last.size *= dim.size;  // it continues the last one: both are one dimension
        return;
      }
    }
    dims[count++] = dim;
  }
  LoopDim pop_innermost() {
    const LoopDim first = dims[0];
    for (int d = 1; d < count; ++d) dims[d - 1] = dims[d];
    --count;
    return first;
  }
};

/// A position in Loops.
class Walk {
 public:
  Walk(const Loops& loops, int64_t at) : loops_(loops) {
    for (int d = 0; d < loops.count; ++d) {
      index_[d] = at % loops.dims[d].size;
      at /= loops.dims[d].size;
      in += index_[d] * loops.dims[d].in;
      out += index_[d] * loops.dims[d].out;
    }
  }
  void next() {
    for (int d = 0; d < loops_.count; ++d) {
      const LoopDim& dim = loops_.dims[d];
      in += dim.in;
      out += dim.out;
      if (++index_[d] < dim.size) return;
      in -= dim.size * dim.in;
      out -= dim.size * dim.out;
      index_[d] = 0;
    }
  }
  int64_t in = 0, out = 0;  // bytes from the start

 private:
  const Loops& loops_;
  int64_t index_[kMaxDims];
};

struct Plan {
  Loops kept, reduced;
  bool inner = true;  // the densest dimension is reduced
  char* out;
  const char* in;
};

/// Both tensors have the same number of dimensions and at least one element each.
Plan make_plan(const Tensor& out, const Tensor& x);

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
  Inner(Plan plan, Load<A> load, int64_t element_bytes, bool direct, const Folder& folder)
      : plan_(plan), load_(load), direct_(direct), folder_(folder) {
    row_ = plan_.reduced.pop_innermost();
    direct_ = direct && row_.in == element_bytes;
    rows_ = plan_.reduced.size();
    pieces_ = ceil_div(row_.size, kBlock);
    group_ = row_.size >= kBlock ? 1 : kBlock / row_.size;
    blocks_ = ceil_div(rows_, group_) * pieces_;
    chunks_ = ceil_div(blocks_, kChunkBlocks);
  }

  void run(Store<A> store) {
    using Partial = typename Folder::Partial;
    const int64_t outputs = plan_.kept.size();
    const int64_t per_item = std::max<int64_t>(1, rows_ * row_.size / chunks_);
    const int64_t grain = std::max<int64_t>(1, kParallelGrain / per_item);
    if (chunks_ == 1) {
      parallel_for(outputs, grain, [&](int64_t begin, int64_t end) {
        Walk output(plan_.kept, begin);
        for (int64_t o = begin; o < end; ++o, output.next()) {
          store(plan_.out + output.out, folder_.finish(fold_chunk(plan_.in + output.in, 0)));
        }
      });
      return;
    }
    std::vector<Partial> parts(static_cast<size_t>(chunks_ * outputs));
    parallel_for(outputs * chunks_, grain, [&](int64_t begin, int64_t end) {
      for (int64_t item = begin; item < end; ++item) {
        const Walk output(plan_.kept, item / chunks_);
        parts[static_cast<size_t>(item)] = fold_chunk(plan_.in + output.in, item % chunks_);
      }
    });
    Walk output(plan_.kept, 0);
    for (int64_t o = 0; o < outputs; ++o, output.next()) {
      Partial* own = parts.data() + o * chunks_;
      join_pairs<Folder>(own, chunks_, 1);
      store(plan_.out + output.out, folder_.finish(own[0]));
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

  /// Folds a piece of one long row, or several short rows gathered.
  typename Folder::Partial fold_block(const char* in, int64_t block) const {
    A gathered[kBlock];
    if (blocks_ == 1 && rows_ == 1) {  // the usual case of a short row: nothing to compute first
      if (direct_) return Folder::fold(reinterpret_cast<const A*>(in), row_.size);
      load_(gathered, in, row_.size, row_.in);
      return Folder::fold(gathered, row_.size);
    }
    const int64_t first = block / pieces_ * group_, count = std::min(group_, rows_ - first);
    const int64_t start = block % pieces_ * kBlock, n = std::min(kBlock, row_.size - start);
    Walk row(plan_.reduced, first);
    const char* from = in + row.in + start * row_.in;
    if (count == 1 && direct_) return Folder::fold(reinterpret_cast<const A*>(from), n);
    for (int64_t r = 0; r < count; ++r, row.next()) {
      load_(gathered + r * n, in + row.in + start * row_.in, n, row_.in);
    }
    return Folder::fold(gathered, count * n);
  }

  Plan plan_;
  Load<A> load_;
  bool direct_;  // the numbers can be read where they are
  const Folder& folder_;
  LoopDim row_{};
  int64_t rows_, pieces_, group_, blocks_, chunks_;
};

/// The densest dimension is kept: a tile of adjacent outputs at a time.
template <class Folder, class A = typename Folder::Value>
class Outer {
 public:
  using Partial = typename Folder::Partial;

  Outer(Plan plan, Load<A> load, int64_t element_bytes, bool direct, const Folder& folder)
      : plan_(plan), load_(load), folder_(folder) {
    cols_ = plan_.kept.pop_innermost();
    direct_ = direct && cols_.in == element_bytes;
    rows_ = plan_.reduced.size();
    tiles_ = ceil_div(cols_.size, kColumns);
    width_ = std::min(cols_.size, kColumns);
    chunks_ = ceil_div(ceil_div(rows_, kRows), kChunkBlocks);
  }

  void run(Store<A> store) {
    const int64_t bands = plan_.kept.size() * tiles_;  // each is a tile of outputs
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
    const char* in =
        plan_.in + Walk(plan_.kept, band / tiles_).in + band % tiles_ * kColumns * cols_.in;
    const int64_t begin = chunk * kChunkBlocks * kRows;
    const int64_t end = std::min(rows_, begin + kChunkBlocks * kRows);
    Walk row(plan_.reduced, begin);
    A gathered[kRows * kColumns];
    const A* rows[kRows];
    Partial block[kColumns];
    for (int64_t r = begin; r < end;) {
      int count = 0;
      for (; count < kRows && r < end; ++count, ++r, row.next()) {
        const char* from = in + row.in;
        if (direct_) {
          rows[count] = reinterpret_cast<const A*>(from);
        } else {
          load_(gathered + count * n, from, n, cols_.in);
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
    char* to =
        plan_.out + Walk(plan_.kept, band / tiles_).out + band % tiles_ * kColumns * cols_.out;
    const int64_t n = columns_of(band);
    for (int64_t c = 0; c < n; ++c) store(to + c * cols_.out, folder_.finish(part[c]));
  }

  Plan plan_;
  Load<A> load_;
  bool direct_;
  const Folder& folder_;
  LoopDim cols_{};
  int64_t rows_, tiles_, width_, chunks_;
};

/// Runs a plan. `direct`: the tensor's elements are of type A, so `load` would only copy them.
template <class Folder, class A = typename Folder::Value>
void run(const Plan& plan, Load<A> load, int64_t element_bytes, bool direct, Store<A> store,
         const Folder& folder) {
  if (plan.inner) {
    Inner<Folder>(plan, load, element_bytes, direct, folder).run(store);
  } else {
    Outer<Folder>(plan, load, element_bytes, direct, folder).run(store);
  }
}

}  // namespace lathe::reduce_order
