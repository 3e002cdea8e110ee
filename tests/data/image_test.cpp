// image::read, image::write and make_grid.
#include "lathe/data/images/image.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "files.h"
#include "lathe/core/files/file.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/join.h"
#include "lathe/ops/random.h"
#include "lathe/ops/rearrange.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"

using namespace lathe;
using doctest::Contains;
using lathe::data::testing::message_of;
using lathe::data::testing::TempDir;

namespace {

std::vector<double> values(const Tensor& x) { return x.to_vector<double>(); }

/// Builds may lack a library; then writing says so and there is nothing else to test.
bool can_write(const char* name) {
  const TempDir dir;
  const std::string why = message_of<DataError>([&] {
    image::write(dir / name, zeros({1, 2, 2}));
  });
  if (!why.empty()) {
    CHECK(why.find("build again") != std::string::npos);
    CHECK(!std::filesystem::exists(dir / name));
  }
  return why.empty();
}

}  // namespace

TEST_CASE("image: what is written as PNG is read back, every byte") {
  if (!can_write("x.png")) return;
  const TempDir dir;
  manual_seed(1);
  const Tensor x = randint(0, 256, {3, 7, 5}).to(kU8);
  image::write(dir / "x.png", x);
  const Tensor y = image::read(dir / "x.png");
  CHECK(y.dtype() == kU8);
  CHECK(y.shape() == Shape{3, 7, 5});
  CHECK(values(y) == values(x));

  image::write(dir / "X.PNG", x.transpose(1, 2));  // any strides, any case
  CHECK(values(image::read(dir / "X.PNG")) == values(x.transpose(1, 2)));

  image::write(dir / "grey.png", x[0]);
  CHECK(values(image::read(dir / "grey.png")) == values(expand(unsqueeze(x[0], 0), {3, 7, 5})));

  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double inf = std::numeric_limits<double>::infinity();
  for (const DType dtype : {kF64, kF32, kF16, kBF16}) {
    const Tensor wide =
        tensor({{{0.0, 1.0, 0.5, -3.0, 7.0, nan, inf, -inf}}}, kF64).to(dtype).requires_grad_();
    image::write(dir / "wide.png", wide);
    CHECK(values(image::read(dir / "wide.png")[1]) ==
          std::vector<double>{0, 255, 128, 0, 255, 0, 255, 0});
  }
}

TEST_CASE("image: JPEG keeps colours within its error, and more of them at higher quality") {
  if (!can_write("x.jpg")) return;
  const TempDir dir;
  const Tensor level = linspace(0, 1, 64);
  const Tensor x =
      stack({expand(level, {48, 64}), expand(flip(level, {0}), {48, 64}), full({48, 64}, 0.25)});
  const auto error = [&](const char* name, int quality) {
    image::write(dir / name, x, {.quality = quality});
    const Tensor y = image::read(dir / name);
    REQUIRE(y.shape() == x.shape());
    return abs(y.to(kF32) - x * 255).mean().item<double>();
  };
  const double fine = error("x.jpg", 95), coarse = error("x.JPEG", 10);
  CHECK(fine < 1.5);
  CHECK(coarse > 2 * fine);
  image::write(dir / "grey.jpg", x[0]);
  CHECK(image::read(dir / "grey.jpg").shape() == Shape{3, 48, 64});
}

TEST_CASE("image: bad calls are refused, and leave the old file") {
  const TempDir dir;
  const std::filesystem::path path = dir / "x.png";
  data::testing::write_file(path, "old");
  CHECK_THROWS_AS(image::write(path, zeros({2, 3, 3})), ShapeError);
  CHECK_THROWS_AS(image::write(path, zeros({3})), ShapeError);
  CHECK_THROWS_AS(image::write(path, zeros({3, 0, 4})), ShapeError);
  CHECK_THROWS_AS(image::write(path, zeros({1, 70'000, 1})), ShapeError);
  CHECK_THROWS_AS(image::write(path, zeros({3, 2, 2}, kI64)), DTypeError);
  CHECK_THROWS_WITH_AS(image::write(dir / "x.gif", zeros({3, 2, 2})), Contains(".png, .jpg"),
                       ValueError);
  CHECK_THROWS_AS(image::write(dir / "x.jpg", zeros({3, 2, 2}), {.quality = 0}), ValueError);
  CHECK(read_file(path.string(), 10) == "old");
  CHECK_THROWS_AS(image::read(path), DataError);
  CHECK_THROWS_AS(image::read(dir / "none.png"), FileError);
  if (can_write("x.png")) {
    CHECK_THROWS_AS(image::write(dir / "no/such/folder.png", zeros({3, 2, 2})), FileError);
  }
}

TEST_CASE("make_grid: images stand row by row in borders") {
  const Tensor x = arange(1, 4).view({3, 1, 1, 1}).expand({3, 1, 2, 1}).to(kF32);
  const Tensor grid = image::make_grid(x, {.columns = 2, .pad = 1, .value = 9});
  REQUIRE(grid.shape() == Shape{1, 7, 5});
  CHECK(values(grid) == std::vector<double>{9, 9, 9, 9, 9,  //
                                            9, 1, 9, 2, 9,  //
                                            9, 1, 9, 2, 9,  //
                                            9, 9, 9, 9, 9,  //
                                            9, 3, 9, 9, 9,  //
                                            9, 3, 9, 9, 9,  //
                                            9, 9, 9, 9, 9});
  CHECK(image::make_grid(x).shape() == Shape{1, 6, 11});
  CHECK(image::make_grid(x.to(kU8), {.pad = 0}).shape() == Shape{1, 2, 3});
  CHECK_THROWS_AS(image::make_grid(x[0]), ShapeError);
  CHECK_THROWS_AS(image::make_grid(x.slice(0, 0, 0)), ShapeError);
  CHECK_THROWS_AS(image::make_grid(x, {.columns = 0}), ValueError);
  CHECK_THROWS_AS(image::make_grid(x, {.pad = -1}), ValueError);
  CHECK_THROWS_AS(image::make_grid(x, {.pad = INT64_MAX}), ShapeError);
}
