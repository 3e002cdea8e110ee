// The interpreter's flow: lanes that part and meet, barriers, shuffles, atomic operations, calls;
// and each fault that it is there to find, planted in a kernel.
#include <doctest/doctest.h>

#include <numeric>

#include "lathe/core/error.h"
#include "run_text.h"

using namespace lathe;
using namespace lathe::ptx;
using ptx::test::Buffers;
using ptx::test::run_body;

namespace {

// %r0: the thread's number in its block, %d0: behind p0 where this thread's word of 4 bytes is.
const std::string kMyWord =
    "ld.param.u64 %d0, [p0];\nmov.u32 %r0, %tid.x;\nmul.wide.u32 %d1, %r0, 4;\nadd.s64 %d0, %d0, "
    "%d1;\n";

/// What each of `threads` threads left in its word.
std::vector<uint32_t> words_after(const std::string& body, unsigned threads, Size3 grid = {},
                                  const std::string& before = "") {
  Buffers buffers;
  const std::vector<uint32_t> zeros(threads);
  const uint64_t at = buffers.add<uint32_t>("words", zeros);
  run_body(kMyWord + body, buffers, {at}, {threads, 1, 1}, grid, before);
  return buffers.read<uint32_t>("words");
}

std::string message_of(const std::string& body, unsigned threads = 64,
                       const std::string& before = "") {
  try {
    words_after(body, threads, {}, before);
  } catch (const Error& error) {
    return error.message();
  }
  return "no error";
}

void check_message(const std::string& message, std::initializer_list<const char*> parts) {
  for (const char* part : parts) CHECK_MESSAGE(message.find(part) != message.npos, message);
}

}  // namespace

TEST_CASE("ptx: lanes part at branches and meet again") {
  // Steps of the Collatz sequence from the thread's number + 1: each lane takes another path.
  const std::vector<uint32_t> steps = words_after(
      "add.s32 %r1, %r0, 1;\nmov.u32 %r2, 0;\n$L1:\nsetp.eq.s32 %p1, %r1, 1;\n@%p1 bra $L4;\n"
      "and.b32 %r3, %r1, 1;\nsetp.eq.s32 %p2, %r3, 0;\n@%p2 bra $L2;\nmad.lo.s32 %r1, %r1, 3, 1;\n"
      "bra.uni $L3;\n$L2:\nshr.u32 %r1, %r1, 1;\n$L3:\nadd.s32 %r2, %r2, 1;\nbra.uni $L1;\n$L4:\n"
      "st.global.u32 [%d0], %r2;",
      77);
  for (uint32_t t = 0; t < 77; ++t) {
    uint32_t want = 0;
    for (uint32_t n = t + 1; n != 1; ++want) n = n % 2 == 0 ? n / 2 : 3 * n + 1;
    CHECK(steps[t] == want);
  }
}

TEST_CASE("ptx: numbers of the module, with and without a value") {
  const auto read = [](const std::string& load, const std::string& variable) {
    return words_after("mov.u64 %d2, it;\n" + load + "\nst.global.u32 [%d0], %r1;", 1, {},
                       variable)[0];
  };
  CHECK(read("ld.global.u32 %r1, [%d2];", ".global .align 4 .u32 it = 42;") == 42);
  CHECK(read("ld.global.s8 %r1, [%d2];", ".const .align 1 .s8 it = -3;") == 0xfffffffd);
  CHECK(read("ld.global.u16 %r1, [%d2];", ".global .align 2 .b16 it;") == 0);
  CHECK(read("ld.global.u32 %r1, [%d2];", ".global .align 4 .f32 it = 0f3F000000;") == 0x3f000000);
  CHECK(read("ld.global.u32 %r1, [%d2+4];", ".global .align 8 .f64 it = 0d3FF0000000000000;") ==
        0x3ff00000);
  check_message(message_of("ret;", 1, ".global .texref picture;"),
                {"neither an array of bytes nor a number", ".texref picture"});
}

TEST_CASE("ptx: lanes of two paths meet again before a shuffle") {
  const std::vector<uint32_t> got = words_after(
      "mov.u32 %r1, 5;\nsetp.lt.u32 %p1, %r0, 7;\n@%p1 bra $L1;\nmov.u32 %r1, %r0;\n$L1:\n"
      "shfl.sync.idx.b32 %r2, %r1, 8, 31, -1;\nst.global.u32 [%d0], %r2;",
      32);
  CHECK(got == std::vector<uint32_t>(32, 8));
}

TEST_CASE("ptx: a barrier hands shared memory over, in every block anew") {
  const std::vector<uint32_t> got = words_after(
      ".shared .align 4 .b8 words[384];\nmov.u32 %r1, words;\nshl.b32 %r2, %r0, 2;\nadd.s32 %r3, "
      "%r1, %r2;\n"
      "st.shared.u32 [%r3], %r0;\nbar.sync 0;\nsub.s32 %r4, 95, %r0;\nshl.b32 %r4, %r4, 2;\n"
      "add.s32 %r4, %r4, %r1;\nld.shared.u32 %r5, [%r4];\natom.global.add.u32 %r6, [%d0], %r5;",
      96, {3, 1, 1});
  for (uint32_t t = 0; t < 96; ++t) CHECK(got[t] == 3 * (95 - t));
}

TEST_CASE("ptx: shuffles of the four kinds, in parts of a warp, and votes") {
  // Of 16 lanes each: c = 0x1000 + the bound. The predicate says whether the source was inside.
  const auto shuffled = [](const std::string& kind, uint32_t c) {
    return words_after("shfl.sync." + kind + ".b32 %r1|%p1, %r0, 3, " + std::to_string(c) +
                           ", -1;\nselp.u32 %r2, 100, 0, %p1;\nadd.s32 %r1, %r1, %r2;\n"
                           "st.global.u32 [%d0], %r1;",
                       32);
  };
  const auto down = shuffled("down", 0x101f), up = shuffled("up", 0x1000);
  const auto across = shuffled("bfly", 0x101f), index = shuffled("idx", 0x101f);
  for (uint32_t lane = 0; lane < 32; ++lane) {
    const uint32_t in_part = lane % 16, part = lane - in_part;
    CHECK(down[lane] == (in_part + 3 < 16 ? lane + 3 + 100 : lane));
    CHECK(up[lane] == (in_part >= 3 ? lane - 3 + 100 : lane));
    CHECK(across[lane] == (lane ^ 3) + 100);
    CHECK(index[lane] == part + 3 + 100);
  }
  const auto votes = words_after(
      "setp.lt.u32 %p1, %r0, 3;\nvote.sync.ballot.b32 %r1, %p1, -1;\n"
      "st.global.u32 [%d0], %r1;",
      32);
  CHECK(votes == std::vector<uint32_t>(32, 7));
}

TEST_CASE("ptx: atomic operations of a block come one after another") {
  const std::vector<uint32_t> got = words_after(
      "ld.param.u64 %d2, [p0];\natom.global.add.u32 %r1, [%d2], 2;\natom.global.max.u32 %r2, "
      "[%d2+4], %r0;\n"
      "atom.global.cas.b32 %r3, [%d2+8], 0, 9;\natom.exch.b32 %r4, [%d2+12], 6;",
      50);
  CHECK(std::vector<uint32_t>(got.begin(), got.begin() + 4) ==
        std::vector<uint32_t>{100, 49, 9, 6});
}

TEST_CASE("ptx: a function is called by some lanes, with its arguments, result and local memory") {
  const std::string square =
      ".func (.param .b32 back) square(\n.param .b32 square_in\n)\n{\n.local .align 4 .b8 "
      "depot[4];\n"
      ".reg .b32 %r<3>;\nmov.u32 %r2, depot;\nld.param.u32 %r1, [square_in];\nmul.lo.s32 %r1, %r1, "
      "%r1;\n"
      "st.local.u32 [%r2], %r1;\nld.local.u32 %r0, [%r2];\nst.param.b32 [back+0], %r0;\nret;\n}\n";
  const std::vector<uint32_t> got = words_after(
      "mov.u32 %r1, 3;\nsetp.lt.u32 %p1, %r0, 5;\n@%p1 bra $L1;\n{\n.param .b32 param0;\n"
      "st.param.b32 [param0+0], %r0;\n.param .b32 result;\ncall.uni "
      "(result),\nsquare,\n(\nparam0\n);\n"
      "ld.param.b32 %r1, [result+0];\n}\n$L1:\nst.global.u32 [%d0], %r1;",
      40, {}, square);
  for (uint32_t t = 0; t < 40; ++t) CHECK(got[t] == (t < 5 ? 3 : t * t));
}

TEST_CASE("ptx: vectors, packed registers and constants of the module") {
  const std::vector<uint32_t> got = words_after(
      "mov.u64 %d2, table;\nld.global.nc.v2.u16 {%h1, %h2}, [%d2+4];\nmov.b32 %r1, {%h2, %h1};\n"
      "st.global.u32 [%d0], %r1;",
      1, {}, ".global .align 4 .b8 table[8] = {1, 2, 3, 4, 5, 6, 7};\n");
  CHECK(got[0] == 0x06050007);
}

TEST_CASE("ptx: a block of two dimensions and a grid of three count as they should") {
  Buffers buffers;
  const std::vector<uint32_t> zeros(2 * 3 * 4);
  const uint64_t at = buffers.add<uint32_t>("words", zeros);
  run_body(
      "ld.param.u64 %d0, [p0];\nmov.u32 %r0, %tid.y;\nmov.u32 %r1, %ntid.x;\nmov.u32 %r2, %tid.x;\n"
      "mad.lo.s32 %r0, %r0, %r1, %r2;\nmov.u32 %r3, %ctaid.z;\nmad.lo.s32 %r0, %r3, 6, %r0;\n"
      "mul.wide.u32 %d1, %r0, 4;\nadd.s64 %d0, %d0, %d1;\nmov.u32 %r4, %nctaid.z;\n"
      "st.global.u32 [%d0], %r4;",
      buffers, {at}, {3, 2, 1}, {1, 1, 4});
  CHECK(buffers.read<uint32_t>("words") == std::vector<uint32_t>(24, 4));
}

TEST_CASE("ptx fault: a store outside its buffer is named with kernel, block, thread and line") {
  check_message(message_of("st.global.u32 [%d0+128], %r0;"),
                {"k, block (0,0,0), thread (32,0,0), PTX line 15 `st.global.u32 [%d0+128], %r0;`",
                 "writes 4 bytes", "256 bytes into words, which has 256"});
  check_message(message_of("mov.u64 %d3, 64;\nld.global.u32 %r1, [%d3];"),
                {"thread (0,0,0)", "no buffer"});
}

TEST_CASE("ptx fault: a misaligned vector load") {
  check_message(message_of("ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%d0];"),
                {"thread (1,0,0)", "reads 16 bytes", "not a multiple of 16"});
  check_message(message_of("st.global.v2.f32 [%d0+2], {0f00000000, 0f00000000};", 1),
                {"writes 8 bytes", "not a multiple of 8"});
}

TEST_CASE(
    "ptx fault: a missing barrier between a write and a read, and between a read and a write") {
  const std::string begin =
      ".shared .align 4 .b8 words[8];\nmov.u32 %r1, words;\nsetp.eq.s32 %p1, %r0, 3;\n";
  check_message(message_of(begin + "@%p1 st.shared.u32 [%r1], 7;\nld.shared.u32 %r2, [%r1];"),
                {"reads shared memory that thread 3 of the block wrote since the last barrier",
                 "thread (0,0,0)"});
  check_message(
      message_of(begin + "@%p1 st.shared.u32 [%r1], 7;\nbar.sync 0;\nld.shared.u32 %r2, [%r1];\n"
                         "@%p1 st.shared.u32 [%r1], 8;"),
      {"writes shared memory that thread 2 of the block used since the last barrier",
       "thread (3,0,0)"});
  CHECK(message_of(begin + "st.shared.u32 [%r1], 7;\nbar.sync 0;\nld.shared.u32 %r2, [%r1];") ==
        "no error");
}

TEST_CASE("ptx fault: a register without a value, and shared memory that nobody wrote") {
  check_message(message_of("setp.lt.u32 %p1, %r0, 3;\n@%p1 mov.u32 %r1, 1;\nadd.s32 %r2, %r1, 1;\n"
                           "st.global.u32 [%d0], %r2;"),
                {"thread (3,0,0)", "%r2 has no value here"});
  check_message(message_of("setp.lt.u32 %p1, %r1, 3;\n@%p1 bra $L1;\n$L1:"), {"%p1 has no value"});
  check_message(message_of("add.s64 %d0, %d0, %d3;\nld.global.u32 %r1, [%d0];"),
                {"%d0 has no value"});
  CHECK(message_of(
            "add.s32 %r2, %r1, 1;\nselp.b32 %r3, %r2, %r0, %p1;\nsetp.ne.s32 %p2, %r0, %r0;\n"
            "and.pred %p3, %p1, %p2;\nselp.b32 %r3, %r2, %r0, %p3;\nst.global.u32 [%d0], %r3;") ==
        "no error");
  check_message(
      message_of(".shared .align 4 .b8 words[8];\nld.shared.u32 %r1, [words+4];\n"
                 "mov.u32 %r2, %r1;\nst.global.u32 [%d0], %r2;"),
      {"%r2 has no value here, perhaps because of line 16, which read what nobody wrote"});
  check_message(message_of("@%p3 bra $L1;\n$L1:"), {"%p3 has no value here"});
  check_message(message_of("div.s32 %r1, %r0, 0;\nst.global.u32 [%d0], %r1;"),
                {"%r1 has no value"});
}

TEST_CASE("ptx fault: barriers and shuffles that some threads never reach") {
  const std::string half = "setp.lt.u32 %p1, %r0, 16;\n";
  check_message(message_of(half + "@%p1 bra $L1;\nbar.sync 0;\n$L1:"),
                {"other threads of the block have ended"});
  check_message(
      message_of(half + "@%p1 bra $L1;\nbar.sync 0;\nbra.uni $L2;\n$L1:\nbar.sync 0;\n$L2:"),
      {"while other threads of the block wait at PTX line"});
  check_message(message_of(half + "@%p1 ret;\nshfl.sync.down.b32 %r1, %r0, 1, 31, -1;"),
                {"waits for lane 0, which has ended"});
  check_message(
      message_of(half +
                 "@%p1 bra $L1;\nshfl.sync.down.b32 %r1, %r0, 1, 31, -1;\n$L1:\nbar.sync 0;"),
      {"waits for lanes of its mask that never come"});
}

TEST_CASE("ptx fault: an unknown instruction, symbol, launch") {
  check_message(message_of("tanh.approx.f32 %f1, %f2;"),
                {"k, PTX line 15", "unknown instruction tanh.approx.f32"});
  check_message(message_of("cvt.rn.f16.f64 %h1, %g1;"), {"unknown instruction cvt.rn.f16.f64"});
  check_message(message_of("mov.u32 %r1, nowhere;"), {"unknown symbol nowhere"});
  check_message(message_of("bra $L9;"), {"no label $L9"});
  check_message(message_of("", 2000), {"2000 threads in a block, at most 1024"});
}
