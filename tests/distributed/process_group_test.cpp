// ProcessGroup: what the collectives compute, on 1 to 4 processes.
#include "lathe/distributed/process_group.h"

#include <doctest/doctest.h>

#include <bit>
#include <memory>
#include <string>
#include <vector>

#include "lathe/autograd/grad_mode.h"
#include "lathe/core/format.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/creation.h"
#include "ranks.h"

using namespace lathe;
using namespace lathe::distributed;
using lathe::test::Ranks;

namespace {

template <class T>
std::string text_of(const Tensor& t) {
  std::string out;
  for (const T value : t.to_vector<T>()) out += concat(out.empty() ? "" : " ", value);
  return out;
}

void check_all(std::vector<std::string> results, const std::string& expected) {
  for (const std::string& result : results) CHECK(result == expected);
}

/// 1·(rank+1), 2·(rank+1), …
Tensor multiples(int64_t n, int64_t rank, DType dtype) {
  return ((arange(n, {.dtype = kF64}) + 1.0) * static_cast<double>(rank + 1))
      .to(dtype)
      .to(test::device());
}

}  // namespace

TEST_CASE("all_reduce_ gives every rank the reduction over all of them") {
  std::vector<std::unique_ptr<Ranks>> runs;  // at the same time: ranks mostly wait for each other
  for (const int n : {1, 2, 3, 4}) {
    runs.push_back(std::make_unique<Ranks>(n, 60, [](const GroupOptions& options) {
      ProcessGroup group(options);
      std::string out;
      for (const Reduce op : {Reduce::kSum, Reduce::kMin, Reduce::kMax, Reduce::kProduct}) {
        for (const DType dtype : {kF16, kBF16, kF32, kF64, kU8, kI8, kI16, kI32, kI64}) {
          const Tensor t = tensor({double(group.rank() + 1), 1.0}).to(dtype).to(test::device());
          group.all_reduce_(t, op).wait();
          out += text_of<double>(t.to(kF64)) + ";";
        }
      }
      return out;
    }));
  }
  for (const int n : {1, 2, 3, 4}) {
    const int sum = n * (n + 1) / 2, product = n == 4 ? 24 : n == 3 ? 6 : n;
    std::string expected;
    for (const std::string& text :
         {concat(sum, " ", n), std::string("1 1"), concat(n, " 1"), concat(product, " 1")}) {
      for (int dtype = 0; dtype < 9; ++dtype) expected += text + ";";
    }
    check_all(runs[static_cast<size_t>(n - 1)]->results(), expected);
  }
}

TEST_CASE("the other collectives") {
  Ranks ranks(3, 60, [](const GroupOptions& options) {
    ProcessGroup group(options);
    std::string out;
    const Tensor t = multiples(2, group.rank(), kF32);
    group.broadcast_(t, 2).wait();
    out += text_of<float>(t) + "; ";
    const Tensor all = zeros({3, 2}, {.device = test::device()});
    group.all_gather_(all, multiples(2, group.rank(), kF32)).wait();
    out += text_of<float>(all) + "; ";
    const Tensor part = zeros(
        {2},
        {.device = test::device()});  // rank r gets the sum over ranks k of row r, (k + 1) * row
    group.reduce_scatter_(part, multiples(6, group.rank(), kF32).reshape({3, 2})).wait();
    group.all_gather_(all, part).wait();
    out += text_of<float>(all) + "; ";
    const Tensor average = multiples(1, group.rank(), kF64);
    group.all_reduce_(average, Reduce::kAverage).wait();
    out += text_of<double>(average) + "; ";
    group.barrier().wait();
    for (const std::string& text :
         group.all_gather_text(std::string(static_cast<size_t>(group.rank()), 'x')))
      out += text + ",";
    return out;
  });
  check_all(ranks.results(), "3 6; 1 2 2 4 3 6; 6 12 18 24 30 36; 2; ,x,xx,");
}

TEST_CASE("tensors of any strides and of no elements, and calls that overlap") {
  Ranks ranks(2, 60, [](const GroupOptions& options) {
    ProcessGroup group(options);
    const Tensor base = zeros({2, 3}, {.device = test::device()});
    const Tensor column = base.select(1, 1);
    column.fill_(static_cast<double>(group.rank() + 1));
    const int64_t before = column.version();
    group.all_reduce_(column).wait();
    group.all_reduce_(zeros({0}, {.device = test::device()})).wait();
    std::string out = concat(text_of<float>(base), column.version() > before ? " written; " : "; ");
    std::vector<Tensor> tensors;
    std::vector<Work> calls;
    for (int i = 0; i < 20; ++i) {
      tensors.push_back(full({100'000}, static_cast<double>(i), {.device = test::device()}));
      calls.push_back(group.all_reduce_(tensors.back()));
    }
    for (Work& call : calls) call.wait();
    bool right = true;
    for (int i = 0; i < 20; ++i)
      right = right && tensors[static_cast<size_t>(i)].sum().item<double>() == 200'000.0 * i;
    CHECK_THROWS_AS(group.all_reduce_(zeros({2}, {.dtype = kBool})), DTypeError);
    CHECK_THROWS_AS(group.all_reduce_(zeros({2}).expand({3, 2})), ValueError);
    CHECK_THROWS_AS(group.broadcast_(zeros({2}), 2), IndexError);
    CHECK_THROWS_WITH_AS(group.all_gather_(zeros({3, 2}), zeros({2})),
                         doctest::Contains("expected f32[2,2] for 2 ranks"), ShapeError);
    return out + (right ? "right" : "wrong");
  });
  check_all(ranks.results(), "0 3 0 0 3 0 written; right");
}

TEST_CASE("a collective is refused where autograd would have to record it, and changes nothing") {
  ProcessGroup group({});
  const Tensor leaf = ones({2}).requires_grad_(), result = leaf * 2, plain = ones({2});
  const Tensor stacked = ones({1, 2});
  const int64_t version = leaf.version(), of_result = result.version();
  CHECK_THROWS_WITH_AS(group.all_reduce_(leaf),
                       doctest::Contains("all_reduce_: a leaf that requires grad"), StateError);
  CHECK_THROWS_WITH_AS(group.broadcast_(leaf.slice(0, 0, 1)),
                       doctest::Contains("broadcast_: a view of a leaf that requires grad"),
                       StateError);
  CHECK_THROWS_WITH_AS(group.all_reduce_(result),
                       doctest::Contains("all_reduce_: this call has no gradient"), StateError);
  CHECK_THROWS_WITH_AS(group.all_gather_(stacked, leaf),
                       doctest::Contains("all_gather_: this call has no gradient"), StateError);
  CHECK_THROWS_WITH_AS(group.reduce_scatter_(plain, leaf.reshape({1, 2})),
                       doctest::Contains("reduce_scatter_: this call has no gradient"), StateError);
  CHECK(leaf.version() == version);
  CHECK(result.version() == of_result);
  group.all_gather_(stacked, leaf.detach()).wait();
  const NoGrad off;
  group.all_reduce_(leaf).wait();
  group.broadcast_(result).wait();
  CHECK(leaf.version() > version);
}

TEST_CASE("a call that a failed group refuses leaves the tensor's version") {
  Ranks ranks(2, 60, [](const GroupOptions& options) -> std::string {
    ProcessGroup group(options);
    if (options.rank == 1) {
      group.barrier().wait();  // the other rank's first one below may hear of the end at once
      group.abort("no more");
    }
    const Tensor t = ones({2}), all = ones({2, 2});
    std::string refused;
    try {
      while (true) group.barrier().wait();
    } catch (const DistributedError&) {
      const int64_t before = t.version(), of_all = all.version();
      const auto refuses = [&](auto call) {
        try {
          call();
        } catch (const DistributedError&) {
          refused += t.version() == before && all.version() == of_all ? "refused " : "written ";
        }
      };
      refuses([&] { group.all_reduce_(t); });
      refuses([&] { group.broadcast_(t); });
      refuses([&] { group.all_gather_(all, t); });
      refuses([&] { group.reduce_scatter_(t, all); });
    }
    return refused;
  });
  check_all(ranks.results(), "refused refused refused refused ");
}

TEST_CASE("f32 sums have the same bits on all ranks and in every run") {
  const auto run = [] {
    Ranks ranks(4, 60, [](const GroupOptions& options) {
      ProcessGroup group(options);
      const Tensor t = (arange(10'000, {.dtype = kF64}) * (0.1 + static_cast<double>(group.rank())))
                           .sin()
                           .to(kF32)
                           .to(test::device());
      group.all_reduce_(t).wait();
      uint64_t hash = 1469598103934665603u;
      for (const float value : t.to_vector<float>())
        hash = (hash ^ std::bit_cast<uint32_t>(value)) * 1099511628211u;
      return std::to_string(hash);
    });
    return ranks.results();
  };
  const std::vector<std::string> first = run();
  check_all(first, first[0]);
  CHECK(run() == first);
}
