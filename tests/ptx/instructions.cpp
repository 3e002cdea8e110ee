// See instructions.h; moves, selections, predicates and operations on bits are here, the others in
// integers.cpp, floats.cpp, conversions.cpp, loads.cpp and warp_wide.cpp.
#include "instructions.h"

#include <algorithm>

#include "values.h"
#include "warp.h"

namespace lathe::ptx {

namespace {

template <class T, class Op>
void bitwise(Warp& warp, const Instruction& i, uint32_t lanes) {
  Defined defined;
  const uint64_t *a = warp.take(i, 1, defined), *b = warp.take(i, 2, defined);
  uint64_t* d = warp.write(i, 0, lanes, defined);
  each(lanes, [&](int l) { d[l] = static_cast<T>(Op{}(as<T>(a[l]), as<T>(b[l]))); });
}

template <class T>
void bitwise_not(Warp& warp, const Instruction& i, uint32_t lanes) {
  Defined defined;
  const uint64_t* a = warp.take(i, 1, defined);
  uint64_t* d = warp.write(i, 0, lanes, defined);
  each(lanes, [&](int l) { d[l] = static_cast<T>(~a[l]); });
}

void move(Warp& warp, const Instruction& i, uint32_t lanes) {
  Defined defined;
  const uint64_t* a = warp.take(i, 1, defined);
  uint64_t* d = warp.write(i, 0, lanes, defined);
  each(lanes, [&](int l) { d[l] = a[l]; });
}

/// mov.b64 %rd, {%r0, %r1}: the first is the lowest part.
template <class Whole, class Part>
void pack(Warp& warp, const Instruction& i, uint32_t lanes) {
  constexpr int kParts = sizeof(Whole) / sizeof(Part);
  Defined defined;
  const uint64_t* parts[kParts];
  for (int k = 0; k < kParts; ++k) {
    Defined part;
    parts[k] = warp.take(i, k + 1, part);
    (sizeof(Whole) == 8 && k >= kParts / 2 ? defined.high : defined.low) &= part.low;
  }
  uint64_t* d = warp.write(i, 0, lanes, defined);
  each(lanes, [&](int l) {
    uint64_t whole = 0;
    for (int k = kParts; k-- > 0;)
      whole = whole << (8 * sizeof(Part)) | static_cast<Part>(parts[k][l]);
    d[l] = whole;
  });
}

template <class Whole, class Part>
void unpack(Warp& warp, const Instruction& i, uint32_t lanes) {
  constexpr int kParts = sizeof(Whole) / sizeof(Part);
  Defined defined;
  const Register a = *reinterpret_cast<const Register*>(warp.take(i, kParts, defined));
  for (int k = 0; k < kParts; ++k) {
    const bool upper = sizeof(Whole) == 8 && k >= kParts / 2;
    uint64_t* d = warp.write(i, k, lanes, halves(upper ? defined.high : defined.low));
    each(lanes, [&](int l) { d[l] = static_cast<Part>(a[l] >> (8 * sizeof(Part) * k)); });
  }
}

void select(Warp& warp, const Instruction& i, uint32_t lanes) {
  Defined a_defined, b_defined;
  const uint64_t *a = warp.take(i, 1, a_defined), *b = warp.take(i, 2, b_defined);
  const uint32_t which = warp.read_predicate(i, 3, lanes);
  const Defined defined{(which & a_defined.low) | (~which & b_defined.low),
                        (which & a_defined.high) | (~which & b_defined.high)};
  uint64_t* d = warp.write(i, 0, lanes, defined);
  each(lanes, [&](int l) { d[l] = (which >> l & 1) != 0 ? a[l] : b[l]; });
}

/// Of and and or, one side can decide alone.
void and_predicates(Warp& warp, const Instruction& i, uint32_t lanes) {
  uint32_t a_defined = kAllLanes, b_defined = kAllLanes;
  const uint32_t a = warp.take_predicate(i, 1, a_defined), b = warp.take_predicate(i, 2, b_defined);
  const uint32_t decided = (a_defined & ~a) | (b_defined & ~b);
  warp.write_predicate(i, 0, lanes, a & b & ~decided, (a_defined & b_defined) | decided);
}
void or_predicates(Warp& warp, const Instruction& i, uint32_t lanes) {
  uint32_t a_defined = kAllLanes, b_defined = kAllLanes;
  const uint32_t a = warp.take_predicate(i, 1, a_defined), b = warp.take_predicate(i, 2, b_defined);
  const uint32_t decided = (a_defined & a) | (b_defined & b);
  warp.write_predicate(i, 0, lanes, a | b | decided, (a_defined & b_defined) | decided);
}
void xor_predicates(Warp& warp, const Instruction& i, uint32_t lanes) {
  const uint32_t a = warp.read_predicate(i, 1, lanes), b = warp.read_predicate(i, 2, lanes);
  warp.write_predicate(i, 0, lanes, a ^ b);
}
void not_predicate(Warp& warp, const Instruction& i, uint32_t lanes) {
  warp.write_predicate(i, 0, lanes, ~warp.read_predicate(i, 1, lanes));
}
void move_predicate(Warp& warp, const Instruction& i, uint32_t lanes) {
  warp.write_predicate(i, 0, lanes, warp.read_predicate(i, 1, lanes));
}

/// Of a result whose halves come from either half.
template <class T>
Defined mixed(Defined defined) {
  return halves(sizeof(T) == 8 ? defined.both() : defined.low);
}

/// A shift by the width or more moves every bit out.
template <class T>
void shift_left(Warp& warp, const Instruction& i, uint32_t lanes) {
  Defined defined;
  const uint64_t *a = warp.take(i, 1, defined), *b = warp.read(i, 2, lanes);
  uint64_t* d = warp.write(i, 0, lanes, mixed<T>(defined));
  each(lanes, [&](int l) {
    const auto by = as<uint32_t>(b[l]);
    d[l] = by < 8 * sizeof(T) ? static_cast<T>(uint64_t{as<T>(a[l])} << by) : 0;
  });
}

template <class T>
void shift_right(Warp& warp, const Instruction& i, uint32_t lanes) {
  Defined defined;
  const uint64_t *a = warp.take(i, 1, defined), *b = warp.read(i, 2, lanes);
  uint64_t* d = warp.write(i, 0, lanes, mixed<T>(defined));
  each(lanes, [&](int l) {
    const uint32_t by = std::min<uint32_t>(as<uint32_t>(b[l]), 63);
    if constexpr (std::is_signed_v<T>) {
      d[l] = static_cast<uint64_t>(int64_t{as<T>(a[l])} >> by);
    } else {
      d[l] = as<uint32_t>(b[l]) < 64 ? uint64_t{as<T>(a[l])} >> by : 0;
    }
  });
}

/// bfi d, a, b, position, length: the low bits of a put into b.
template <class T>
void insert_bits(Warp& warp, const Instruction& i, uint32_t lanes) {
  Defined defined;
  const uint64_t *a = warp.take(i, 1, defined), *b = warp.take(i, 2, defined);
  const uint64_t *c = warp.read(i, 3, lanes), *length = warp.read(i, 4, lanes);
  uint64_t* d = warp.write(i, 0, lanes, mixed<T>(defined));
  each(lanes, [&](int l) {
    const uint64_t at = c[l] & 0xff, bits = length[l] & 0xff;
    const uint64_t mask = bits >= 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
    const uint64_t put = at >= 64 ? 0 : mask << at;
    d[l] = static_cast<T>((b[l] & ~put) | (at >= 64 ? 0 : a[l] << at & put));
  });
}

/// prmt d, a, b, selector: four bytes of the eight of b:a, each by a nibble of the selector, whose
/// highest bit asks for the byte's sign instead.
void permute_bytes(Warp& warp, const Instruction& i, uint32_t lanes) {
  Defined defined;
  const uint64_t *a = warp.take(i, 1, defined), *b = warp.take(i, 2, defined);
  const uint64_t* c = warp.read(i, 3, lanes);
  uint64_t* d = warp.write(i, 0, lanes, defined);
  each(lanes, [&](int l) {
    const uint64_t both = uint64_t{as<uint32_t>(b[l])} << 32 | as<uint32_t>(a[l]);
    uint64_t made = 0;
    for (unsigned k = 0; k < 4; ++k) {
      const auto nibble = static_cast<unsigned>(c[l] >> (4 * k) & 0xf);
      auto byte = static_cast<uint8_t>(both >> (8 * (nibble & 7)));
      if ((nibble & 8) != 0) byte = (byte & 0x80) != 0 ? 0xff : 0;
      made |= uint64_t{byte} << (8 * k);
    }
    d[l] = made;
  });
}

struct And {
  template <class T>
  uint64_t operator()(T a, T b) const {
    return a & b;
  }
};
struct Or {
  template <class T>
  uint64_t operator()(T a, T b) const {
    return a | b;
  }
};
struct Xor {
  template <class T>
  uint64_t operator()(T a, T b) const {
    return a ^ b;
  }
};

template <class T>
void add_bits(Table& table, const std::string& type) {
  table["and." + type] = bitwise<T, And>;
  table["or." + type] = bitwise<T, Or>;
  table["xor." + type] = bitwise<T, Xor>;
  table["not." + type] = bitwise_not<T>;
  table["shl." + type] = shift_left<T>;
}

}  // namespace

void add_moves(Table& table) {
  for (const char* type :
       {"b16", "u16", "s16", "b32", "u32", "s32", "f32", "b64", "u64", "s64", "f64"}) {
    table[std::string("mov.") + type] = move;
    table[std::string("selp.") + type] = select;
  }
  table["pack.b64.2"] = pack<uint64_t, uint32_t>;  // mov.b64 with braces; see parse.cpp
  table["pack.b64.4"] = pack<uint64_t, uint16_t>;
  table["pack.b32.2"] = pack<uint32_t, uint16_t>;
  table["pack.b32.4"] = pack<uint32_t, uint8_t>;
  table["unpack.b64.2"] = unpack<uint64_t, uint32_t>;
  table["unpack.b64.4"] = unpack<uint64_t, uint16_t>;
  table["unpack.b32.2"] = unpack<uint32_t, uint16_t>;
  table["unpack.b32.4"] = unpack<uint32_t, uint8_t>;
  table["cvta.to.global.u64"] = move;  // one address space holds all that is not the block's own
  add_bits<uint16_t>(table, "b16");
  add_bits<uint32_t>(table, "b32");
  add_bits<uint64_t>(table, "b64");
  table["and.pred"] = and_predicates;
  table["or.pred"] = or_predicates;
  table["xor.pred"] = xor_predicates;
  table["not.pred"] = not_predicate;
  table["mov.pred"] = move_predicate;
  table["shr.u16"] = table["shr.b16"] = shift_right<uint16_t>;
  table["shr.u32"] = table["shr.b32"] = shift_right<uint32_t>;
  table["shr.u64"] = table["shr.b64"] = shift_right<uint64_t>;
  table["shr.s16"] = shift_right<int16_t>;
  table["shr.s32"] = shift_right<int32_t>;
  table["shr.s64"] = shift_right<int64_t>;
  table["bfi.b32"] = insert_bits<uint32_t>;
  table["bfi.b64"] = insert_bits<uint64_t>;
  table["prmt.b32"] = permute_bytes;
}

Meaning find_meaning(const std::string& name) {
  static const Table table = [] {
    Table all;
    add_moves(all);
    add_integers(all);
    add_floats(all);
    add_conversions(all);
    add_memory(all);
    add_warp_wide(all);
    return all;
  }();
  const auto found = table.find(name);
  return found == table.end() ? nullptr : found->second;
}

}  // namespace lathe::ptx
