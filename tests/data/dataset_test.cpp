#include "lathe/data/dataset.h"

#include <doctest/doctest.h>

#include <cmath>
#include <set>

#include "files.h"
#include "lathe/data/batch.h"
#include "lathe/data/dataset_parts.h"
#include "lathe/ops/creation.h"

namespace lathe::data {
namespace {

using testing::message_of;

template <class T>
Tensor counting(const Shape& shape) {
  const Tensor t = empty(shape, {.dtype = dtype_of<T>});
  for (int64_t k = 0; k < t.numel(); ++k) t.data<T>()[k] = static_cast<T>(k);
  return t;
}

TEST_CASE("dataset: TensorDataset gives the rows of its tensors") {
  const TensorDataset set(counting<float>({4, 2, 3}), counting<int64_t>({4}));
  CHECK(set.size() == 4);
  const SampleSpec spec = set.spec();
  REQUIRE(spec.fields.size() == 2);
  CHECK(spec.fields[0].shape == Shape{2, 3});
  CHECK(spec.fields[1].shape == Shape{});
  CHECK(spec.fields[1].dtype == kI64);

  const std::vector<int64_t> rows = {2, 0, 2};
  Batch batch = read_batch(set, rows);
  CHECK(batch.size() == 3);
  CHECK(batch.indices == rows);
  auto& [x, y] = batch;
  CHECK(x.shape() == Shape{3, 2, 3});
  CHECK(x.to_vector<float>() ==
        std::vector<float>{12, 13, 14, 15, 16, 17, 0, 1, 2, 3, 4, 5, 12, 13, 14, 15, 16, 17});
  CHECK(y.to_vector<int64_t>() == rows);
  CHECK(message_of<IndexError>([&] { read_batch(set, std::vector<int64_t>{4}); }) ==
        "read_batch: index 4 of a data set of 4 samples");
}

TEST_CASE("dataset: TensorDataset keeps a copy, takes strided tensors, and any number of them") {
  const Tensor base = counting<float>({2, 3});
  const Tensor transposed = alias(base, {3, 2}, {1, 3}, 0);
  const TensorDataset set(Tensors{transposed, counting<double>({3}), counting<uint8_t>({3, 2})});
  base.data<float>()[0] = 99;
  const Batch batch = read_batch(set, std::vector<int64_t>{0, 1, 2});
  CHECK(batch.x.to_vector<float>() == std::vector<float>{0, 3, 1, 4, 2, 5});
  REQUIRE(batch.more.size() == 1);
  CHECK(batch.more[0].to_vector<int>() == std::vector<int>{0, 1, 2, 3, 4, 5});
  CHECK_THROWS_AS(TensorDataset(Tensors{}), ValueError);
  CHECK(message_of<ShapeError>([] { TensorDataset(counting<float>({2}), counting<float>({3})); }) ==
        "TensorDataset: tensors must have the same dimension 0 (f32[2]@cpu, f32[3]@cpu)");
  CHECK_THROWS_AS(TensorDataset(Tensors{counting<float>({})}), ShapeError);
}

TEST_CASE("dataset: from_function takes functions of the index, and of index and key") {
  const auto set = from_function(10, [](int64_t i) {
    return Example{counting<float>({i < 5 ? 2 : 3}), i * i};
  });
  Batch batch = read_batch(set, std::vector<int64_t>{4});
  CHECK(batch.y.to_vector<int64_t>() == std::vector<int64_t>{16});
  CHECK(message_of<DataError>([&] {
          read_batch(set, std::vector<int64_t>{1, 5});
        }) == "sample 5: Slot: field 0 (x) has shape [2], the value is f32[3]@cpu");

  const auto keyed = from_function(10, [](int64_t i, Key key) {
    return Example{counting<float>({1}),
                   static_cast<int64_t>(key.seed) + 10 * key.epoch + 100 * key.index + i};
  });
  CHECK(read_batch(keyed, std::vector<int64_t>{3}, 1, 2).y.to_vector<int64_t>() ==
        std::vector<int64_t>{324});
  CHECK_THROWS_AS(from_function(0,
                                [](int64_t i) {
                                  return Example{counting<float>({1}), i};
                                }),
                  ValueError);
}

TEST_CASE("dataset: Subset keeps each sample's own random numbers") {
  const auto set = from_function(10, [](int64_t i, Key key) {
    return Example{counting<float>({1}), 10 * i + key.index};
  });
  const Subset part(set, {7, 3});
  CHECK(part.size() == 2);
  CHECK(read_batch(part, std::vector<int64_t>{0, 1}).y.to_vector<int64_t>() ==
        std::vector<int64_t>{77, 33});
  CHECK(message_of<IndexError>([&] {
          Subset(set, {0, 10});
        }) == "Subset: index 10 of a data set of 10 samples");
}

TEST_CASE("dataset: a slot checks field, dtype and shape") {
  const BatchBuffer batch({{{"x", {2}, kF32}, {"y", {}, kI64}}}, 3);
  const Slot slot(batch, 1);
  CHECK(slot.fields() == 2);
  CHECK(slot.data<float>(0).data() == batch.tensors()[0].data<float>() + 2);
  CHECK(slot.bytes(1).size() == 8);
  CHECK(message_of<DTypeError>([&] { slot.data<double>(0); }) ==
        "Slot: field 0 (x) is f32, asked for as f64");
  CHECK(message_of<IndexError>([&] { slot.bytes(2); }) ==
        "Slot: field 2 of a sample with 2 fields");
  CHECK_THROWS_AS(slot.data<float>(-1), IndexError);
  CHECK_THROWS_AS(BatchBuffer({}, 1), ValueError);
  CHECK_THROWS_AS(BatchBuffer({{{"x", {int64_t{1} << 40}, kF32}}}, int64_t{1} << 40), ShapeError);
}

TEST_CASE("dataset: ConcatDataset is one after another, parts of no sample included") {
  const TensorDataset a(tensor({0, 1, 2}, kI32), tensor({10, 11, 12}, kI32)),
      b(tensor({3}, kI32), tensor({13}, kI32)),
      none(zeros({0}, {.dtype = kI32}), zeros({0}, {.dtype = kI32}));
  const ConcatDataset all({&none, &a, &none, &b, &none});
  CHECK(all.size() == 4);
  const Batch batch = read_batch(all, std::vector<int64_t>{3, 0, 2, 1});
  CHECK(batch.x.to_vector<int32_t>() == std::vector<int32_t>{3, 0, 2, 1});
  CHECK(batch.y.to_vector<int32_t>() == std::vector<int32_t>{13, 10, 12, 11});
  CHECK_THROWS_AS(ConcatDataset({}), ValueError);
  const TensorDataset other(zeros({2, 5}, {.dtype = kI32}), zeros({2}));
  CHECK(message_of<ShapeError>([&] {
          ConcatDataset({&a, &other});
        }) == "ConcatDataset: field 0 of part 1 has shape [5], the same field of part 0 has []");
}

TEST_CASE("dataset: random_split gives disjoint parts, the same for the same seed") {
  const auto set =
      from_function(100, [](int64_t i) { return Example(full({}, static_cast<double>(i)), i); });
  const auto indices = [&](uint64_t seed, size_t part) {
    std::vector<int64_t> seen;
    const std::vector<Subset> parts = random_split(set, {70, 0, 20}, seed);
    for (int64_t i = 0; i < parts[part].size(); ++i)
      seen.push_back(read_batch(parts[part], std::vector<int64_t>{i}).y.item<int64_t>());
    return seen;
  };
  CHECK(indices(1, 0) == indices(1, 0));
  CHECK(indices(1, 0) != indices(2, 0));
  CHECK(indices(1, 1).empty());
  std::vector<int64_t> both = indices(1, 0);
  for (const int64_t i : indices(1, 2)) both.push_back(i);
  CHECK(std::set<int64_t>(both.begin(), both.end()).size() == 90);
  CHECK(message_of<ValueError>([&] {
          random_split(set, {70, 40}, 1);
        }) == "random_split: a part has 40 samples, but only 30 of 100 samples are left");
}

TEST_CASE("dataset: stratified_split gives each class its share, and leaves it one sample") {
  struct {
    std::vector<int64_t> per_class;
    double fraction;
    std::vector<int64_t> part;  // by hand: the shares, rounded down, and the largest remainders up
  } const cases[] = {{{10, 20, 30}, 0.1, {1, 2, 3}},
                     {{5, 5, 5, 5}, 0.1, {1, 1, 0, 0}},  // 2 of 20, and all remainders are equal
                     {{1, 9}, 0.5, {0, 5}},              // a single sample stays
                     {{2, 2}, 0.99, {1, 1}},
                     {{100}, 0.29, {29}},  // 0.29 · 100 is a little less than 29
                     {{4, 4}, 0, {0, 0}}};
  for (const auto& c : cases) {
    std::vector<int64_t> labels;
    for (size_t k = 0; k < c.per_class.size(); ++k)
      labels.insert(labels.end(), static_cast<size_t>(c.per_class[k]), static_cast<int64_t>(k));
    const StratifiedSplit split = stratified_split(labels, c.fraction, 3);
    std::vector<int64_t> counts(c.per_class.size());
    for (const int64_t i : split.part)
      ++counts[static_cast<size_t>(labels[static_cast<size_t>(i)])];
    CHECK(counts == c.part);
    std::vector<int64_t> all = split.part;
    all.insert(all.end(), split.rest.begin(), split.rest.end());
    CHECK(std::set<int64_t>(all.begin(), all.end()).size() == labels.size());
    CHECK(all.size() == labels.size());
    CHECK(stratified_split(labels, c.fraction, 3).part == split.part);
  }
  const std::vector<int64_t> labels(100, 7);
  CHECK(stratified_split(labels, 0.5, 1).part != stratified_split(labels, 0.5, 2).part);
  for (const double bad : {-0.1, 1.0, std::nan("")})
    CHECK_THROWS_AS(stratified_split(labels, bad, 1), ValueError);
  CHECK(stratified_split({}, 0.5, 1).rest.empty());
}

}  // namespace
}  // namespace lathe::data
