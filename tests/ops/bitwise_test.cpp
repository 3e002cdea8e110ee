// Operations on bits against arithmetic: bit by bit, and products and quotients of powers of two.
#include "lathe/ops/bitwise.h"

#include <cmath>
#include <limits>
#include <sstream>

#include "compare.h"

using namespace lathe;
using namespace lathe::test;
using doctest::Contains;

namespace {

using Numbers = std::vector<int64_t>;
__extension__ using Wide = __int128;  // holds every product below
constexpr DType kIntegers[] = {kU8, kI8, kI16, kI32, kI64};

int64_t bits_of(DType dtype) { return 8 * static_cast<int64_t>(size_of(dtype)); }
bool is_signed(DType dtype) { return dtype != kU8; }

/// `value` modulo 2^bits, as the dtype counts.
int64_t wrapped(DType dtype, Wide value) {
  const Wide size = static_cast<Wide>(1) << bits_of(dtype);
  Wide rest = value % size;
  if (rest < 0) rest += size;
  if (is_signed(dtype) && rest >= size / 2) rest -= size;
  return static_cast<int64_t>(rest);
}

/// The number whose bit k is f(bit k of a, bit k of b).
int64_t by_bits(DType dtype, int64_t a, int64_t b, bool (*f)(bool a, bool b)) {
  Wide y = 0;
  for (int64_t k = 0; k < bits_of(dtype); ++k) {
    const auto bit = [k](Wide t) {  // floor(t / 2^k) is odd
      const Wide power = static_cast<Wide>(1) << k;
      return ((t - (((t % power) + power) % power)) / power) % 2 != 0;
    };
    if (f(bit(a), bit(b))) y += static_cast<Wide>(1) << k;
  }
  return wrapped(dtype, y);
}

int64_t to_the_left(DType dtype, int64_t a, int64_t b) {
  if (b < 0 || b >= bits_of(dtype)) return 0;
  return wrapped(dtype, a * (static_cast<Wide>(1) << b));
}
int64_t to_the_right(DType dtype, int64_t a, int64_t b) {
  if (b < 0 || b >= bits_of(dtype)) return a < 0 ? -1 : 0;
  const Wide power = static_cast<Wide>(1) << b;
  const Wide rest = ((a % power) + power) % power;
  return static_cast<int64_t>((a - rest) / power);
}

/// Some numbers of each dtype, its ends among them.
Numbers numbers_of(DType dtype) {
  const int64_t half = int64_t{1} << (bits_of(dtype) - 2);
  if (!is_signed(dtype)) return {0, 1, 2, 100, 127, 128, 170, 255};
  return {0, 1, -1, 2, 85, -86, half + (half - 1), -half - half, half + 1};
}

struct Case {
  const char* op;
  Tensor (*f)(const Tensor& a, const Tensor& b);
  int64_t (*reference)(DType dtype, int64_t a, int64_t b);
};
// clang-format off
const Case kCases[] = {
    {"bitwise_and", bitwise_and, [](DType t, int64_t a, int64_t b) { return by_bits(t, a, b, [](bool p, bool q) { return p && q; }); }},
    {"bitwise_or", bitwise_or, [](DType t, int64_t a, int64_t b) { return by_bits(t, a, b, [](bool p, bool q) { return p || q; }); }},
    {"bitwise_xor", bitwise_xor, [](DType t, int64_t a, int64_t b) { return by_bits(t, a, b, [](bool p, bool q) { return p != q; }); }},
    {"bitwise_not", [](const Tensor& a, const Tensor&) { return bitwise_not(a); }, [](DType t, int64_t a, int64_t) { return by_bits(t, a, 0, [](bool p, bool) { return !p; }); }},
    {"bitwise_left_shift", bitwise_left_shift, to_the_left},
    {"bitwise_right_shift", bitwise_right_shift, to_the_right},
};
// clang-format on

}  // namespace

TEST_CASE("bitwise ops: the bits of the definition, for every dtype and layout, on every device") {
  for (const DType dtype : kIntegers) {
    const Numbers left = numbers_of(dtype);
    Numbers right = left;
    for (int64_t b = 0; b <= bits_of(dtype); ++b) right.push_back(b);
    const auto n = static_cast<int64_t>(left.size()), m = static_cast<int64_t>(right.size());
    const Tensor a = expand(tensor(left).to(dtype).unsqueeze(1), {n, m}).clone();
    const Tensor b = expand(tensor(right).to(dtype), {n, m}).clone();
    for (const Case& c : kCases) {
      Numbers want;
      for (const int64_t p : left) {
        for (const int64_t q : right) want.push_back(c.reference(dtype, p, q));
      }
      for (const Device device : devices()) {
        for (const Layout& layout : layouts()) {
          CAPTURE(concat(c.op, " ", dtype, " ", layout.name, " on ", device));
          const Tensor y = c.f(layout.apply(a).to(device), layout.apply(b).to(device));
          CHECK(y.dtype() == dtype);
          CHECK(y.cpu().to_vector<int64_t>() == want);
        }
      }
    }
  }
}

TEST_CASE("bitwise ops: broadcasting, promotion and numbers are those of arithmetic") {
  const Tensor bytes = tensor({1, 2, 255}).to(kU8), column = tensor({{1}, {-2}}).to(kI8);
  const Tensor y = bytes & column;
  CHECK(y.dtype() == kI16);
  CHECK(y.to_vector<int64_t>() == Numbers{1, 0, 1, 0, 2, 254});
  CHECK((bytes | 256).to_vector<int64_t>() == Numbers{1, 2, 255});  // 256 wraps to 0
  CHECK((bytes ^ -1).to_vector<int64_t>() == Numbers{254, 253, 0});
  CHECK((bytes & 3).dtype() == kU8);
  CHECK((3 & bytes).to_vector<int64_t>() == Numbers{1, 2, 3});
  CHECK((4 | column).to_vector<int64_t>() == Numbers{5, -2});
  CHECK((1 ^ column).to_vector<int64_t>() == Numbers{0, -1});
  CHECK((bytes << 1).to_vector<int64_t>() == Numbers{2, 4, 254});
  CHECK((1 << bytes.to(kI32)).to_vector<int64_t>() == Numbers{2, 4, 0});
  CHECK((column >> 1).to_vector<int64_t>() == Numbers{0, -1});
  CHECK((-128 >> bytes.to(kI64)).to_vector<int64_t>() == Numbers{-64, -32, -1});
  CHECK((bytes << tensor({1, 0, 4}).to(kU8)).to_vector<int64_t>() == Numbers{2, 2, 240});
  CHECK((bytes.to(kI32) >> tensor(1)).dtype() == kI32);
  CHECK((~column).to_vector<int64_t>() == Numbers{-2, 1});
  CHECK(bitwise_and(zeros({0, 3}, kI64), tensor(1)).shape() == Shape{0, 3});
  CHECK(bitwise_not(tensor(5)).item<int64_t>() == -6);
  std::ostringstream out;
  out << bytes;  // not a shift
  CHECK(out.str().find("u8[3]") != std::string::npos);
  const Tensor nhwc = zeros({1, 2, 3, 3}, kI32).contiguous(kChannelsLast);
  CHECK((nhwc | 1).strides() == nhwc.strides());
}

TEST_CASE("bitwise ops: of bool they are the logical ones") {
  const Tensor a = tensor({false, false, true, true}), b = tensor({false, true, false, true});
  CHECK((a & b).dtype() == kBool);
  CHECK((a & b).to_vector<int64_t>() == Numbers{0, 0, 0, 1});
  CHECK((a | b).to_vector<int64_t>() == Numbers{0, 1, 1, 1});
  CHECK((a ^ b).to_vector<int64_t>() == Numbers{0, 1, 1, 0});
  CHECK((~a).dtype() == kBool);
  CHECK((~a).to_vector<int64_t>() == Numbers{1, 1, 0, 0});
  CHECK((a & true).to_vector<int64_t>() == Numbers{0, 0, 1, 1});
  CHECK((a | 2).dtype() == kI64);  // a number of a higher category
  CHECK((a | 2).to_vector<int64_t>() == Numbers{2, 2, 3, 3});
  CHECK((a ^ tensor({1, 2, 3, 4})).to_vector<int64_t>() == Numbers{1, 2, 2, 5});
  CHECK((a << tensor({1, 2, 3, 4})).to_vector<int64_t>() == Numbers{0, 0, 8, 16});
}

TEST_CASE("bitwise ops: errors name the op and the tensors") {
  const Tensor x = ones({2}), i = ones({2}, kI32), flag = ones({2}, kBool);
  CHECK_THROWS_WITH_AS(
      x & i, Contains("bitwise_and: expected integers or bool (a: f32[2]@cpu, b: i32"), DTypeError);
  CHECK_THROWS_AS(i | 0.5, DTypeError);
  CHECK_THROWS_AS(i ^ x, DTypeError);
  CHECK_THROWS_WITH_AS(~x, Contains("bitwise_not: expected integers or bool"), DTypeError);
  CHECK_THROWS_WITH_AS(flag << flag, Contains("bitwise_left_shift: expected integers (a: bool"),
                       DTypeError);
  CHECK_THROWS_AS(flag >> true, DTypeError);
  CHECK_THROWS_WITH_AS(i & ones({3}, kI32), Contains("bitwise_and"), ShapeError);
}
