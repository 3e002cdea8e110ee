// Operands of two dtypes, and a tensor with a number, against PyTorch's dtypes and values: each line
// of promotion.txt, which promotion.py made and which says how to read it. Numbers that no integer
// dtype holds.
#include <fstream>
#include <map>
#include <sstream>

#include "compare.h"
#include "lathe/lathe.h"

using namespace lathe;
using namespace lathe::test;
using doctest::Contains;

namespace {

using Numbers = std::vector<double>;
using Operands = std::map<std::string, Tensor>;
constexpr DivOptions kFloor{RoundingMode::kFloor};

Tensor mask_of(const Tensor& t) { return tensor({true, false}).to(t.device()); }

// clang-format off
/// Ops of two tensors, of a tensor and a number, and of a number and a tensor.
const std::map<std::string, Tensor (*)(const Tensor&, const Tensor&)> kOfTensors = {
    {"add", add}, {"sub", sub}, {"mul", mul}, {"div", div}, {"remainder", remainder}, {"pow", pow},
    {"div_floor", [](const Tensor& a, const Tensor& b) { return div(a, b, kFloor); }},
    {"lt", lt}, {"eq", eq}, {"maximum", maximum},
    {"where", [](const Tensor& a, const Tensor& b) { return where(mask_of(a), a, b); }},
    {"clamp_low", [](const Tensor& a, const Tensor& b) { return clamp(a, b, {}); }},
    {"add_", [](const Tensor& a, const Tensor& b) { return add_(a.clone(), b); }},
    {"mul_", [](const Tensor& a, const Tensor& b) { return mul_(a.clone(), b); }},
    {"sub_3_", [](const Tensor& a, const Tensor& b) { return sub_(a.clone(), b, 3); }},
    {"div_", [](const Tensor& a, const Tensor& b) { return div_(a.clone(), b); }},
    {"div_floor_", [](const Tensor& a, const Tensor& b) { return div_(a.clone(), b, kFloor); }},
    {"clamp_low_", [](const Tensor& a, const Tensor& b) { return clamp_(a.clone(), b, {}); }},
};
const std::map<std::string, Tensor (*)(const Tensor&, Scalar)> kWithNumber = {
    {"add", add}, {"sub", sub}, {"mul", mul}, {"div", div}, {"remainder", remainder}, {"pow", pow},
    {"div_floor", [](const Tensor& a, Scalar b) { return div(a, b, kFloor); }},
    {"lt", lt}, {"eq", eq},
    {"where", [](const Tensor& a, Scalar b) { return where(mask_of(a), a, b); }},
    {"clamp_low", [](const Tensor& a, Scalar b) { return clamp(a, {.low = b}); }},
    {"add_", [](const Tensor& a, Scalar b) { return add_(a.clone(), b); }},
    {"mul_", [](const Tensor& a, Scalar b) { return mul_(a.clone(), b); }},
    {"div_", [](const Tensor& a, Scalar b) { return div_(a.clone(), b); }},
    {"fill_", [](const Tensor& a, Scalar b) { return fill_(a.clone(), b); }},
    {"masked_fill", [](const Tensor& a, Scalar b) { return masked_fill(a, mask_of(a), b); }},
    {"full_like", full_like},
};
const std::map<std::string, Tensor (*)(Scalar, const Tensor&)> kOfNumber = {
    {"sub", sub}, {"div", div}, {"remainder", remainder}, {"pow", pow},
    {"div_floor", [](Scalar a, const Tensor& b) { return div(a, b, kFloor); }},
    {"where", [](Scalar a, const Tensor& b) { return where(mask_of(b), a, b); }},
};
// clang-format on

Scalar number_of(const std::string& word) {
  if (word == "TRUE") return true;
  return word.find('.') == std::string::npos ? Scalar(std::stoll(word)) : Scalar(std::stod(word));
}

/// "u8:249,2" as dtype and numbers. All integers in the file are exact as doubles.
std::pair<DType, Numbers> result_of(const std::string& text) {
  Numbers values;
  std::istringstream in(text.substr(text.find(':') + 1));
  for (std::string one; std::getline(in, one, ',');) values.push_back(std::stod(one));
  return {dtype_from_name(text.substr(0, text.find(':'))), values};
}

/// One case: "i8=i16:247,10", where `form` is tt, tz, tn or nt.
void check_case(const std::string& op, const std::string& form, const std::string& dtype,
                const std::string& text, const Operands& first, const Operands& second) {
  const size_t equals = text.find('=');
  const std::string with = text.substr(0, equals), want = text.substr(equals + 1);
  CAPTURE(op + " " + form + " " + dtype + " " + text);
  const auto run = [&] {
    if (form == "tn") return kWithNumber.at(op)(first.at(dtype), number_of(with.substr(2)));
    if (form == "nt") return kOfNumber.at(op)(number_of(with.substr(2)), second.at(dtype));
    const Tensor& b = second.at(with);
    return kOfTensors.at(op)(first.at(dtype), form == "tz" ? b[0] : b);
  };
  if (want == "E") {
    CHECK_THROWS_AS(run(), Error);
    return;
  }
  const auto [result_dtype, values] = result_of(want);
  const Tensor y = run();
  CHECK(y.dtype() == result_dtype);
  // The file has 9 digits; pow in a half type may differ by one step.
  const double tol = is_floating(result_dtype) ? std::max(1e-8, tolerance_of(result_dtype)) : 0;
  CHECK(difference(y.cpu(), values, tol) == "");
}

}  // namespace

TEST_CASE("promotion: every pair of dtypes, and every dtype with numbers, as PyTorch") {
  for (const Device device : {kCPU, Device(DeviceType::kCUDA)}) {
    if (device.is_cuda() && !cuda_is_available()) continue;
    std::ifstream file(LATHE_PROMOTION);
    REQUIRE_MESSAGE(file.good(), LATHE_PROMOTION);
    Operands first, second;
    int cases = 0;
    for (std::string line; std::getline(file, line);) {
      std::istringstream in(line);
      std::string op, form, dtype;
      in >> op;
      if (op == "#") continue;
      if (op == "a" || op == "b") {
        Numbers values(2);
        in >> dtype >> values[0] >> values[1];
        (op == "a" ? first : second)[dtype] = tensor(values).to(dtype_from_name(dtype)).to(device);
        continue;
      }
      in >> form >> dtype;
      for (std::string text; in >> text; ++cases) {
        // A GPU gives 0 for an integer divided by 0, and the error at the next wait.
        if (device.is_cuda() && text.ends_with("=E") && op.starts_with("div_floor")) continue;
        check_case(op, form, dtype, text, first, second);
      }
    }
    CHECK(cases > 2500);
  }
}

TEST_CASE("promotion: a number that the integers of a dtype do not hold is an error") {
  const Tensor x = tensor<uint8_t>({1, 2}), mask = tensor({true, false}), at = tensor({0});
  const auto is_refused = [](const char* op, auto f) {
    CAPTURE(op);
    CHECK_THROWS_WITH_AS(f(), Contains(concat(op, ": 300 is outside the range of u8").c_str()),
                         ValueError);
  };
  is_refused("full", [] { full({2}, 300, kU8); });
  is_refused("full", [&] { x.new_full({2}, 300); });
  is_refused("full_like", [&] { full_like(x, 300); });
  is_refused("linspace", [] { linspace(0, 300, 2, {.dtype = kU8}); });
  is_refused("tensor", [] { tensor({1, 300}, kU8); });
  is_refused("tensor", [] { tensor(300.0, kU8); });
  is_refused("fill_", [&] { x.clone().fill_(300); });
  is_refused("fill_", [&] { x.clone()[0] = 300; });
  is_refused("where", [&] { where(mask, x, 300); });
  is_refused("where", [&] { where(mask, 300, x); });
  is_refused("masked_fill", [&] { masked_fill(x, mask, 300); });
  is_refused("masked_fill", [&] { masked_fill(x, mask, tensor(300)); });
  is_refused("masked_fill_", [&] { masked_fill_(x.clone(), mask, 300); });
  is_refused("index_put_", [&] { x.clone().index_put_({mask}, 300); });
  is_refused("scatter", [&] { scatter(x, 0, at, 300); });
  is_refused("pad", [&] { pad(x, {1, 1}, 300); });
  is_refused("pow", [&] { pow(x, 300); });
  is_refused("add", [&] { add(x, x, 300); });
  is_refused("sub_", [&] { sub_(x.clone(), x, 300); });
  is_refused("index_add", [&] { index_add(x, 0, at, x.narrow(0, 0, 1), 300); });
  CHECK_THROWS_AS(randint(0, 257, {2}, {.dtype = kU8}), ValueError);
  CHECK(randint(0, 256, {2}, {.dtype = kU8}).dtype() == kU8);
  // What is refused, and what is just not: torch.full((1,), value, dtype=…).
  for (const auto& [dtype, number] : std::vector<std::pair<DType, Scalar>>{
           {kU8, -256}, {kI8, 128}, {kI8, -129}, {kI16, 1e5}, {kI64, 0x1p63}, {kI32, NAN}}) {
    CHECK_THROWS_AS(full({1}, number, dtype), ValueError);
  }
  for (const auto& [dtype, number, want] :
       std::vector<std::tuple<DType, Scalar, double>>{{kU8, -1, 255},
                                                      {kU8, 2.75, 2},
                                                      {kI8, -128, -128},
                                                      {kI64, -0x1p63, -0x1p63},
                                                      {kBool, 300, 1},
                                                      {kF16, 1e5, INFINITY}}) {
    CHECK(full({1}, number, dtype).item<double>() == want);
  }
}

TEST_CASE("promotion: an integer power of integers, and ends of clamp that nothing reaches") {
  CHECK_THROWS_WITH_AS(pow(tensor({2, 4}, kI32), -1),
                       Contains("pow: the power -1 of integers is no integer"), ValueError);
  CHECK(pow(tensor({2, 4}, kI32), -1.0).to_vector<float>() == std::vector<float>{0.5f, 0.25f});
  CHECK_THROWS_WITH_AS(clamp(tensor<uint8_t>({1}), {.low = 300}), Contains("clamp: the ends 300"),
                       ValueError);
  CHECK_THROWS_AS(clamp(tensor<uint8_t>({1}), {.high = -1}), ValueError);
  // An alpha in the dtype of the sum: 3 * 200 is no u8.
  CHECK(sub_(tensor({1000}, kI32), tensor<uint8_t>({200}), 3).item<int>() == 400);
}
