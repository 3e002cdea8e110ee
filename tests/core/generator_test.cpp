// Generators: runs of counters follow each other, state is two integers, threads share without
// overlap.
#include "lathe/core/random/generator.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "lathe/core/random/own_generators.h"

namespace lathe {
namespace {

using State = Generator::State;

TEST_CASE("Generator: calls follow each other without gaps") {
  Generator generator(5);
  CHECK(generator.reserve(3) == State{5, 0});
  CHECK(generator.reserve(0) == State{5, 3});
  CHECK(generator.reserve(1) == State{5, 3});
  CHECK(generator.state() == State{5, 4});
}

TEST_CASE("Generator: counters_for rounds up to whole counters of four words") {
  static_assert(Generator::counters_for(0) == 0);
  static_assert(Generator::counters_for(1) == 1);
  static_assert(Generator::counters_for(4) == 1);
  static_assert(Generator::counters_for(5) == 2);
}

TEST_CASE("Generator: a restored state repeats the sequence") {
  Generator generator(5);
  generator.reserve(10);
  const State saved = generator.state();
  const State first = generator.reserve(7);
  generator.set_state(saved);
  CHECK(generator.reserve(7) == first);
  generator.manual_seed(9);
  CHECK(generator.seed() == 9);
  CHECK(generator.reserve(1) == State{9, 0});
}

TEST_CASE("Generator: threads take disjoint blocks") {
  Generator generator(1);
  std::vector<std::vector<uint64_t>> taken(4);
  std::vector<std::thread> threads;
  for (auto& mine : taken) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) mine.push_back(generator.reserve(2).offset);
    });
  }
  for (auto& thread : threads) thread.join();
  std::vector<uint64_t> all;
  for (const auto& mine : taken) all.insert(all.end(), mine.begin(), mine.end());
  std::sort(all.begin(), all.end());
  for (size_t i = 0; i < all.size(); ++i) REQUIRE(all[i] == 2 * i);
}

TEST_CASE("manual_seed: reaches every device's generator, used before or after") {
  Generator& cuda0 = default_generator(Device("cuda:0"));
  default_generator().reserve(3);
  cuda0.reserve(3);
  manual_seed(42);
  CHECK(default_generator().state() == State{42, 0});
  CHECK(cuda0.state() == State{42, 0});
  CHECK(default_generator(Device("cuda:3")).state() == State{42, 0});
  CHECK(&default_generator(Device("cuda:0")) == &cuda0);
  CHECK(&default_generator(Device("cpu")) == &default_generator());
  manual_seed(kDefaultSeed);
}

TEST_CASE("OwnGenerators: a default generator is one object, whose draws go to the thread's own") {
  Generator mine(3);
  for (const Device device : {kCPU, Device("cuda:0")}) {
    Generator& generator = default_generator(device);
    generator.set_state({5, 2});
    {
      const OwnGenerators own;
      CHECK(&generator == &default_generator(device));
      CHECK(generator.reserve(10) == State{5, 2});
      CHECK(generator.state() == State{5, 12});
      generator.manual_seed(6);
      CHECK(generator.seed() == 6);
      mine.reserve(1);
    }
    CHECK(generator.state() == State{5, 2});
  }
  CHECK(mine.state() == State{3, 2});  // no stand-in
  manual_seed(kDefaultSeed);
}

TEST_CASE("OwnGenerators: this thread's draws move nobody's generators, others' draws go on") {
  const Device gpu("cuda:0");
  manual_seed(5);
  default_generator().reserve(2);
  default_generator(gpu).reserve(7);
  {
    const OwnGenerators own;
    CHECK(default_generator().reserve(10) == State{5, 2});
    CHECK(default_generator(gpu).reserve(10) == State{5, 7});
    CHECK(default_generator(Device("cuda:1")).state() == State{5, 0});
    std::thread([] { CHECK(default_generator().reserve(3) == State{5, 2}); }).join();
    {
      const OwnGenerators inner;
      CHECK(default_generator().state() == State{5, 12});
      manual_seed(9);
    }
    CHECK(default_generator().state() == State{5, 12});
  }
  CHECK(default_generator().state() == State{5, 5});
  CHECK(default_generator(gpu).state() == State{5, 7});
  manual_seed(kDefaultSeed);
}

}  // namespace
}  // namespace lathe
