// ValueRanges: numbers that were counted by hand, and the layers that they are named by.
#include "lathe/core/debug/value_ranges.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "lathe/lathe.h"

namespace lathe::debug {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

const LayerRange& row_of(const std::vector<LayerRange>& rows, std::string_view layer,
                         std::string_view op) {
  for (const LayerRange& row : rows)
    if (row.layer == layer && row.op == op) return row;
  FAIL(concat("no row ", layer, " ", op));
  return rows.front();
}

TEST_CASE("value ranges: what f16 makes 0 or infinite is what a cast to it makes so") {
  // Around both borders: 2^-25 is half of the least value of f16, 65520 lies between its largest
  // value and 2^16.
  const std::vector<double> values = {0,      0x1p-25, 0x1.001p-25, 0x1p-24,      -0x1p-26,
                                      1e-30,  -1,      65504,       65519.9,      65520,
                                      -65520, 1e9,     kInfinity,   std::nan(""), -kInfinity};
  const Tensor x = tensor(values, {.dtype = kF64});
  ValueRange range;
  range.add(x);
  int64_t zeros = 0, infinite = 0;
  const std::vector<float> half = x.to(kF16).to(kF32).to_vector<float>();
  for (size_t i = 0; i < values.size(); ++i) {
    zeros += half[i] == 0 && values[i] != 0 ? 1 : 0;
    infinite += std::isinf(half[i]) && std::isfinite(values[i]) ? 1 : 0;
  }
  CHECK(range.underflows == zeros);
  CHECK(range.overflows == infinite);
  CHECK(zeros == 3);
  CHECK(infinite == 3);
  CHECK(range.zeros == 1);
  CHECK(range.not_finite == 3);
  CHECK(range.finite == 12);
  CHECK(range.min == -65520);
  CHECK(range.max == 1e9);
  CHECK(range.max_abs() == 1e9);
}

TEST_CASE("value ranges: tensors add up, views and half types too, integers count nothing") {
  ValueRange range;
  range.add(tensor({1., -3.}, {.dtype = kF16}));
  range.add(tensor({2., 9., 0., 9.}).reshape({2, 2}).t()[0]);  // 2 and 0
  range.add(tensor({5}, {.dtype = kI64}));
  range.add(Tensor());
  range.add(empty({0}));
  CHECK(range.finite == 4);
  CHECK(range.min == -3);
  CHECK(range.max == 2);
  CHECK(range.mean_abs() == 1.5);
  CHECK(range.zeros == 1);
  CHECK(ValueRange().mean_abs() == 0);
}

TEST_CASE("value ranges: by how much gradients may grow, at the ends of what there is") {
  const auto of = [](double largest, int64_t not_finite = 0) {
    ValueRange gradient;
    gradient.max = largest;
    gradient.not_finite = not_finite;
    return largest_loss_scale({{{}, {}, {}, gradient}});
  };
  CHECK(of(1) == 0x1p15);
  CHECK(of(0x1p-1074) == 0x1p1023);  // no power of two is larger
  CHECK(of(0x1p-1000) == 0x1p1015);
  CHECK(of(0x1p1000) == 0x1p-985);
  CHECK(of(0) == 0);
  CHECK(of(1, 1) == 0);
}

struct Net : nn::Module {
  nn::Linear fc{*this, "fc", 2, 2};
  Tensor forward(const Tensor& x) override { return relu(fc(x)); }
};

TEST_CASE("value ranges: an op of each layer, with its result and the gradient of that") {
  Net net;
  {
    const NoGrad no_grad;
    net.fc.weight.copy_(tensor({1., 0., 0., -1.}).reshape({2, 2}));
    net.fc.bias.copy_(tensor({0., 0.}));
  }
  const ValueRanges ranges;
  for (int step = 0; step < 2; ++step) {
    const Tensor y = net(tensor({3., 4.}).reshape({1, 2}));  // fc: 3, -4; relu: 3, 0
    mul(sum(y), 1e-9).backward();
  }
  const std::vector<LayerRange> rows = ranges.rows();
  const LayerRange &fc = row_of(rows, "Net.fc", "linear"), &relu = row_of(rows, "Net", "relu"),
                   &scaled = row_of(rows, "", "mul");
  CHECK(fc.output.finite == 4);  // two steps
  CHECK(fc.output.min == -4);
  CHECK(fc.output.max == 3);
  CHECK(fc.output.mean_abs() == 3.5);
  CHECK(relu.output.zeros == 2);
  CHECK(relu.gradient.max == doctest::Approx(1e-9));
  CHECK(relu.gradient.underflows == 4);
  CHECK(fc.gradient.zeros == 2);  // behind relu's zero
  CHECK(fc.gradient.underflows == 2);
  CHECK(scaled.gradient.min == 1);
  CHECK(scaled.gradient.finite == 2);
  CHECK(largest_loss_scale(rows) == 0x1p15);  // 2^16 is infinite in f16
}

TEST_CASE("value ranges: the table") {
  ValueRanges ranges;
  Net net;
  const Tensor x = full({1, 2}, 1e6).requires_grad_();
  mul(sum(net(x)), 1e-3).backward();
  const std::string table = ranges.table();
  INFO(table);
  CHECK(table.starts_with("Layer   Op      "));
  CHECK(table.find("\nNet.fc  linear  y ") != std::string::npos);
  CHECK(table.find("                dy ") != std::string::npos);
  CHECK(table.find("Gradients 2^15 times as large would be finite in f16.\n") != std::string::npos);
  CHECK(table.find(" \n") == std::string::npos);
}

TEST_CASE("value ranges: an op that no backward pass reaches is forgotten with its result") {
  Net net;
  const ValueRanges ranges;
  for (int step = 0; step < 3; ++step) {
    const Tensor y = net(ones({1, 2}));
    CHECK(ranges.waiting() == 2);  // linear and relu
    if (step == 1) sum(y).backward();
  }
  CHECK(ranges.waiting() == 0);
  CHECK(row_of(ranges.rows(), "Net", "relu").output.finite == 6);
  CHECK(row_of(ranges.rows(), "Net", "relu").gradient.finite == 2);
}

TEST_CASE("value ranges: without gradients, after the scope, and without an op") {
  Net net;
  const Tensor x = ones({1, 2});
  {
    const ValueRanges ranges;
    net(x);  // no backward()
    const std::vector<LayerRange> rows = ranges.rows();
    CHECK(row_of(rows, "Net", "relu").gradient.finite == 0);
    CHECK(largest_loss_scale(rows) == 0);
    CHECK(ranges.table().find("times as large") == std::string::npos);
  }
  CHECK_FALSE(profile::watched());
  const ValueRanges none;
  CHECK(none.rows().empty());
}

}  // namespace
}  // namespace lathe::debug
