// Named tensors: order, numbers, sections, and the errors.
#include "lathe/core/state_dict.h"

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "lathe/core/state_entries.h"
#include "lathe/ops/creation.h"

namespace lathe {
namespace {

std::vector<std::string> names(const StateDict& state) {
  std::vector<std::string> out;
  for (const auto& [name, tensor] : state) out.push_back(name);
  return out;
}

TEST_CASE("StateDict: keeps the order in which entries were added") {
  StateDict state;
  state.add("z", ones({2}));
  state.add("a", ones({3}));
  state.add("m", ones({4}));
  CHECK(names(state) == std::vector<std::string>{"z", "a", "m"});
  CHECK(state.size() == 3);
  CHECK(state.at("a").shape() == Shape{3});
  CHECK(state.find("b") == nullptr);
}

TEST_CASE("StateDict: numbers keep their type and every bit") {
  StateDict state;
  state.add_number("lr", 0.1);
  state.add_number("step", int64_t{1} << 60);
  state.add_number("flag", true);
  CHECK(state.at("lr").dtype() == kF64);
  CHECK(state.at("lr").shape() == Shape{});
  CHECK(state.number<double>("lr") == 0.1);
  CHECK(state.number<int64_t>("step") == int64_t{1} << 60);
  CHECK(state.at("flag").dtype() == kBool);
  CHECK(state.number<bool>("flag"));
}

TEST_CASE("StateDict: sections take prefixes off, add_all puts them on") {
  StateDict inner, outer;
  inner.add_number("x", 1);
  inner.add_number("y.z", 2);
  outer.add_number("other", 3);
  outer.add_all("optimizer.", inner);
  CHECK(names(outer) == std::vector<std::string>{"other", "optimizer.x", "optimizer.y.z"});
  CHECK(names(outer.section("optimizer.")) == names(inner));
}

TEST_CASE("StateDict: a section's messages have the names of the whole") {
  StateDict whole;
  whole.add_number("a.b.x", 0.5);
  const StateDict section = whole.section("a.").section("b.").clone();
  CHECK(section.full_name("x") == "a.b.x");
  CHECK_THROWS_WITH_AS(section.at("y"), doctest::Contains("no entry \"a.b.y\" among 1"),
                       ValueError);
  CHECK_THROWS_WITH_AS(section.number<int64_t>("x"), doctest::Contains("\"a.b.x\" is 0.5"),
                       ValueError);
  CHECK_THROWS_WITH_AS(section.count("x"), doctest::Contains("\"a.b.x\" must be an integer"),
                       ValueError);
  StateDict own;
  own.add_number("z", 1);
  CHECK_THROWS_WITH_AS(check_entries("part", section, own),
                       doctest::Contains("missing a.b.z; unexpected a.b.x"), ValueError);
}

TEST_CASE("StateDict: entries share their values until clone") {
  const Tensor t = zeros({2});
  StateDict state;
  state.add("t", t);
  const StateDict copy = state.clone();
  t.data<float>()[0] = 5;
  CHECK(state.at("t").to_vector<float>()[0] == 5);
  CHECK(copy.at("t").to_vector<float>()[0] == 0);
}

TEST_CASE("StateDict: errors name the entry, and change nothing") {
  StateDict state;
  state.add("a", ones({2}));
  CHECK_THROWS_WITH_AS(state.add("a", ones({3})),
                       doctest::Contains("already an entry \"a\" (new: f32[3]@cpu)"), ValueError);
  CHECK_THROWS_WITH_AS(state.add("b", Tensor()), doctest::Contains("\"b\" is undefined"),
                       ValueError);
  CHECK(state.size() == 1);
  CHECK_THROWS_WITH_AS(state.at("c"), doctest::Contains("no entry \"c\" among 1"), ValueError);
  CHECK_THROWS_WITH_AS(state.number<double>("a"),
                       doctest::Contains("\"a\" must have one element (f32[2]"), ShapeError);
}

TEST_CASE("StateDict: a number that is no integer is not read as one") {
  StateDict state;
  state.add_number("whole", -3.0);
  state.add_number("one", 1.0);
  CHECK(state.number<int64_t>("whole") == -3);
  CHECK(state.number<double>("whole") == -3);
  CHECK(state.number<bool>("one"));
  CHECK_THROWS_WITH_AS(state.number<bool>("whole"),
                       doctest::Contains("\"whole\" is -3, which is no bool"), ValueError);
  for (const double value : {1.5, 2.85679e151, -1e19, 0x1p63, double(INFINITY), double(NAN)}) {
    StateDict bad;
    bad.add_number("step", value);
    CHECK_THROWS_WITH_AS(bad.number<int64_t>("step"), doctest::Contains("\"step\" is "),
                         ValueError);
  }
  StateDict least;
  least.add_number("x", -0x1p63);
  CHECK(least.number<int64_t>("x") == INT64_MIN);
}

TEST_CASE("StateDict: a count is an integer from 0 to 2^53") {
  StateDict state;
  for (const int64_t count : {int64_t{0}, int64_t{7}, kMostCounted}) {
    state.add_number(concat("i", count), count);
    state.add_number(concat("f", count), static_cast<double>(count));
    CHECK(state.count(concat("i", count)) == count);
    CHECK(state.count(concat("f", count)) == count);
  }
  for (const Scalar value :
       {Scalar(-1), Scalar(INT64_MIN), Scalar(INT64_MAX), Scalar(0.5), Scalar(-0.5),
        Scalar(kMostCounted + 1), Scalar(2.85679e151), Scalar(INFINITY), Scalar(NAN)}) {
    StateDict bad;
    bad.add_number("step", value);
    CHECK_THROWS_WITH_AS(bad.count("step"),
                         doctest::Contains("\"step\" must be an integer from 0 to 90071992547409"),
                         ValueError);
  }
  CHECK_FALSE(as_count(ones({2})));
}

}  // namespace
}  // namespace lathe
