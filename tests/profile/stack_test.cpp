// Where a call came from. This file is compiled with line numbers, whatever the build has.
#include "lathe/core/hooks/stack.h"

#include <alloca.h>
#include <doctest/doctest.h>
#include <execinfo.h>

#include <algorithm>
#include <array>
#include <random>
#include <thread>

#include "lathe/core/hexadecimal.h"
#include "lathe/lathe.h"
#include "lathe/tests/profile/recorded.h"

namespace program {  // not of the library

[[gnu::noinline]] std::vector<void*> here_is_a_call() {
  std::vector<void*> stack = lathe::profile::call_stack();
  asm volatile("" : : : "memory");  // no tail call
  return stack;
}

constexpr int kLineOfRelu = __LINE__ + 2;
[[gnu::noinline]] lathe::Tensor model(const lathe::Tensor& x) {
  const lathe::Tensor y = lathe::relu(x);
  asm volatile("" : : : "memory");
  return lathe::sum(y);
}

constexpr int kLineOfItem = __LINE__ + 2;
[[gnu::noinline]] double inlined_item(const lathe::Tensor& x) {
  const double value = x.item<double>();
  asm volatile("" : : : "memory");
  return value;
}

constexpr int kLineOfPlus = __LINE__ + 2;
[[gnu::noinline]] lathe::Tensor twice(const lathe::Tensor& x) {
  lathe::Tensor y = x + x;  // an inline function of the library
  asm volatile("" : : : "memory");
  return y;
}

// A compiler may leave the name of a function out that only this file can call.
constexpr int kLineOfHelper = __LINE__ + 2;
[[gnu::always_inline]] static inline lathe::Tensor helper(const lathe::Tensor& x) {
  lathe::Tensor y = lathe::relu(x);
  asm volatile("" : : : "memory");
  return y;
}
[[gnu::noinline]] lathe::Tensor with_helper(const lathe::Tensor& x) {
  lathe::Tensor y = helper(x);
  asm volatile("" : : : "memory");
  return y;
}

constexpr int kLineInLambda = __LINE__ + 3;
[[gnu::noinline]] lathe::Tensor with_lambda(const lathe::Tensor& x) {
  const auto sum_of = [&]() __attribute__((always_inline)) {
    lathe::Tensor y = x + x;  // an inline function of the library in a nameless one
    asm volatile("" : : : "memory");
    return y;
  };
  lathe::Tensor y = sum_of();
  asm volatile("" : : : "memory");
  return y;
}

/// The size of a stack of at most `limit` frames, `depth` calls further down.
[[gnu::noinline]] size_t frames_below(int depth, size_t limit) {
  const size_t size =
      depth > 0 ? frames_below(depth - 1, limit) : lathe::profile::call_stack(limit).size();
  asm volatile("" : : : "memory");  // no tail call
  return size;
}

// A tree of calls with frames of many sizes, some of which change from call to call. At each leaf
// the stack is compared with what glibc says.
struct Tree {
  std::minstd_rand random{1};
  int64_t stacks = 0, different = 0;

  uint32_t below(uint32_t end) { return static_cast<uint32_t>(random() >> 8) % end; }

  [[gnu::noinline]] void compare() {
    const std::vector<void*> ours = lathe::profile::call_stack(200);
    std::array<void*, 200> theirs;
    const int found = backtrace(theirs.data(), static_cast<int>(theirs.size()));
    // The first is inside of this function, at a line of its own; a sanitizer may stand before it.
    void** const end = theirs.data() + found;
    const std::vector<void*> callers(std::find(theirs.data(), end, ours[1]), end);
    ++stacks;
    different += std::vector<void*>(ours.begin() + 1, ours.end()) == callers ? 0 : 1;
  }

  [[gnu::noinline]] void wide(int depth) {
    std::array<char, 200> room;
    asm volatile("" : : "r"(room.data()) : "memory");
    grow(depth);
    asm volatile("" : : "r"(room.data()) : "memory");
  }
  [[gnu::noinline]] void changing(int depth) {
    void* const room = alloca(16 + 16 * below(4));
    asm volatile("" : : "r"(room) : "memory");
    grow(depth);
    asm volatile("" : : "r"(room) : "memory");
  }
  [[gnu::noinline]] void twice_changing(int depth) {
    void* const room = alloca(16 + 16 * below(4));
    asm volatile("" : : "r"(room) : "memory");
    grow(depth);
    if (below(2) == 0) grow(depth);
    asm volatile("" : : "r"(room) : "memory");
  }
  [[gnu::noinline]] void grow(int depth) {
    if (depth == 0) return compare();
    const uint32_t way = below(8);
    if (way < 3) wide(depth - 1);
    if (way % 3 == 0) changing(depth - 1);
    if (way >= 4) twice_changing(depth - 1);
    asm volatile("" : : : "memory");
  }
};

}  // namespace program

namespace lathe::profile {
namespace {

bool knows_lines() { return !line_reader().empty(); }

TEST_CASE("hexadecimal: no leading zeros, all of 64 bits") {
  CHECK(hexadecimal(0) == "0x0");
  CHECK(hexadecimal(31) == "0x1f");
  CHECK(hexadecimal(~uint64_t{0}) == "0xffffffffffffffff");
}

TEST_CASE("call_stack: the innermost frame is the caller's") {
  const std::vector<void*> stack = program::here_is_a_call();
  REQUIRE(stack.size() >= 2);
  if (knows_lines()) CHECK(frame_of(stack[0]).function == "program::here_is_a_call()");
  CHECK(call_stack(1).size() == 1);
  CHECK(call_stack(0).empty());
}

TEST_CASE("call_stack: one that resembles the last one is no other than glibc's") {
  program::Tree tree;
  while (tree.stacks < 3000) tree.grow(6);
  CHECK(tree.different == 0);
  std::thread([] {
    program::Tree other;
    while (other.stacks < 300) other.grow(4);
    CHECK(other.different == 0);
  }).join();
}

TEST_CASE("call_stack: no more frames than were asked for, however deep") {
  program::Tree tree;
  CHECK(program::frames_below(300, 10) == 10);
  CHECK(program::frames_below(300, 1000) > 100);
  CHECK(program::frames_below(20, 10) == 10);
  while (tree.stacks < 10) tree.grow(3);  // after a stack that was deeper than what is kept
  CHECK(tree.different == 0);
}

TEST_CASE("user_call: an operator that is inlined is not the program's call") {
  LiveMemory memory;
  const Tensor y = program::twice(ones({2}));
  const std::string place = memory.live().front().place();
  if (!knows_lines()) return;
  CHECK_MESSAGE(place.starts_with(concat("stack_test.cpp:", program::kLineOfPlus, " ")), place);
}

TEST_CASE("user_call: a function of the file's own that is inlined has its own lines") {
  LiveMemory memory;
  const Tensor x = ones({2});
  const auto place_of = [&](const Tensor& made) {
    for (const LiveTensor& t : memory.live()) {
      if (t.bytes == made.bytes() && t.step == 1) return t.place();
    }
    return std::string();
  };
  memory.step();
  std::string helped, in_lambda;
  helped = place_of(program::with_helper(x));
  in_lambda = place_of(program::with_lambda(x));
  if (!knows_lines()) return;
  CHECK_MESSAGE(helped.starts_with(concat("stack_test.cpp:", program::kLineOfHelper, " ")), helped);
  CHECK_MESSAGE(in_lambda.starts_with(concat("stack_test.cpp:", program::kLineInLambda, " ")),
                in_lambda);
}

TEST_CASE("frame_of: an address that is no code has no name") {
  const Frame frame = frame_of(reinterpret_cast<void*>(16));
  CHECK(frame.function.empty());
  CHECK(frame.line == 0);
  CHECK(user_call({}).empty());
}

TEST_CASE("Frame: what belongs to the library") {
  const auto of_library = [](const char* name) {
    Frame frame;
    frame.function = name;
    return frame.is_of_library();
  };
  CHECK(of_library("lathe::relu(lathe::Tensor const&)"));
  CHECK(of_library("lathe::Tensor lathe::(anonymous namespace)::from_output<int>(char const*)"));
  CHECK(of_library("std::_Function_handler<void ()>::_M_invoke(std::_Any_data const&)"));
  CHECK_FALSE(of_library("train(lathe::Tensor const&)"));
  CHECK_FALSE(of_library("lathe::Tensor program::model<int>(lathe::Tensor)"));
  CHECK_FALSE(of_library("lathe::cli::run_train(lathe::cli::Invocation const&)"));
  CHECK_FALSE(of_library("main"));
  CHECK_FALSE(of_library(""));
}

TEST_CASE(
    "profiler: rows by stack name the program's call, those of gradients their forward call") {
  const Tensor x = ones({4}).requires_grad_();
  Profiler profiler({.with_stack = true});
  const Tensor loss = program::model(x);
  loss.backward();
  profiler.stop();
  const Averages rows = profiler.key_averages({.group_by_stack = true});
  const std::string forward = rows.find("relu")->source;
  CHECK(forward == rows.find("relu backward")->source);
  if (!knows_lines()) {
    MESSAGE("libdw is not installed: no lines to compare");
    return;
  }
  CHECK(forward ==
        concat("stack_test.cpp:", program::kLineOfRelu, " (program::model(lathe::Tensor const&))"));
}

TEST_CASE("profiler: a gradient has its op's stack, or its own where the op was not recorded") {
  const Tensor x = ones({4}).requires_grad_();
  const Tensor before = program::model(x);
  Profiler profiler({.with_stack = true});
  before.backward();
  program::model(x).backward();
  profiler.stop();
  std::vector<std::vector<void*>> gradients, ops;
  for (const ThreadRecords& thread : profiler.recording().threads) {
    for (const Record& record : thread.records) {
      if (record.name != std::string("relu")) continue;
      (record.kind == Kind::kBackward ? gradients : ops).push_back(record.stack);
    }
  }
  REQUIRE(gradients.size() == 2);
  REQUIRE(ops.size() == 1);
  CHECK_FALSE(gradients[0].empty());
  CHECK(gradients[0] != ops[0]);
  CHECK(gradients[1] == ops[0]);
}

TEST_CASE("profiler: the gradient of a gradient has the stack of the op that it began with") {
  const Tensor x = ones({4}).requires_grad_();
  Profiler profiler({.with_stack = true});
  const Tensor y = sum(exp(x));
  const Tensor dx = grad({y}, {x}, {.create_graph = true})[0];
  sum(sqrt(dx)).backward();  // through the product with exp(x) in the gradient of exp
  profiler.stop();
  std::vector<void*> stack;
  int products = 0, gradients = 0;
  for (const ThreadRecords& thread : profiler.recording().threads) {
    for (const Record& record : thread.records) {
      if (std::string_view(record.name) == "exp" && record.kind == Kind::kOp) stack = record.stack;
    }
    for (const Record& record : thread.records) {
      if (std::string_view(record.name) != "mul" || record.stack != stack) continue;
      ++(record.kind == Kind::kBackward ? gradients : products);
    }
  }
  CHECK_FALSE(stack.empty());
  CHECK(products >= 1);
  CHECK(gradients >= 1);
}

TEST_CASE("profiler: what makes a gradient has the stack of its op, what a hook calls its own") {
  const Tensor x = ones({4}).requires_grad_();
  Profiler profiler({.with_stack = true});
  const Tensor y = mean(x);
  y.register_hook([](const Tensor& dy) { return exp(dy); });
  const Tensor z = y * 2.0;
  z.backward();
  profiler.stop();
  const auto stack_of = [&](std::string_view name, bool gradient) {
    for (const ThreadRecords& thread : profiler.recording().threads) {
      for (const Record& record : thread.records)
        if (record.name == name && (record.kind == Kind::kBackward) == gradient)
          return record.stack;
    }
    FAIL(concat("no range ", name));
    return std::vector<void*>();
  };
  CHECK_FALSE(stack_of("mean", false).empty());
  CHECK(stack_of("mean", true) == stack_of("mean", false));
  CHECK(stack_of("expand", false) == stack_of("mean", false));  // in its gradient, after the hook
  CHECK_FALSE(stack_of("exp", false).empty());
  CHECK(stack_of("exp", false) != stack_of("mul", false));
  CHECK(stack_of("exp", false).size() > stack_of("mul", false).size());
}

TEST_CASE("profiler: a function that a header of the library defines inline is not the place") {
  const Tensor x = ones({1});
  Profiler profiler({.with_stack = true});
  program::inlined_item(x);
  profiler.stop();
  if (!knows_lines()) return;
  CHECK(profiler.key_averages({.group_by_stack = true}).find("item")->source ==
        concat("stack_test.cpp:", program::kLineOfItem,
               " (program::inlined_item(lathe::Tensor const&))"));
}

}  // namespace
}  // namespace lathe::profile
