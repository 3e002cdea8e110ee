// Single instructions against what the PTX ISA says of them: bits in, bits out.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "approximation.h"
#include "lathe/core/half.h"
#include "run_text.h"

using namespace lathe;
using namespace lathe::ptx;

namespace {

/// The instruction over registers d, a, b and c of its operands' widths.
struct Case {
  const char* text;  // with D, A, B and C for the operands
  uint64_t a, b, c, want;
};

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); at != text.npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

/// One thread; all operands in 64-bit registers, of which an instruction reads as many bits as its
/// type has. A predicate in place of the result becomes 1 or 0.
uint64_t result_of(const Case& row) {
  ptx::test::Buffers buffers;
  const uint64_t in[] = {row.a, row.b, row.c};
  const uint64_t out[] = {0};
  const std::vector<uint64_t> arguments{buffers.add<uint64_t>("in", in),
                                        buffers.add<uint64_t>("out", out)};
  std::string text = replaced(row.text, "D", "%d1");
  text = replaced(replaced(replaced(text, "A", "%d2"), "B", "%d3"), "C", "%d4");
  ptx::test::run_body(
      "ld.param.u64 %d5, [p0];\nld.param.u64 %d6, [p1];\nld.global.u64 %d2, [%d5];\n"
      "ld.global.u64 %d3, [%d5+8];\nld.global.u64 %d4, [%d5+16];\n" +
          text + "\nst.global.u64 [%d6], %d1;",
      buffers, arguments, {1, 1, 1});
  return buffers.read<uint64_t>("out")[0];
}

constexpr uint64_t f(float value) { return std::bit_cast<uint32_t>(value); }
constexpr uint64_t g(double value) { return std::bit_cast<uint64_t>(value); }
constexpr uint64_t s(int64_t value) { return static_cast<uint64_t>(value); }
constexpr float kInf = std::numeric_limits<float>::infinity();
const float kNan = std::nanf("");
constexpr uint64_t kNan32 = 0x7fffffff;  // the one NaN of f32 results

const Case kIntegerCases[] = {
    {"add.s32 D, A, B;", 0x7fffffff, 1, 0, s(std::numeric_limits<int32_t>::min())},
    {"add.u16 D, A, B;", 0xffff, 2, 0, 1},
    {"sub.s64 D, A, B;", 1, 3, 0, s(-2)},
    {"mul.lo.s32 D, A, B;", 0x10001, 0x10001, 0, 0x20001},
    {"mul.hi.u32 D, A, B;", 0xffffffff, 0xffffffff, 0, 0xfffffffe},
    {"mul.hi.s32 D, A, B;", s(-2), 3, 0, s(-1)},
    {"mul.wide.s32 D, A, B;", s(-5), 3, 0, s(-15)},
    {"mul.wide.u32 D, A, B;", 0xffffffff, 2, 0, 0x1fffffffe},
    {"mad.lo.s32 D, A, B, C;", 7, s(-3), 1, s(-20)},
    {"mad.wide.u32 D, A, B, C;", 0xffffffff, 2, 1, 0x1ffffffff},
    {"div.s32 D, A, B;", s(-7), 2, 0, s(-3)},
    {"rem.s32 D, A, B;", s(-7), 2, 0, s(-1)},
    {"div.s64 D, A, B;", uint64_t{1} << 63, s(-1), 0, uint64_t{1} << 63},
    {"rem.u32 D, A, B;", 0xffffffff, 10, 0, 5},
    {"min.s32 D, A, B;", s(-1), 1, 0, s(-1)},
    {"min.u32 D, A, B;", s(-1), 1, 0, 1},
    {"abs.s16 D, A;", 0x8001, 0, 0, 0x7fff},
    {"neg.s32 D, A;", 5, 0, 0, s(-5)},
    {"shl.b32 D, A, B;", 3, 31, 0, 0x80000000},
    {"shl.b32 D, A, B;", 3, 32, 0, 0},
    {"shr.u32 D, A, B;", 0x80000000, 31, 0, 1},
    {"shr.u32 D, A, B;", 0x80000000, 77, 0, 0},
    {"shr.s32 D, A, B;", 0x80000000, 77, 0, s(-1)},
    {"shr.s64 D, A, B;", s(-256), 4, 0, s(-16)},
    {"not.b16 D, A;", 0xff, 0, 0, 0xff00},
    {"and.b32 D, A, B;", 0xf0f0, 0xff00, 0, 0xf000},
    {"xor.b64 D, A, B;", 0xf0f0, 0xff00, 0, 0x0ff0},
    {"clz.b64 D, A;", 1, 0, 0, 63},
    {"bfi.b32 D, A, B, 8, 4;", 0xff, 0x12345678, 0, 0x12345f78},
    {"bfi.b64 D, A, B, 60, 8;", 0xff, 0, 0, 0xf000000000000000},
    {"prmt.b32 D, A, B, 30212;", 0x33221100, 0x77665544, 0, 0x77660044},
    {"prmt.b32 D, A, B, 0x0098;", 0x00008070, 0, 0, 0x7070ff00},
    {"dp2a.lo.u32.u32 D, A, B, C;", 0x00030002, 0x77770504, 1, 24},
    {"cvt.s16.s8 D, A;", 0x80, 0, 0, s(-128)},
    {"cvt.u32.u64 D, A;", 0x123456789, 0, 0, 0x23456789},
    {"cvt.s64.s32 D, A;", 0xffffffff, 0, 0, s(-1)},
};

const Case kFloatCases[] = {
    {"add.rn.f32 D, A, B;", f(1), f(0x1p-24f), 0, f(1)},
    {"add.rz.f32 D, A, B;", f(1), f(-0x1p-30f), 0, f(0x1.fffffep-1f)},
    {"add.rn.f32 D, A, B;", f(kInf), f(-kInf), 0, kNan32},
    {"fma.rn.f32 D, A, B, C;", f(0x1.000002p0f), f(0x1.000002p0f), f(-0x1.000004p0f), f(0x1p-46f)},
    {"fma.rm.f32 D, A, B, C;", f(1), f(1), f(0x1p-30f), f(1)},
    {"fma.rm.f32 D, A, B, C;", f(1), f(-1), f(-0x1p-30f), f(-0x1.000002p0f)},
    {"fma.rz.f32 D, A, B, C;", f(1), f(-1), f(-0x1p-30f), f(-1)},
    {"fma.rn.f64 D, A, B, C;", g(0.1), g(10), g(-1), g(0x1p-54)},
    {"div.rn.f32 D, A, B;", f(1), f(3), 0, f(1.0f / 3)},
    {"div.rn.f32 D, A, B;", f(1), f(0x1p127f), 0, f(0x1p-127f)},
    {"div.rn.f64 D, A, B;", g(1), g(0), 0, g(std::numeric_limits<double>::infinity())},
    {"rcp.rn.f32 D, A;", f(-0.0f), 0, 0, f(-kInf)},
    {"sqrt.rn.f32 D, A;", f(2), 0, 0, f(0x1.6a09e6p0f)},
    {"sqrt.rn.f32 D, A;", f(-1), 0, 0, kNan32},
    {"neg.f32 D, A;", 0x7fc00001, 0, 0, 0xffc00001},
    {"abs.f32 D, A;", f(-0.0f), 0, 0, 0},
    {"copysign.f32 D, A, B;", f(-1), f(3), 0, f(-3)},
    {"min.f32 D, A, B;", f(kNan), f(3), 0, f(3)},
    {"max.f32 D, A, B;", f(kNan), f(kNan), 0, kNan32},
    {"max.f32 D, A, B;", f(-0.0f), f(0), 0, f(0)},
    {"ex2.approx.ftz.f32 D, A;", f(3), 0, 0, f(8)},
    {"ex2.approx.ftz.f32 D, A;", f(-127), 0, 0, f(0)},
    {"ex2.approx.f32 D, A;", f(-127), 0, 0, f(0x1p-127f)},
    {"rcp.approx.ftz.f32 D, A;", 0x80000001, 0, 0, f(-kInf)},
    {"rsqrt.approx.ftz.f32 D, A;", f(4), 0, 0, f(0.5f)},
    {"div.approx.f32 D, A, B;", f(6), f(3), 0, f(2)},
    {"rcp.approx.ftz.f64 D, A;", g(3), 0, 0, 0x3fd5555500000000},
    {"cvt.sat.f32.f32 D, A;", f(7), 0, 0, f(1)},
    {"cvt.sat.f32.f32 D, A;", f(kNan), 0, 0, 0},
    {"cvt.rni.f32.f32 D, A;", f(2.5f), 0, 0, f(2)},
    {"cvt.rpi.f32.f32 D, A;", f(2.25f), 0, 0, f(3)},
    {"cvt.rzi.s32.f32 D, A;", f(-2.75f), 0, 0, s(-2)},
    {"cvt.rmi.s32.f32 D, A;", f(-2.25f), 0, 0, s(-3)},
    {"cvt.rzi.s32.f32 D, A;", f(3e9f), 0, 0, 0x7fffffff},
    {"cvt.rzi.s32.f32 D, A;", f(kNan), 0, 0, 0},
    {"cvt.rzi.u32.f32 D, A;", f(-1), 0, 0, 0},
    {"cvt.rzi.s64.f64 D, A;", g(std::nan("")), 0, 0, uint64_t{1} << 63},
    {"cvt.rn.f32.s64 D, A;", s((int64_t{1} << 62) + 1), 0, 0, f(0x1p62f)},
    {"cvt.rn.f32.f64 D, A;", g(1 + 0x1p-24), 0, 0, f(1)},
    {"cvt.rn.f16.f32 D, A;", f(65519), 0, 0, 0x7bff},
    {"cvt.rn.f16.f32 D, A;", f(65520), 0, 0, 0x7c00},
    {"cvt.rn.f16.f32 D, A;", f(kNan), 0, 0, 0x7fff},
    {"cvt.rn.bf16.f32 D, A;", 0x3f808000, 0, 0, 0x3f80},
    {"cvt.rn.bf16.f32 D, A;", 0x3f818000, 0, 0, 0x3f82},
    {"cvt.rn.bf16.f32 D, A;", f(kNan), 0, 0, 0x7fff},
    {"cvt.rn.f16x2.f32 D, A, B;", f(65520), f(1), 0, 0x7c003c00},
    {"cvt.rn.f16x2.f32 D, A, B;", f(-2), f(kNan), 0, 0xc0007fff},
    {"cvt.rn.bf16x2.f32 D, A, B;", 0x3f818000, 0x3f808000, 0, 0x3f823f80},
};

}  // namespace

TEST_CASE("ptx: integer instructions") {
  for (const Case& row : kIntegerCases) {
    CAPTURE(row.text);
    CHECK(result_of(row) == row.want);
  }
}

TEST_CASE("ptx: floating-point instructions and conversions") {
  for (const Case& row : kFloatCases) {
    CAPTURE(row.text);
    CHECK(result_of(row) == row.want);
  }
}

TEST_CASE("ptx: comparisons hold as ordered, unordered, and of a NaN") {
  const auto holds = [](const std::string& name, uint64_t a, uint64_t b) {
    const std::string text = "setp." + name + " %p1, A, B;\nselp.b64 D, 1, 0, %p1;";
    return result_of({text.c_str(), a, b, 0, 0}) == 1;
  };
  CHECK(holds("lt.s32", s(-1), 1));
  CHECK_FALSE(holds("lt.u32", s(-1), 1));
  CHECK(holds("ge.u64", s(-1), 1));
  CHECK(holds("eq.b16", 0x10005, 5));
  CHECK(holds("lt.f32", f(1), f(2)));
  CHECK_FALSE(holds("ne.f32", f(kNan), f(2)));
  CHECK(holds("neu.f32", f(kNan), f(2)));
  CHECK(holds("geu.f32", f(kNan), f(2)));
  CHECK_FALSE(holds("ltu.f32", f(3), f(2)));
  CHECK(holds("nan.f32", f(1), f(kNan)));
  CHECK_FALSE(holds("num.f64", g(std::nan("")), g(1)));
  CHECK(holds("eq.f32", f(0), f(-0.0f)));
}

TEST_CASE("ptx: a sum of 128 bits with its carries") {
  const Case row{
      "mov.b64 {%r1, %r2}, A;\nmov.b64 {%r3, %r4}, B;\nadd.cc.u32 %r5, %r1, %r3;\n"
      "addc.u32 %r6, %r2, %r4;\nmov.b64 D, {%r5, %r6};",
      0x1ffffffff, 0x300000001, 0, 0x500000000};
  CHECK(result_of(row) == row.want);
  // 0xffffffff * (2^64 - 1) = 0xfffffffe'ffffffff'00000001: the words above the lowest.
  const Case product{
      "mov.b64 {%r1, %r2}, A;\nmov.b64 {%r3, %r4}, B;\nmul.lo.u32 %r5, %r1, %r3;\n"
      "mul.hi.u32 %r6, %r1, %r3;\nmad.lo.cc.u32 %r6, %r1, %r4, %r6;\n"
      "madc.hi.u32 %r7, %r1, %r4, 0;\nmov.b64 D, {%r6, %r7};",
      0xffffffff, 0xffffffffffffffff, 0, 0xfffffffeffffffff};
  CHECK(result_of(product) == product.want);
}

TEST_CASE("ptx: every f16 is read as the number it is, and comes back") {
  std::vector<uint16_t> halves(0x10000);
  std::iota(halves.begin(), halves.end(), uint16_t{0});
  const std::vector<float> zeros(halves.size());
  ptx::test::Buffers buffers;
  const std::vector<uint64_t> arguments{buffers.add<uint16_t>("halves", halves),
                                        buffers.add<float>("floats", zeros)};
  // Each thread converts its own there and back.
  ptx::test::run_body(
      "ld.param.u64 %d0, [p0];\nld.param.u64 %d1, [p1];\nmov.u32 %r0, %ctaid.x;\nmov.u32 %r1, "
      "%tid.x;\n"
      "mad.lo.s32 %r0, %r0, 1024, %r1;\nmad.wide.u32 %d0, %r0, 2, %d0;\nmad.wide.u32 %d1, %r0, 4, "
      "%d1;\n"
      "ld.global.u16 %h0, [%d0];\ncvt.f32.f16 %f0, %h0;\nst.global.f32 [%d1], %f0;\n"
      "cvt.rn.f16.f32 %h1, %f0;\nst.global.u16 [%d0], %h1;",
      buffers, arguments, {1024, 1, 1}, {64, 1, 1});
  const auto floats = buffers.read<float>("floats");
  const auto back = buffers.read<uint16_t>("halves");
  int wrong = 0;
  for (size_t bits = 0; bits < halves.size(); ++bits) {
    const auto want = static_cast<float>(std::bit_cast<Half>(halves[bits]));
    if (std::isnan(want)) {
      wrong += std::isnan(floats[bits]) && back[bits] == 0x7fff ? 0 : 1;
    } else {
      wrong += f(floats[bits]) == f(want) && back[bits] == halves[bits] ? 0 : 1;
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("ptx: an approximate result can be moved by its documented error") {
  approximation_step() = 1;
  CHECK(result_of({"ex2.approx.ftz.f32 D, A;", f(0.5f), 0, 0, 0}) == f(0x1.6a09e6p0f) + 1);
  CHECK(result_of({"ex2.approx.ftz.f32 D, A;", f(3), 0, 0, 0}) == f(8));
  approximation_step() = -1;
  CHECK(result_of({"div.approx.f32 D, A, B;", f(1), f(3), 0, 0}) == f(1.0f / 3) - 2);
  approximation_step() = 0;
}
