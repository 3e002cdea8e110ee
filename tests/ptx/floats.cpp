// Floating-point arithmetic and comparisons; see instructions.h. Approximate functions give the
// nearest number, or one as far from it as the documented error allows; see approximation.h.
#include <cfenv>
#include <cmath>

#include "approximation.h"
#include "instructions.h"
#include "values.h"
#include "warp.h"

namespace lathe::ptx {

int& approximation_step() {
  static int step = 0;
  return step;
}

namespace {

/// `exact` as f32, moved by as many units in the last place as the documented error allows. What is
/// an f32 already stays: CUDA's own functions rely on it, where they take ex2 of whole numbers.
float approximate(double exact, int units) {
  float value = static_cast<float>(exact);
  if (!std::isnormal(value) || value == exact) return value;
  for (int k = 0; k < units * std::abs(approximation_step()); ++k) {
    value = std::nextafter(value, approximation_step() > 0 ? HUGE_VALF : -HUGE_VALF);
  }
  return value;
}

/// The coarse f64 functions know and give the upper half of a number.
double upper_half(double value) {
  return std::bit_cast<double>(std::bit_cast<uint64_t>(value) & 0xffffffff00000000u);
}
double flush_double(double value) {
  return std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0, value) : value;
}

struct Add {
  template <class T>
  T operator()(T a, T b) const {
    return a + b;
  }
};
struct Sub {
  template <class T>
  T operator()(T a, T b) const {
    return a - b;
  }
};
struct Mul {
  template <class T>
  T operator()(T a, T b) const {
    return a * b;
  }
};
struct Div {
  template <class T>
  T operator()(T a, T b) const {
    return a / b;
  }
};
struct Sqrt {
  template <class T>
  T operator()(T a) const {
    return std::sqrt(a);
  }
};
struct Rcp {
  template <class T>
  T operator()(T a) const {
    return T{1} / a;
  }
};
struct Exp2 {
  float operator()(float a) const { return approximate(std::exp2(double{a}), 1); }
};
struct RcpApprox {
  float operator()(float a) const { return approximate(1 / double{a}, 1); }
};
struct RsqrtApprox {
  float operator()(float a) const { return approximate(1 / std::sqrt(double{a}), 1); }
};
struct DivApprox {
  float operator()(float a, float b) const { return approximate(double{a} / double{b}, 2); }
};
struct RcpCoarse {
  double operator()(double a) const {
    return flush_double(upper_half(1 / upper_half(flush_double(a))));
  }
};
struct RsqrtCoarse {
  double operator()(double a) const {
    return upper_half(1 / std::sqrt(upper_half(flush_double(a))));
  }
};
// Of a number and a NaN they give the number; -0 is less than +0.
struct Min {
  template <class T>
  T operator()(T a, T b) const {
    if (a != a || b != b) return a != a ? b : a;
    return a < b || (a == b && std::signbit(a)) ? a : b;
  }
};
struct Max {
  template <class T>
  T operator()(T a, T b) const {
    if (a != a || b != b) return a != a ? b : a;
    return a > b || (a == b && !std::signbit(a)) ? a : b;
  }
};
struct Number {
  template <class T>
  bool operator()(T a, T b) const {
    return a == a && b == b;
  }
};
struct NotANumber {
  template <class T>
  bool operator()(T a, T b) const {
    return a != a || b != b;
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
    return a < b || a > b;
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
/// ltu, geu and so on hold for a NaN too.
template <class Op>
struct Unordered {
  template <class T>
  bool operator()(T a, T b) const {
    return a != a || b != b || Op{}(a, b);
  }
};

template <class T, class Op, bool kFlush = false>
void unary(Warp& warp, const Instruction& i, uint32_t lanes) {
  const uint64_t* a = warp.read(i, 1, lanes);
  uint64_t* d = warp.write(i, 0, lanes);
  each(lanes, [&](int l) {
    const T x = kFlush ? flush(as<T>(a[l])) : as<T>(a[l]);
    const T y = result(Op{}(x));
    d[l] = bits_of(kFlush ? flush(y) : y);
  });
}

template <class T, class Op, bool kFlush = false>
void binary(Warp& warp, const Instruction& i, uint32_t lanes) {
  const uint64_t *a = warp.read(i, 1, lanes), *b = warp.read(i, 2, lanes);
  uint64_t* d = warp.write(i, 0, lanes);
  each(lanes, [&](int l) {
    const T x = kFlush ? flush(as<T>(a[l])) : as<T>(a[l]);
    const T y = kFlush ? flush(as<T>(b[l])) : as<T>(b[l]);
    const T z = result(Op{}(x, y));
    d[l] = bits_of(kFlush ? flush(z) : z);
  });
}

template <class T>
void multiply_add(Warp& warp, const Instruction& i, uint32_t lanes) {
  const uint64_t *a = warp.read(i, 1, lanes), *b = warp.read(i, 2, lanes);
  const uint64_t* c = warp.read(i, 3, lanes);
  uint64_t* d = warp.write(i, 0, lanes);
  each(lanes,
       [&](int l) { d[l] = bits_of(result(std::fma(as<T>(a[l]), as<T>(b[l]), as<T>(c[l])))); });
}

/// The same instruction in another rounding mode. The operands and results are in memory, which
/// fesetround might read, so the compiler leaves the arithmetic between the two calls.
template <int kMode, Meaning kRun>
void rounded(Warp& warp, const Instruction& i, uint32_t lanes) {
  std::fesetround(kMode);
  kRun(warp, i, lanes);
  std::fesetround(FE_TONEAREST);
}

template <class T, class Op>
void compare(Warp& warp, const Instruction& i, uint32_t lanes) {
  const uint64_t *a = warp.read(i, 1, lanes), *b = warp.read(i, 2, lanes);
  uint32_t bits = 0;
  each(lanes, [&](int l) { bits |= uint32_t{Op{}(as<T>(a[l]), as<T>(b[l]))} << l; });
  warp.write_predicate(i, 0, lanes, bits);
}

/// neg, abs and copysign change one bit, of a NaN too.
template <class T, class Bits, bool kAbsolute>
void change_sign(Warp& warp, const Instruction& i, uint32_t lanes) {
  constexpr Bits kSign = Bits{1} << (8 * sizeof(Bits) - 1);
  const uint64_t* a = warp.read(i, 1, lanes);
  uint64_t* d = warp.write(i, 0, lanes);
  each(lanes, [&](int l) {
    d[l] = static_cast<Bits>(kAbsolute ? as<Bits>(a[l]) & ~kSign : as<Bits>(a[l]) ^ kSign);
  });
}

/// The sign of a, the rest of b.
template <class Bits>
void copy_sign(Warp& warp, const Instruction& i, uint32_t lanes) {
  constexpr Bits kSign = Bits{1} << (8 * sizeof(Bits) - 1);
  const uint64_t *a = warp.read(i, 1, lanes), *b = warp.read(i, 2, lanes);
  uint64_t* d = warp.write(i, 0, lanes);
  each(lanes, [&](int l) {
    d[l] = static_cast<Bits>((as<Bits>(a[l]) & kSign) | (as<Bits>(b[l]) & ~kSign));
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
  table["setp.equ." + type] = compare<T, Unordered<Equal>>;
  table["setp.neu." + type] = compare<T, Unordered<NotEqual>>;
  table["setp.ltu." + type] = compare<T, Unordered<Less>>;
  table["setp.leu." + type] = compare<T, Unordered<LessEqual>>;
  table["setp.gtu." + type] = compare<T, Unordered<Greater>>;
  table["setp.geu." + type] = compare<T, Unordered<GreaterEqual>>;
  table["setp.num." + type] = compare<T, Number>;
  table["setp.nan." + type] = compare<T, NotANumber>;
}

template <class T, class Bits>
void add_type(Table& table, const std::string& type) {
  table["add.rn." + type] = table["add." + type] = binary<T, Add>;
  table["sub.rn." + type] = table["sub." + type] = binary<T, Sub>;
  table["mul.rn." + type] = table["mul." + type] = binary<T, Mul>;
  table["fma.rn." + type] = multiply_add<T>;
  table["add.rz." + type] = rounded<FE_TOWARDZERO, binary<T, Add>>;
  table["add.rm." + type] = rounded<FE_DOWNWARD, binary<T, Add>>;
  table["fma.rz." + type] = rounded<FE_TOWARDZERO, multiply_add<T>>;
  table["fma.rm." + type] = rounded<FE_DOWNWARD, multiply_add<T>>;
  table["div.rn." + type] = binary<T, Div>;
  table["sqrt.rn." + type] = unary<T, Sqrt>;
  table["rcp.rn." + type] = unary<T, Rcp>;
  table["min." + type] = binary<T, Min>;
  table["max." + type] = binary<T, Max>;
  table["neg." + type] = change_sign<T, Bits, false>;
  table["abs." + type] = change_sign<T, Bits, true>;
  table["copysign." + type] = copy_sign<Bits>;
  add_comparisons<T>(table, type);
}

}  // namespace

void add_floats(Table& table) {
  add_type<float, uint32_t>(table, "f32");
  add_type<double, uint64_t>(table, "f64");
  table["ex2.approx.f32"] = unary<float, Exp2>;
  table["ex2.approx.ftz.f32"] = unary<float, Exp2, true>;
  table["rcp.approx.ftz.f32"] = unary<float, RcpApprox, true>;
  table["rsqrt.approx.ftz.f32"] = unary<float, RsqrtApprox, true>;
  table["div.approx.f32"] = binary<float, DivApprox>;
  table["div.approx.ftz.f32"] = binary<float, DivApprox, true>;
  table["rcp.approx.ftz.f64"] = unary<double, RcpCoarse>;
  table["rsqrt.approx.ftz.f64"] = unary<double, RsqrtCoarse>;
}

}  // namespace lathe::ptx
