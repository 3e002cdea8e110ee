// Integer arithmetic and comparisons; see instructions.h. Overflow wraps around.
#include <algorithm>
#include <bit>

#include "instructions.h"
#include "values.h"
#include "warp.h"

namespace lathe::ptx {

namespace {

template <class T>
using Wrapping = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

struct Add {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(Wrapping<T>(a) + Wrapping<T>(b));
  }
};
struct Sub {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(Wrapping<T>(a) - Wrapping<T>(b));
  }
};
struct Mul {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(Wrapping<T>(a) * Wrapping<T>(b));
  }
};
struct Min {
  template <class T>
  T operator()(T a, T b) const {
    return std::min(a, b);
  }
};
struct Max {
  template <class T>
  T operator()(T a, T b) const {
    return std::max(a, b);
  }
};
struct Negate {
  template <class T>
  T operator()(T a) const {
    return static_cast<T>(-Wrapping<T>(a));
  }
};
struct Absolute {
  template <class T>
  T operator()(T a) const {
    return a < 0 ? Negate{}(a) : a;
  }
};
struct LeadingZeros {
  template <class T>
  T operator()(T a) const {
    return static_cast<T>(std::countl_zero(a));
  }
};
struct CountOnes {
  template <class T>
  T operator()(T a) const {
    return static_cast<T>(std::popcount(a));
  }
};
struct MulHigh {
  template <class T>
  T operator()(T a, T b) const {
    using Wide = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
    return static_cast<T>((Wide{a} * Wide{b}) >> 32);
  }
};
struct Equal {
  template <class T>
  bool operator()(T a, T b) const {
    return a == b;
  }
};
struct NotEqual {
  template <class T>
  bool operator()(T a, T b) const {
    return a != b;
  }
};
struct Less {
  template <class T>
  bool operator()(T a, T b) const {
    return a < b;
  }
};
struct LessEqual {
  template <class T>
  bool operator()(T a, T b) const {
    return a <= b;
  }
};
struct Greater {
  template <class T>
  bool operator()(T a, T b) const {
    return a > b;
  }
};
struct GreaterEqual {
  template <class T>
  bool operator()(T a, T b) const {
    return a >= b;
  }
};

template <class T, class Op>
void unary(Warp& warp, const Instruction& i, uint32_t lanes) {
  const uint64_t* a = warp.read(i, 1, lanes);
  uint64_t* d = warp.write(i, 0, lanes);
  each(lanes, [&](int l) { d[l] = bits_of<T>(Op{}(as<T>(a[l]))); });
}

template <class T, class Op>
void binary(Warp& warp, const Instruction& i, uint32_t lanes) {
  const uint64_t *a = warp.read(i, 1, lanes), *b = warp.read(i, 2, lanes);
  uint64_t* d = warp.write(i, 0, lanes);
  each(lanes, [&](int l) { d[l] = bits_of<T>(Op{}(as<T>(a[l]), as<T>(b[l]))); });
}

template <class T, class Op>
void compare(Warp& warp, const Instruction& i, uint32_t lanes) {
  const uint64_t *a = warp.read(i, 1, lanes), *b = warp.read(i, 2, lanes);
  uint32_t bits = 0;
  each(lanes, [&](int l) { bits |= uint32_t{Op{}(as<T>(a[l]), as<T>(b[l]))} << l; });
  warp.write_predicate(i, 0, lanes, bits);
}

/// What a division by zero gives is not specified, so it has no value.
template <class T, bool kRemainder>
void divide(Warp& warp, const Instruction& i, uint32_t lanes) {
  const uint64_t *a = warp.read(i, 1, lanes), *b = warp.read(i, 2, lanes);
  uint32_t defined = 0;
  each(lanes, [&](int l) { defined |= uint32_t{as<T>(b[l]) != 0} << l; });
  uint64_t* d = warp.write(i, 0, lanes, halves(defined));
  each(lanes & defined, [&](int l) {
    const T x = as<T>(a[l]), y = as<T>(b[l]);
    if constexpr (std::is_signed_v<T>) {
      if (y == -1) {  // the smallest number over -1 wraps around
        d[l] = bits_of<T>(kRemainder ? T{0} : Negate{}(x));
        return;
      }
    }
    d[l] = bits_of<T>(static_cast<T>(kRemainder ? x % y : x / y));
  });
}

template <class T>
void multiply_add(Warp& warp, const Instruction& i, uint32_t lanes) {
  const uint64_t *a = warp.read(i, 1, lanes), *b = warp.read(i, 2, lanes);
  const uint64_t* c = warp.read(i, 3, lanes);
  uint64_t* d = warp.write(i, 0, lanes);
  each(lanes,
       [&](int l) { d[l] = bits_of<T>(Add{}(Mul{}(as<T>(a[l]), as<T>(b[l])), as<T>(c[l]))); });
}

template <class T, class Wide, bool kAdds>
void multiply_wide(Warp& warp, const Instruction& i, uint32_t lanes) {
  const uint64_t *a = warp.read(i, 1, lanes), *b = warp.read(i, 2, lanes);
  const uint64_t* c = kAdds ? warp.read(i, 3, lanes) : nullptr;
  uint64_t* d = warp.write(i, 0, lanes);
  each(lanes, [&](int l) {
    const Wide product = Mul{}(Wide{as<T>(a[l])}, Wide{as<T>(b[l])});
    d[l] = bits_of<Wide>(kAdds ? Add{}(product, as<Wide>(c[l])) : product);
  });
}

/// add.cc, addc, sub.cc, subc, mad.lo.cc, madc.hi and so on: 32 bits with a carry.
template <int kProductHalf, bool kSubtracts, bool kCarryIn, bool kCarryOut>
void with_carry(Warp& warp, const Instruction& i, uint32_t lanes) {
  constexpr bool kProduct = kProductHalf >= 0;
  const uint64_t *a = warp.read(i, 1, lanes), *b = warp.read(i, 2, lanes);
  const uint64_t* c = kProduct ? warp.read(i, 3, lanes) : nullptr;
  uint64_t* d = warp.write(i, 0, lanes);
  uint32_t& carry = warp.frame->carry;
  each(lanes, [&](int l) {
    uint64_t x = as<uint32_t>(a[l]), y = as<uint32_t>(b[l]);
    if constexpr (kProduct) {
      x = static_cast<uint32_t>((x * y) >> (32 * kProductHalf));
      y = as<uint32_t>(c[l]);
    }
    const uint64_t in = kCarryIn ? carry >> l & 1 : 0;
    const uint64_t sum = kSubtracts ? x - y - in : x + y + in;
    d[l] = static_cast<uint32_t>(sum);
    if constexpr (kCarryOut) {
      carry = (carry & ~(uint32_t{1} << l)) | static_cast<uint32_t>(sum >> 32 & 1) << l;
    }
  });
}

/// dp2a.lo: two 16-bit numbers of a times the two low bytes of b, added to c.
void dot_two_low(Warp& warp, const Instruction& i, uint32_t lanes) {
  const uint64_t *a = warp.read(i, 1, lanes), *b = warp.read(i, 2, lanes);
  const uint64_t* c = warp.read(i, 3, lanes);
  uint64_t* d = warp.write(i, 0, lanes);
  each(lanes, [&](int l) {
    const auto x = as<uint32_t>(a[l]), y = as<uint32_t>(b[l]);
    d[l] = static_cast<uint32_t>(as<uint32_t>(c[l]) + (x & 0xffff) * (y & 0xff) +
                                 (x >> 16) * (y >> 8 & 0xff));
  });
}

template <class T>
void add_comparisons(Table& table, const std::string& type) {
  table["setp.eq." + type] = compare<T, Equal>;
  table["setp.ne." + type] = compare<T, NotEqual>;
  table["setp.lt." + type] = compare<T, Less>;
  table["setp.le." + type] = compare<T, LessEqual>;
  table["setp.gt." + type] = compare<T, Greater>;
  table["setp.ge." + type] = compare<T, GreaterEqual>;
}

template <class T>
void add_type(Table& table, const std::string& type) {
  table["add." + type] = binary<T, Add>;
  table["sub." + type] = binary<T, Sub>;
  table["mul.lo." + type] = binary<T, Mul>;
  table["mad.lo." + type] = multiply_add<T>;
  table["min." + type] = binary<T, Min>;
  table["max." + type] = binary<T, Max>;
  table["div." + type] = divide<T, false>;
  table["rem." + type] = divide<T, true>;
  if constexpr (std::is_signed_v<T>) {
    table["neg." + type] = unary<T, Negate>;
    table["abs." + type] = unary<T, Absolute>;
  }
  add_comparisons<T>(table, type);
}

void add_carries(Table& table) {
  table["add.cc.u32"] = with_carry<-1, false, false, true>;
  table["addc.u32"] = with_carry<-1, false, true, false>;
  table["addc.cc.u32"] = with_carry<-1, false, true, true>;
  table["sub.cc.u32"] = with_carry<-1, true, false, true>;
  table["subc.u32"] = with_carry<-1, true, true, false>;
  table["subc.cc.u32"] = with_carry<-1, true, true, true>;
  table["mad.lo.cc.u32"] = with_carry<0, false, false, true>;
  table["madc.lo.u32"] = with_carry<0, false, true, false>;
  table["madc.lo.cc.u32"] = with_carry<0, false, true, true>;
  table["mad.hi.cc.u32"] = with_carry<1, false, false, true>;
  table["madc.hi.u32"] = with_carry<1, false, true, false>;
  table["madc.hi.cc.u32"] = with_carry<1, false, true, true>;
}

}  // namespace

void add_integers(Table& table) {
  add_type<int16_t>(table, "s16");
  add_type<uint16_t>(table, "u16");
  add_type<int32_t>(table, "s32");
  add_type<uint32_t>(table, "u32");
  add_type<int64_t>(table, "s64");
  add_type<uint64_t>(table, "u64");
  add_comparisons<uint16_t>(table, "b16");
  add_comparisons<uint32_t>(table, "b32");
  add_comparisons<uint64_t>(table, "b64");
  add_carries(table);
  table["mul.hi.s32"] = binary<int32_t, MulHigh>;
  table["mul.hi.u32"] = binary<uint32_t, MulHigh>;
  table["mul.wide.s16"] = multiply_wide<int16_t, int32_t, false>;
  table["mul.wide.u16"] = multiply_wide<uint16_t, uint32_t, false>;
  table["mul.wide.s32"] = multiply_wide<int32_t, int64_t, false>;
  table["mul.wide.u32"] = multiply_wide<uint32_t, uint64_t, false>;
  table["mad.wide.s32"] = multiply_wide<int32_t, int64_t, true>;
  table["mad.wide.u32"] = multiply_wide<uint32_t, uint64_t, true>;
  table["clz.b32"] = unary<uint32_t, LeadingZeros>;
  table["clz.b64"] = unary<uint64_t, LeadingZeros>;
  table["popc.b32"] = unary<uint32_t, CountOnes>;
  table["popc.b64"] = unary<uint64_t, CountOnes>;
  table["dp2a.lo.u32.u32"] = dot_two_low;
}

}  // namespace lathe::ptx
