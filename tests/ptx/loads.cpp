// Loads, stores, atomic operations and fences; see instructions.h. The parser takes spaces and
// cache hints out of the names: ld.global.nc.v4.u16 is ld.u16 with Instruction::space and vector.
#include <algorithm>
#include <cstring>

#include "instructions.h"
#include "values.h"
#include "warp.h"

namespace lathe::ptx {

namespace {

Register addresses_of(Warp& warp, const Instruction& i, int operand, uint32_t lanes) {
  Register at{};
  const uint64_t* base = warp.need(i, operand, lanes);
  const uint64_t mask = i.space == Space::kShared ? 0xffffffff : ~uint64_t{0};
  each(lanes, [&](int l) {
    at[static_cast<size_t>(l)] = (base[l] + static_cast<uint64_t>(i.offset)) & mask;
  });
  return at;
}

void count_access(Warp& warp, const Instruction& i, uint32_t lanes, size_t bytes) {
  if (i.space != Space::kGeneric) return;
  const auto count = static_cast<uint64_t>(std::popcount(lanes));
  warp.work.accesses += count;
  warp.work.bytes += count * bytes;
  warp.work.widest = std::max<uint64_t>(warp.work.widest, bytes);
}

template <class T>
void load(Warp& warp, const Instruction& i, uint32_t lanes) {
  const size_t count = i.vector, bytes = count * sizeof(T);
  const Register at = addresses_of(warp, i, i.vector, lanes);
  const bool inside = i.space == Space::kGeneric && warp.all_inside(at, lanes, bytes);
  count_access(warp, i, lanes, bytes);
  Register loaded[4];
  Defined defined[4] = {halves(0), halves(0), halves(0), halves(0)};
  each(lanes, [&](int lane) {
    const auto l = static_cast<size_t>(lane);
    T values[4] = {};
    uint32_t words = ~uint32_t{0};
    if (inside) {
      const auto* from = reinterpret_cast<const std::byte*>(at[l]);
      for (size_t k = 0; k < count; ++k) std::memcpy(&values[k], from + k * sizeof(T), sizeof(T));
    } else {
      warp.load(i, lane, at[l], bytes, values, words);
    }
    for (size_t k = 0; k < count; ++k) {
      loaded[k][l] = bits_of(values[k]);
      const size_t word = k * sizeof(T) / 4;
      defined[k].low |= (words >> word & 1) << lane;
      defined[k].high |= (words >> (word + sizeof(T) / 8) & 1) << lane;
    }
  });
  for (int k = 0; k < i.vector; ++k) {
    uint64_t* d = warp.write(i, k, lanes, defined[k]);
    each(lanes, [&](int l) { d[l] = loaded[k][static_cast<size_t>(l)]; });
  }
}

template <class T>
void store(Warp& warp, const Instruction& i, uint32_t lanes) {
  const size_t count = i.vector, bytes = count * sizeof(T);
  const Register at = addresses_of(warp, i, 0, lanes);
  const bool own = i.space == Space::kShared || i.space == Space::kLocal;
  const uint64_t* parts[4] = {};
  Defined defined[4];
  for (int k = 0; k < i.vector; ++k) {  // what has no value may be put aside, but not handed out
    parts[k] = own ? warp.take(i, k + 1, defined[k]) : warp.need(i, k + 1, lanes);
  }
  const bool inside = !own && warp.all_inside(at, lanes, bytes);
  count_access(warp, i, lanes, bytes);
  each(lanes, [&](int lane) {
    const auto l = static_cast<size_t>(lane);
    T values[4] = {};
    for (size_t k = 0; k < count; ++k) values[k] = as<T>(parts[k][l]);
    if (inside) {
      auto* to = reinterpret_cast<std::byte*>(at[l]);
      for (size_t k = 0; k < count; ++k) std::memcpy(to + k * sizeof(T), &values[k], sizeof(T));
    } else {
      uint32_t words = ~uint32_t{0};
      for (size_t k = 0; k < count; ++k) {
        const size_t word = k * sizeof(T) / 4;
        if ((defined[k].low >> lane & 1) == 0) words &= ~(uint32_t{1} << word);
        if (sizeof(T) == 8 && (defined[k].high >> lane & 1) == 0) words &= ~(uint32_t{2} << word);
      }
      warp.store(i, lane, at[l], bytes, values, words);
    }
  });
}

struct Add {
  template <class T>
  T operator()(T before, T b, T) const {
    return static_cast<T>(before + b);
  }
};
struct Max {
  template <class T>
  T operator()(T before, T b, T) const {
    return std::max(before, b);
  }
};
struct Min {
  template <class T>
  T operator()(T before, T b, T) const {
    return std::min(before, b);
  }
};
struct Exchange {
  template <class T>
  T operator()(T, T b, T) const {
    return b;
  }
};
struct CompareExchange {
  template <class T>
  T operator()(T before, T b, T c) const {
    return before == b ? c : before;
  }
};

/// Lane after lane, in their order.
template <class T, class Op>
void atomic(Warp& warp, const Instruction& i, uint32_t lanes) {
  constexpr bool kCompares = std::is_same_v<Op, CompareExchange>;
  const Register at = addresses_of(warp, i, 1, lanes);
  const uint64_t* b = warp.need(i, 2, lanes);
  const uint64_t* c = kCompares ? warp.need(i, 3, lanes) : b;
  Register before{};
  each(lanes, [&](int lane) {
    const auto l = static_cast<size_t>(lane);
    void* word = warp.atomic_word(i, lane, at[l], sizeof(T));
    T value;
    std::memcpy(&value, word, sizeof value);
    before[l] = bits_of(value);
    value = Op{}(value, as<T>(b[l]), as<T>(c[l]));
    std::memcpy(word, &value, sizeof value);
  });
  uint64_t* d = warp.write(i, 0, lanes);
  each(lanes, [&](int l) { d[l] = before[static_cast<size_t>(l)]; });
}

/// Threads run one at a time, so that memory is always in order.
void fence(Warp&, const Instruction&, uint32_t) {}

template <class T>
void add_type(Table& table, const std::string& type) {
  table["ld." + type] = load<T>;
  table["st." + type] = store<T>;
}

}  // namespace

void add_memory(Table& table) {
  add_type<int8_t>(table, "s8");
  add_type<int16_t>(table, "s16");
  add_type<int32_t>(table, "s32");
  add_type<int64_t>(table, "s64");
  for (const char* kind : {"b", "u"}) {
    add_type<uint8_t>(table, kind + std::string("8"));
    add_type<uint16_t>(table, kind + std::string("16"));
    add_type<uint32_t>(table, kind + std::string("32"));
    add_type<uint64_t>(table, kind + std::string("64"));
  }
  add_type<float>(table, "f32");
  add_type<double>(table, "f64");
  table["atom.add.u32"] = atomic<uint32_t, Add>;
  table["atom.add.u64"] = atomic<uint64_t, Add>;
  table["atom.add.f32"] = atomic<float, Add>;
  table["atom.max.u32"] = atomic<uint32_t, Max>;
  table["atom.max.u64"] = atomic<uint64_t, Max>;
  table["atom.min.u32"] = atomic<uint32_t, Min>;
  table["atom.exch.b32"] = atomic<uint32_t, Exchange>;
  table["atom.cas.b32"] = atomic<uint32_t, CompareExchange>;
  // Launches run one after another.
  table["griddepcontrol.wait"] = table["griddepcontrol.launch_dependents"] = fence;
  table["membar.cta"] = table["membar.gl"] = table["membar.sys"] = fence;
}

}  // namespace lathe::ptx
