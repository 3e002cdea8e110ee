// .npy files: round trips, files written by hand from NumPy's definition, everything that must be
// refused. npz_python_test.py exchanges files with NumPy itself.
#include "lathe/core/formats/npy.h"

#include <doctest/doctest.h>

#include <span>
#include <string>
#include <vector>

#include "lathe/core/fault.h"
#include "lathe/core/files/file.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/views.h"
#include "lathe/tests/data/files.h"

namespace lathe {
namespace {

using data::testing::message_of;
using data::testing::TempDir;

/// An array file by NumPy's definition: version 1 has a length of 2 bytes, the others of 4.
std::string file_of(const std::string& literal, const std::string& values, int version = 1) {
  std::string out = std::string("\x93NUMPY") + static_cast<char>(version) + '\0';
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) {
    out += static_cast<char>(literal.size() >> (8 * i) & 0xffu);
  }
  return out + literal + values;
}

std::string header(const std::string& descr, const std::string& shape,
                   const std::string& fortran = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + fortran + ", 'shape': " + shape + ", }\n";
}

Tensor parse(const std::string& bytes) {
  return npy::parse(std::as_bytes(std::span(bytes)), "x.npy");
}

std::string error_of(const std::string& bytes) {
  return message_of<DataError>([&] { parse(bytes); });
}

std::string bytes_of(const Tensor& t) {
  const Tensor dense = t.contiguous();
  return {static_cast<const char*>(dense.raw_data()), static_cast<size_t>(dense.bytes())};
}

void check_same(const Tensor& got, const Tensor& want) {
  CAPTURE(concat(want));
  CHECK(got.dtype() == want.dtype());
  CHECK(got.shape() == want.shape());
  CHECK(bytes_of(got) == bytes_of(want));
}

TEST_CASE("npy: every dtype that NumPy has, 0-d, zero-size and eight dimensions survive") {
  const TempDir dir;
  const std::string path = dir / "x.npy";
  const Tensor samples[] = {
      tensor({{1.5f, -2.f, 0.f}, {3.f, 1e-40f, -0.f}}),
      tensor({1.0, 65504.0, -0.5}, {.dtype = kF16}),
      tensor({0.1, 1e300}, kF64),
      tensor({1, 0, 1}, {.dtype = kBool}),
      tensor({0, 255}, {.dtype = kU8}),
      tensor({-128, 127}, {.dtype = kI8}),
      tensor({-32768}, {.dtype = kI16}),
      tensor({1 << 30, -1}),
      tensor(int64_t{1} << 60),
      zeros({3, 0, 2}),
      arange(256, {.dtype = kF32}).reshape({2, 2, 2, 2, 2, 2, 2, 2}),
  };
  for (const Tensor& t : samples) {
    npy::write(path, t);
    check_same(npy::read(path), t);
  }
  CHECK(message_of<DTypeError>([&] {
          npy::write(path, zeros({2}, {.dtype = kBF16}));
        }).find("NumPy has no bf16") != std::string::npos);
  check_same(npy::read(path), samples[10]);  // a refused write leaves the file
}

TEST_CASE("npy: the bytes are those of NumPy's definition") {
  const TempDir dir;
  const std::string path = dir / "x.npy";
  npy::write(path, tensor({{1, 2, 3}, {4, 5, 6}}, {.dtype = kI16}));
  std::string literal = "{'descr': '<i2', 'fortran_order': False, 'shape': (2, 3), }";
  literal += std::string(128 - 10 - 1 - literal.size(), ' ') + '\n';  // the values begin at 128
  CHECK(data::testing::read_file(path) ==
        file_of(literal, std::string("\1\0\2\0\3\0\4\0\5\0\6\0", 12)));
}

TEST_CASE("npy: layouts: views are written by value, Fortran order is kept without a copy") {
  const TempDir dir;
  const std::string path = dir / "x.npy";
  const Tensor t = arange(24, {.dtype = kF32}).reshape({2, 3, 4});
  const Tensor fortran = permute(t, {2, 1, 0});
  npy::write(path, fortran);
  CHECK(data::testing::read_file(path).find("'fortran_order': True, 'shape': (4, 3, 2)") !=
        std::string::npos);
  const Tensor back = npy::read(path);
  check_same(back, fortran);
  CHECK(back.strides() == fortran.strides());
  for (const Tensor& view :
       {transpose(t, 0, 1), slice(t, 2, 0, 4, 2), select(t, 1, 1), expand(tensor({7.f}), {3, 2})}) {
    npy::write(path, view);
    CHECK(data::testing::read_file(path).find("'fortran_order': False") != std::string::npos);
    check_same(npy::read(path), view);
  }
}

TEST_CASE("npy: reads what others write: versions, byte orders, quotes, any order of keys") {
  const std::string two = std::string("\0\1\0\2", 4);
  CHECK(parse(file_of(header(">i2", "(2,)"), two)).to_vector<int>() == std::vector{1, 2});
  CHECK(parse(file_of(header("<i2", "(2,)"), two)).to_vector<int>() == std::vector{256, 512});
  CHECK(parse(file_of(header("=i2", "(2L,)"), two)).to_vector<int>() == std::vector{256, 512});
  CHECK(parse(file_of(header(">f4", "()"), std::string("\x3f\x80\0\0", 4))).item<float>() == 1.f);
  CHECK(parse(file_of(header(">f8", "(1,)"), std::string("\xc0\0\0\0\0\0\0\0", 8)))
            .to_vector<double>() == std::vector{-2.0});
  for (const int version : {2, 3}) {
    CHECK(parse(file_of(header("|u1", "(1,)"), "a", version)).item<int>() == 'a');
  }
  CHECK(parse(file_of(R"(  {"shape":( 1 ,2),"fortran_order":True,"descr":"|b1"}   )",
                      std::string("\1\0", 2)))
            .to_vector<int>() == std::vector{1, 0});
  // Fortran order: the first dimension is dense.
  CHECK(parse(file_of(header("|u1", "(2, 3)", "True"), "adbecf")).to_vector<int>() ==
        std::vector<int>{'a', 'b', 'c', 'd', 'e', 'f'});
  CHECK(parse(file_of(header("<f4", "(0, 3)", "True"), "")).shape() == Shape{0, 3});
}

struct Refused {
  std::string bytes, because;
};

TEST_CASE("npy: every fault is refused with the file and the value") {
  const std::vector<Refused> cases = {
      {"", "0 bytes are too few for a .npy file"},
      {"\x93NUMPY\1", "7 bytes are too few"},
      {std::string("\x93NUMPX\1\0\0\0", 10), "does not begin with the mark"},
      {std::string("\x93NUMPY\4\0\0\0", 10), "version 4.0 of the .npy format"},
      {std::string("\x93NUMPY\1\1\0\0", 10), "version 1.1"},
      {std::string("\x93NUMPY\2\0\0\0", 10), "10 bytes are too few"},
      {std::string("\x93NUMPY\1\0\5\0{}", 12), "the header length 5 does not fit a file of 12"},
      {std::string("\x93NUMPY\2\0\xff\xff\xff\xff{}", 14), "the header length 4294967295"},
      {file_of("{}", ""), "there is no key \"descr\""},
      {file_of("[]", ""), "does not begin with '{'"},
      {file_of("{'descr': '<f4', 'descr': '<f4'}", ""), "key \"descr\" appears twice"},
      {file_of("{'descr': '<f4', 'extra': 1}", ""), "unknown key \"extra\""},
      {file_of("{'descr' '<f4'}", ""), "no ':' behind a key"},
      {file_of("{'descr': '<f4' 'shape': ()}", ""), "neither ',' nor '}'"},
      {file_of("{'descr': '<f4", ""), "a text has no end"},
      {file_of("{descr: '<f4'}", ""), "expected a key in quotes"},
      {file_of(header("<f4", "()") + "x", "abcd"), "text follows the dictionary"},
      {file_of(header("|O", "(1,)"), "abcdefgh"), "Python objects, which are never loaded"},
      {file_of("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", "abcd"),
       "structured dtype"},
      {file_of(header("<c8", "(1,)"), "abcdefgh"), "dtype \"<c8\" is not one that lathe has"},
      {file_of(header("<u2", "(1,)"), "ab"), "dtype \"<u2\" is not one"},
      {file_of(header("<U1", "(1,)"), "abcd"), "dtype \"<U1\" is not one"},
      {file_of(header("|f4", "(1,)"), "abcd"), "dtype \"|f4\" is not one"},
      {file_of(header("", "(1,)"), "abcd"), "dtype \"\" is not one"},
      {file_of(header("<f4", "()", "1"), "abcd"), "neither True nor False"},
      {file_of(header("<f4", "1"), "abcd"), "\"shape\" is not a tuple"},
      {file_of(header("<f4", "(1)"), "abcd"), "\"shape\" is not a tuple"},
      {file_of(header("<f4", "(1 1)"), "abcd"), "neither ',' nor ')'"},
      {file_of(header("<f4", "(-1,)"), "abcd"), "not a number of 0 or more"},
      {file_of(header("<f4", "(,)"), "abcd"), "not a number of 0 or more"},
      {file_of(header("<f4", "(9223372036854775808,)"), "abcd"), "a size is too large"},
      {file_of(header("<f4", "(1,1,1,1,1,1,1,1,1)"), "abcd"), "more than 8 dimensions"},
      {file_of(header("<f8", "(4611686018427387904, 4)"), "abcd"), "overflows"},
      {file_of(header("<f8", "(0, 4611686018427387904, 4)"), ""), "overflows"},
      {file_of(header("<f4", "(2,)"), "abcd"), "f32[2] takes 8 bytes but 4 follow the header"},
      {file_of(header("<f4", "(1,)"), "abcde"), "f32[1] takes 4 bytes but 5 follow the header"},
      {file_of(header("<f4", "(1000000000000,)"), "abcd"), "takes 4000000000000 bytes but 4"},
      {file_of(header("|b1", "(1,)"), "\2"), "holds the byte 2 as a bool"},
  };
  for (const Refused& c : cases) {
    const std::string text = error_of(c.bytes);
    CAPTURE(c.because);
    CHECK_MESSAGE(text.find(c.because) != std::string::npos, text);
    CHECK(text.starts_with("x.npy: "));
  }
}

TEST_CASE("npy: every truncation and every flipped bit gives a DataError or an array") {
  const std::string good = file_of(header("<i2", "(2, 2)"), "abcdefgh");
  for (size_t n = 0; n < good.size(); ++n) {
    CAPTURE(n);
    CHECK(error_of(good.substr(0, n)) != "");
  }
  for (size_t at = 0; at < good.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ (1 << bit));
      try {
        const Tensor t = parse(bad);
        CHECK(t.bytes() == 8);
      } catch (const DataError&) {
      }
    }
  }
}

TEST_CASE("npy: a file that is cut while it is read is an error, not a crash") {
  const TempDir dir;
  const std::string path = dir / "x.npy";
  npy::write(path, zeros({1000}));
  const ArmedFault cut(file_faults().read, 3);  // the values; a cut file ends in the same place
  CHECK_THROWS_AS(npy::read(path), FileError);
}

}  // namespace
}  // namespace lathe
