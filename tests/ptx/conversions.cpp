// cvt in all its forms; see instructions.h.
#include <algorithm>
#include <cmath>

#include "instructions.h"
#include "values.h"
#include "warp.h"

namespace lathe::ptx {

namespace {

template <class To, class From>
void integer_to_integer(Warp& warp, const Instruction& i, uint32_t lanes) {
  Defined defined;
  const uint64_t* a = warp.take(i, 1, defined);
  if constexpr (sizeof(To) < 8 || sizeof(From) < 8) defined = halves(defined.low);
  uint64_t* d = warp.write(i, 0, lanes, defined);
  each(lanes, [&](int l) { d[l] = bits_of<To>(static_cast<To>(as<From>(a[l]))); });
}

template <class To, class From>
void integer_to_float(Warp& warp, const Instruction& i, uint32_t lanes) {
  const uint64_t* a = warp.read(i, 1, lanes);
  uint64_t* d = warp.write(i, 0, lanes);
  each(lanes, [&](int l) { d[l] = bits_of<To>(static_cast<To>(as<From>(a[l]))); });
}

struct ToEven {
  template <class T>
  T operator()(T a) const {
    return std::nearbyint(a);
  }
};
struct ToZero {
  template <class T>
  T operator()(T a) const {
    return std::trunc(a);
  }
};
struct Down {
  template <class T>
  T operator()(T a) const {
    return std::floor(a);
  }
};
struct Up {
  template <class T>
  T operator()(T a) const {
    return std::ceil(a);
  }
};

/// Out of range: the nearest end. NaN: 0, or with 64 bits on either side only the highest bit.
template <class To, class From, class Round>
To float_to_integer_of(From value) {
  using Ends = std::numeric_limits<To>;
  if (value != value) {
    const bool wide = sizeof(From) == 8 || sizeof(To) == 8;
    return wide ? static_cast<To>(uint64_t{1} << (8 * sizeof(To) - 1)) : To{0};
  }
  const From whole = Round{}(value);
  if (whole < static_cast<From>(Ends::min())) return Ends::min();
  // The largest number of To is not a From where To has more digits: the next power of two is.
  return whole >= std::ldexp(From{1}, Ends::digits) ? Ends::max() : static_cast<To>(whole);
}

template <class To, class From, class Round>
void float_to_integer(Warp& warp, const Instruction& i, uint32_t lanes) {
  const uint64_t* a = warp.read(i, 1, lanes);
  uint64_t* d = warp.write(i, 0, lanes);
  each(lanes,
       [&](int l) { d[l] = bits_of<To>(float_to_integer_of<To, From, Round>(as<From>(a[l]))); });
}

template <class T, class Round>
void to_whole(Warp& warp, const Instruction& i, uint32_t lanes) {
  const uint64_t* a = warp.read(i, 1, lanes);
  uint64_t* d = warp.write(i, 0, lanes);
  each(lanes, [&](int l) { d[l] = bits_of(result(Round{}(as<T>(a[l])))); });
}

/// The bits of the nearest f16, of a tie the even one. From 65520 on it is infinite.
uint16_t half_of(float value) {
  const auto sign = static_cast<uint16_t>(std::signbit(value) ? 0x8000 : 0);
  if (value != value) return 0x7fff;
  const double size = std::abs(double{value});
  if (size >= 65520) return sign | 0x7c00;
  if (size == 0) return sign;
  const int exponent = std::max(std::ilogb(size), -14);
  const auto digits = static_cast<int>(std::nearbyint(std::ldexp(size, 10 - exponent)));
  return static_cast<uint16_t>(sign + ((exponent + 14) << 10) + digits);
}

float float_of_half(uint16_t half) {
  const int exponent = half >> 10 & 0x1f, digits = half & 0x3ff;
  float size = std::ldexp(static_cast<float>(digits + (exponent == 0 ? 0 : 1024)),
                          (exponent == 0 ? 1 : exponent) - 25);
  if (exponent == 31) size = digits == 0 ? HUGE_VALF : std::nanf("");
  return (half & 0x8000) != 0 ? -size : size;
}

/// Upper half of an f32, rounded to the nearest, of a tie to the even one.
uint16_t bfloat_of(float value) {
  if (value != value) return 0x7fff;
  const auto bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float clamp_to_one(float value) { return value > 0 ? std::min(value, 1.0f) : 0.0f; }
/// A NaN keeps what of it there is room for: so an H100 passes the bit-for-bit tests of casts.
float narrow(double value) { return static_cast<float>(value); }
double widen(float value) { return value; }
float float_of_bfloat(uint16_t value) {
  return result(std::bit_cast<float>(uint32_t{value} << 16));
}
float float_of_half_result(uint16_t value) { return result(float_of_half(value)); }

template <auto kConvert, class To, class From>
void convert(Warp& warp, const Instruction& i, uint32_t lanes) {
  const uint64_t* a = warp.read(i, 1, lanes);
  uint64_t* d = warp.write(i, 0, lanes);
  each(lanes, [&](int l) { d[l] = bits_of<To>(kConvert(as<From>(a[l]))); });
}

template <class T>
struct Named {
  using Type = T;
  const char* name;
};

template <class F>
void for_integers(F f) {
  f(Named<int8_t>{"s8"});
  f(Named<uint8_t>{"u8"});
  f(Named<int16_t>{"s16"});
  f(Named<uint16_t>{"u16"});
  f(Named<int32_t>{"s32"});
  f(Named<uint32_t>{"u32"});
  f(Named<int64_t>{"s64"});
  f(Named<uint64_t>{"u64"});
}

template <class Real>
void add_real(Table& table, const std::string& real) {
  for_integers([&](auto integer) {
    using Integer = typename decltype(integer)::Type;
    table["cvt.rn." + real + "." + integer.name] = integer_to_float<Real, Integer>;
    const std::string types = std::string(".") + integer.name + "." + real;
    table["cvt.rni" + types] = float_to_integer<Integer, Real, ToEven>;
    table["cvt.rzi" + types] = float_to_integer<Integer, Real, ToZero>;
    table["cvt.rmi" + types] = float_to_integer<Integer, Real, Down>;
    table["cvt.rpi" + types] = float_to_integer<Integer, Real, Up>;
  });
  const std::string types = "." + real + "." + real;
  table["cvt.rni" + types] = to_whole<Real, ToEven>;
  table["cvt.rzi" + types] = to_whole<Real, ToZero>;
  table["cvt.rmi" + types] = to_whole<Real, Down>;
  table["cvt.rpi" + types] = to_whole<Real, Up>;
}

/// Two numbers into one register; the first operand becomes the upper half.
template <auto kOne>
void convert_pair(Warp& warp, const Instruction& i, uint32_t lanes) {
  const uint64_t *a = warp.read(i, 1, lanes), *b = warp.read(i, 2, lanes);
  uint64_t* d = warp.write(i, 0, lanes);
  each(lanes, [&](int l) {
    d[l] = uint64_t{kOne(as<float>(a[l]))} << 16 | uint64_t{kOne(as<float>(b[l]))};
  });
}

}  // namespace

void add_conversions(Table& table) {
  for_integers([&](auto to) {
    for_integers([&](auto from) {
      using To = typename decltype(to)::Type;
      using From = typename decltype(from)::Type;
      table[std::string("cvt.") + to.name + "." + from.name] = integer_to_integer<To, From>;
    });
  });
  add_real<float>(table, "f32");
  add_real<double>(table, "f64");
  table["cvt.rn.f32.f64"] = convert<narrow, float, double>;
  table["cvt.f64.f32"] = convert<widen, double, float>;
  table["cvt.rn.f16.f32"] = convert<half_of, uint16_t, float>;
  table["cvt.f32.f16"] = convert<float_of_half_result, float, uint16_t>;
  table["cvt.rn.bf16.f32"] = convert<bfloat_of, uint16_t, float>;
  table["cvt.rn.f16x2.f32"] = convert_pair<half_of>;
  table["cvt.rn.bf16x2.f32"] = convert_pair<bfloat_of>;
  table["cvt.f32.bf16"] = convert<float_of_bfloat, float, uint16_t>;
  table["cvt.sat.f32.f32"] = convert<clamp_to_one, float, float>;
}

}  // namespace lathe::ptx
