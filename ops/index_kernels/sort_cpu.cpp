// CPU kernel of sort, argsort and topk: line by line, with the order of sort_order.h. Elements
// become unsigned keys in that order, so that a line is sorted digit by digit. Contracts: sort.h.
#include <algorithm>
#include <bit>
#include <limits>
#include <utility>
#include <vector>

#include "lathe/core/strided_loop.h"
#include "lathe/core/thread_pool.h"
#include "lathe/core/visit.h"
#include "lathe/ops/sort.h"

namespace lathe {

namespace {

template <class A>
using KeyOf = std::conditional_t<sizeof(A) <= 4, uint32_t, uint64_t>;

/// An unsigned number in x's place in the order: all NaN above the rest, -0 equal to 0.
template <class A>
KeyOf<A> key_of(A x) {
  using Key = KeyOf<A>;
  constexpr Key kSign = Key{1} << (8 * sizeof(Key) - 1);
  if constexpr (std::is_floating_point_v<A>) {
    const Key bits = std::bit_cast<Key>(x + A(0));  // -0 becomes 0
    const Key key = (bits & kSign) != 0 ? ~bits : bits | kSign;
    return x != x ? ~Key{0} : key;
  } else if constexpr (std::is_signed_v<A>) {
    return static_cast<Key>(static_cast<std::make_signed_t<Key>>(x)) ^ kSign;
  } else {
    return static_cast<Key>(x);
  }
}

template <class Key, class Place>
struct Keyed {
  Key key;
  Place at;
  bool operator<(const Keyed& other) const {
    return key != other.key ? key < other.key : at < other.at;
  }
};

constexpr size_t kFewest = 128;  // elements for which counting digits pays

/// Sorts by key, stable: from the lowest byte to the highest, one pass each. A byte that is the
/// same everywhere needs none.
template <class E>
void sort_by_digits(std::vector<E>& line, std::vector<E>& spare) {
  constexpr int kBytes = sizeof(E::key), kValues = 256;
  const auto digit = [](const E& e, int byte) { return (e.key >> (8 * byte)) % kValues; };
  size_t count[kBytes][kValues] = {};
  for (const E& e : line) {
    for (int byte = 0; byte < kBytes; ++byte) ++count[byte][digit(e, byte)];
  }
  for (int byte = 0; byte < kBytes; ++byte) {
    size_t* next = count[byte];
    if (next[digit(line[0], byte)] == line.size()) continue;
    size_t start = 0;
    for (int v = 0; v < kValues; ++v) start += std::exchange(next[v], start);
    for (const E& e : line) spare[next[digit(e, byte)]++] = e;
    line.swap(spare);
  }
}

/// The k smallest of the line to its front, in order, by a heap of k.
template <class E>
void smallest_first(std::vector<E>& line, int64_t k) {
  const auto top = line.begin(), rest = line.begin() + k;
  std::make_heap(top, rest);
  for (auto e = rest; e != line.end(); ++e) {
    if (e->key >= top->key) continue;  // of equal keys, the earlier element stays
    std::pop_heap(top, rest);
    *(rest - 1) = *e;
    std::push_heap(top, rest);
  }
  std::sort_heap(top, rest);
}

constexpr int64_t kFew = 8;  // elements that are kept in order while a line passes by

/// The k smallest of the n elements to `top`, in order. element(i) is the i-th.
template <class E, class F>
void smallest_of(E* top, int64_t k, int64_t n, F element) {
  int64_t held = 0;
  for (int64_t i = 0; i < n; ++i) {
    const E e = element(i);
    if (held == k && e.key >= top[k - 1].key) continue;  // of equal keys, the earlier one stays
    int64_t place = held < k ? held++ : k - 1;
    for (; place > 0 && e.key < top[place - 1].key; --place) top[place] = top[place - 1];
    top[place] = e;
  }
}

template <class Place, class T>
void sort_lines(T* values, int64_t* indices, const T* x, int64_t lines, int64_t n, int64_t k,
                int64_t inner, bool descending) {
  using A = ComputeType<T>;
  using E = Keyed<KeyOf<A>, Place>;
  const KeyOf<A> turned = descending ? ~KeyOf<A>{0} : 0;
  const int64_t grain = std::max<int64_t>(1, kParallelGrain / 8 / n);
  parallel_for(lines, grain, [&](int64_t begin, int64_t end) {
    const bool few = k <= kFew && n < static_cast<int64_t>(kFewest);
    std::vector<E> line(static_cast<size_t>(few ? k : n)), spare;
    for (int64_t l = begin; l < end; ++l) {
      const T* from = x + l / inner * n * inner + l % inner;
      const auto element = [&](int64_t i) {
        return E{key_of(static_cast<A>(from[i * inner])) ^ turned, static_cast<Place>(i)};
      };
      if (!few) {
        for (int64_t i = 0; i < n; ++i) line[static_cast<size_t>(i)] = element(i);
      }
      if (few) {
        smallest_of(line.data(), k, n, element);
      } else if (k < n / 8) {
        smallest_first(line, k);
      } else if (line.size() < kFewest) {
        std::sort(line.begin(), line.end());
      } else {
        spare.resize(line.size());
        sort_by_digits(line, spare);
      }
      const int64_t to = l / inner * k * inner + l % inner;
      for (int64_t i = 0; i < k; ++i) {
        const auto at = static_cast<int64_t>(line[static_cast<size_t>(i)].at);
        values[to + i * inner] = from[at * inner];
        indices[to + i * inner] = at;
      }
    }
  });
}

}  // namespace

void cpu::sort(const Tensor& values, const Tensor& indices, const Tensor& x, int64_t n, int64_t k,
               int64_t inner, bool descending) {
  if (values.numel() == 0) return;
  const DType dtype = x.dtype() == kBool ? kU8 : x.dtype();  // false and true are 0 and 1
  visit_number(dtype, "sort", [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto run = n <= std::numeric_limits<uint32_t>::max() ? sort_lines<uint32_t, T>
                                                               : sort_lines<int64_t, T>;
    run(static_cast<T*>(values.raw_data()), indices.data<int64_t>(),
        static_cast<const T*>(x.raw_data()), x.numel() / n, n, k, inner, descending);
  });
}

}  // namespace lathe
