// What is alive, where it was made, and planted leaks. Compiled with line numbers, as stack_test.
#include "lathe/core/hooks/live_memory.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "lathe/core/hooks/stack.h"
#include "lathe/core/memory/host_allocator.h"
#include "lathe/lathe.h"

namespace program {  // not of the library

using lathe::Tensor;

constexpr int kLineOfTensor = __LINE__ + 2;
[[gnu::noinline]] Tensor make_one() {
  Tensor y = lathe::zeros({3, 5});
  asm volatile("" : : : "memory");  // no tail call
  return y;
}

struct Training {
  Tensor w = lathe::ones({4}).requires_grad_();
  Tensor loss_sum = lathe::zeros({});
  std::vector<Tensor> kept;

  static constexpr int kLineOfLoss = __LINE__ + 2;
  [[gnu::noinline]] Tensor loss() {
    Tensor out = lathe::sum(lathe::square(w) * w);
    asm volatile("" : : : "memory");
    return out;
  }

  [[gnu::noinline]] void clean_step() {
    loss().backward();
    w.set_grad({});
  }

  [[gnu::noinline]] void step_that_keeps_losses() {
    kept.push_back(loss());
    asm volatile("" : : : "memory");
  }

  static constexpr int kLineOfSum = __LINE__ + 4;
  [[gnu::noinline]] void step_that_adds_losses() {
    const Tensor now = loss();
    now.backward();
    loss_sum = loss_sum + now;
    asm volatile("" : : : "memory");
  }

  static constexpr int kLineOfHistory = __LINE__ + 3;
  [[gnu::noinline]] void step_that_grows_a_tensor() {
    const int64_t size = kept.empty() ? 0 : kept[0].numel();
    const Tensor longer = lathe::zeros({size + 8});
    kept = {longer};
    asm volatile("" : : : "memory");
  }
};

}  // namespace program

namespace lathe::profile {
namespace {

bool knows_lines() { return !line_reader().empty(); }
std::string at_line(int line) { return concat("live_memory_test.cpp:", line); }

/// Ten steps, then what `read` takes from the record.
template <class Step, class Read>
auto after_steps(const Step& step, const Read& read) {
  program::Training training;
  LiveMemory memory;
  for (int i = 0; i < 10; ++i) {
    step(training);
    memory.step();
  }
  return read(memory);
}

/// What grows over them.
template <class Step>
std::vector<Growth> growth_of(const Step& step) {
  return after_steps(step, [](const LiveMemory& memory) { return memory.growth(); });
}
template <class Step>
std::string growth_text_of(const Step& step) {
  return after_steps(step, [](const LiveMemory& memory) { return memory.growth_text(); });
}

TEST_CASE("LiveMemory: the tensors that are alive, with op and place") {
  const Tensor earlier = zeros({100});
  LiveMemory memory;
  CHECK(memory.live().empty());
  const Tensor a = program::make_one(), view = a.detach();
  Tensor w = ones({2, 2});
  w.requires_grad_();
  memory.step();
  const Tensor y = relu(w);
  const std::vector<LiveTensor> live = memory.live();
  REQUIRE(live.size() == 3);
  CHECK(live[0].bytes == 60);
  CHECK(live[0].shape == Shape({3, 5}));
  CHECK(live[0].dtype == kF32);
  CHECK(live[0].step == 0);
  if (knows_lines()) {
    CHECK(live[0].place().starts_with(at_line(program::kLineOfTensor)));
  }
  CHECK(live[2].step == 1);
  CHECK(live[2].op == std::string("relu"));
  CHECK(live[2].tag == MemoryTag::kActivations);
  CHECK(memory.table(2).starts_with("3 tensors alive, 92 "));
  CHECK(memory.table(2).ends_with("  and 1 more\n"));
}

TEST_CASE("LiveMemory: one at a time, and nothing stays of it") {
  Tensor seen;
  {
    LiveMemory memory;
    CHECK_THROWS_WITH_AS(static_cast<void>(LiveMemory()),
                         doctest::Contains("live_memory_test.cpp:"), StateError);
    seen = ones({3});
    CHECK(memory.live().size() == 1);
  }
  CHECK_FALSE(detail::notes_live());
  LiveMemory memory;
  CHECK(memory.live().empty());
}

TEST_CASE("LiveMemory: a training that keeps nothing has no growth") {
  CHECK(growth_of([](program::Training& t) { t.clean_step(); }).empty());
  CHECK(growth_of([](program::Training& t) {
          t.clean_step();
          t.kept = {zeros({10})};  // the latest only
        }).empty());
  int steps = 0;
  CHECK(growth_of([&](program::Training& t) {  // as much as a window holds
          if (steps++ % 5 == 0) t.kept.clear();
          t.kept.push_back(zeros({10}));
        })
            .empty());
}

TEST_CASE("LiveMemory: a loss that is kept with its graph is found at its line") {
  const auto growth = growth_of([](program::Training& t) { t.step_that_keeps_losses(); });
  REQUIRE_FALSE(growth.empty());
  CHECK(growth[0].holds_graph);
  CHECK(growth[0].op == "sum");
  CHECK(growth[0].nodes_per_step == doctest::Approx(1));
  if (knows_lines()) CHECK(growth[0].place.starts_with(at_line(program::Training::kLineOfLoss)));
  CHECK(std::ranges::count(growth, true, &Growth::holds_graph) == 1);
  double bytes = 0;
  for (const Growth& g : growth) bytes += g.bytes_per_step;
  CHECK(bytes >= 16 + 4);  // square's result is saved, and the loss is kept
}

TEST_CASE("LiveMemory: losses that are added up with their graphs are found at the sum") {
  const auto growth = growth_of([](program::Training& t) { t.step_that_adds_losses(); });
  REQUIRE_FALSE(growth.empty());
  CHECK(growth[0].holds_graph);
  CHECK(growth[0].op == "add");
  if (knows_lines())
    CHECK_MESSAGE(growth[0].place.starts_with(at_line(program::Training::kLineOfSum)),
                  growth[0].place);
}

TEST_CASE("LiveMemory: one tensor that grows is found") {
  const auto growth = growth_of([](program::Training& t) { t.step_that_grows_a_tensor(); });
  REQUIRE(growth.size() == 1);
  CHECK(growth[0].bytes_per_step == doctest::Approx(32));
  CHECK_FALSE(growth[0].holds_graph);
  if (knows_lines())
    CHECK_MESSAGE(growth[0].place.starts_with(at_line(program::Training::kLineOfHistory)),
                  growth[0].place);
}

/// `text` with what stands after " at " cut off each line: places depend on libdw.
std::string without_places(const std::string& text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    const std::string line = text.substr(at, end - at);
    out += line.substr(0, line.find(" at ")) + "\n";
    at = end + 1;
  }
  return out;
}

TEST_CASE("LiveMemory: growth as sentences") {
  CHECK(growth_text_of([](program::Training& t) { t.clean_step(); }).empty());
  const std::string grown =
      growth_text_of([](program::Training& t) { t.step_that_grows_a_tensor(); });
  CHECK(without_places(grown) == "a tensor made\n");
  CHECK(grown.ends_with(" grows by 32 bytes each step\n"));
  const std::string kept =
      growth_text_of([](program::Training& t) { t.kept.push_back(relu(zeros({2}))); });
  CHECK(without_places(kept) == "each step leaves 1 tensor, 8 bytes, made\n");
  const std::string pairs = growth_text_of([](program::Training& t) {
    for (int i = 0; i < 2; ++i) t.kept.push_back(t.w * t.w);
  });
  CHECK_MESSAGE(without_places(pairs) ==
                    "each step keeps the graph that ends with mul\n"
                    "each step leaves 2 tensors, 32 bytes, of mul made\n",
                pairs);
}

TEST_CASE("LiveMemory: an error names the largest tensors and where they were made") {
  LiveMemory memory;
  const Tensor big = zeros({1000, 1000});
  host_allocator().fault().fail_at(1);
  CHECK_THROWS_WITH_AS(empty({10}),
                       doctest::Contains("; the largest: 3.81 MiB other f32[1000,1000]"),
                       OutOfMemoryError);
  host_allocator().fault().disarm();
}

}  // namespace
}  // namespace lathe::profile
