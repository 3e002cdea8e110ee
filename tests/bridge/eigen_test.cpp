// The bridge to Eigen. What a tensor or a matrix must hold is read through the other library's own
// element access.
#include "lathe/bridge/eigen.h"

#include <doctest/doctest.h>

#include <Eigen/Core>
#include <memory>
#include <string>
#include <vector>

#include "lathe/core/error.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/views.h"
#include "lathe/tests/cuda_case.h"

using namespace lathe;
using RowMajor = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

namespace {

/// 10 * row + column: no two elements are equal.
template <class M>
M numbered(Eigen::Index rows, Eigen::Index columns) {
  return M::NullaryExpr(rows, columns, [](Eigen::Index i, Eigen::Index j) {
    return typename M::Scalar(static_cast<float>(10 * i + j));
  });
}

Tensor numbered(const Shape& shape) { return arange(numel_of(shape)).to(kF32).view(shape); }

template <class M>
void check_equal(const Tensor& t, const M& m) {
  REQUIRE(t.shape() == Shape{m.rows(), m.cols()});
  for (Eigen::Index i = 0; i < m.rows(); ++i) {
    for (Eigen::Index j = 0; j < m.cols(); ++j) {
      CHECK(t[i][j].item<float>() == static_cast<float>(m(i, j)));
    }
  }
}

template <class E>
std::string error_of(const auto& f) {
  try {
    f();
  } catch (const E& error) {
    return error.what();
  }
  return "nothing was thrown";
}
void has(const std::string& text, const char* part) {
  CHECK_MESSAGE(text.find(part) != std::string::npos, text);
}

}  // namespace

TEST_CASE("as_tensor: a matrix of either order, its blocks and its transpose keep their memory") {
  auto columns = numbered<Eigen::MatrixXf>(3, 4);
  auto rows = numbered<RowMajor>(3, 4);
  const Tensor t = bridge::as_tensor(columns);
  check_equal(t, columns);
  CHECK(t.strides() == Strides{1, 3});
  CHECK(t.data<float>() == columns.data());
  check_equal(bridge::as_tensor(rows), rows);
  CHECK(bridge::as_tensor(rows).strides() == Strides{4, 1});
  check_equal(bridge::as_tensor(columns.block(1, 1, 2, 2)), columns.block(1, 1, 2, 2));
  check_equal(bridge::as_tensor(columns.transpose()), columns.transpose());
  Eigen::Map<Eigen::MatrixXf, 0, Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>> spread(
      columns.data(), 2, 2, {6, 2});
  check_equal(bridge::as_tensor(spread), spread);

  columns(2, 3) = -1;
  CHECK(t[2][3].item<float>() == -1);
  t[0] = 7;
  CHECK(columns(0, 2) == 7);
}

TEST_CASE("as_tensor: vectors have one dimension, also rows and columns of a matrix") {
  auto m = numbered<Eigen::MatrixXf>(3, 4);
  Eigen::Vector3f fixed(1, 2, 3);
  Eigen::RowVectorXf row = m.row(1);
  CHECK(bridge::as_tensor(fixed).to_vector<float>() == std::vector<float>{1, 2, 3});
  CHECK(bridge::as_tensor(row).shape() == Shape{4});
  CHECK(bridge::as_tensor(m.row(1)).to_vector<float>() == std::vector<float>{10, 11, 12, 13});
  CHECK(bridge::as_tensor(m.row(1)).strides() == Strides{3});
  CHECK(bridge::as_tensor(m.col(2)).to_vector<float>() == std::vector<float>{2, 12, 22});
  CHECK(bridge::as_tensor(m.col(2)).strides() == Strides{1});
}

TEST_CASE("as_tensor: dtypes, and matrices without elements") {
  auto half = numbered<Eigen::Matrix<Eigen::half, 2, 3>>(2, 3);
  auto brain = numbered<Eigen::Matrix<Eigen::bfloat16, 2, 3>>(2, 3);
  auto integers = numbered<Eigen::MatrixXi>(2, 3);
  auto doubles = numbered<Eigen::ArrayXXd>(2, 3);
  CHECK(bridge::as_tensor(half).dtype() == kF16);
  CHECK(bridge::as_tensor(brain).dtype() == kBF16);
  CHECK(bridge::as_tensor(integers).dtype() == kI32);
  CHECK(bridge::as_tensor(doubles).dtype() == kF64);
  check_equal(bridge::as_tensor(half), half);
  check_equal(bridge::as_tensor(brain), brain);
  check_equal(bridge::as_tensor(integers), integers);
  check_equal(bridge::as_tensor(doubles), doubles);
  Eigen::MatrixXf none(0, 3);
  CHECK(bridge::as_tensor(none).shape() == Shape{0, 3});
}

TEST_CASE("as_tensor: an owner lives as long as the last tensor over its memory") {
  auto owner = std::make_shared<Eigen::MatrixXf>(Eigen::MatrixXf::Constant(2, 2, 5));
  const std::weak_ptr<Eigen::MatrixXf> seen = owner;
  Tensor row;
  {
    const Tensor t = bridge::as_tensor(*owner, owner);
    owner.reset();
    row = t[1];
  }
  REQUIRE(!seen.expired());
  CHECK(row.to_vector<float>() == std::vector<float>{5, 5});
  row = {};
  CHECK(seen.expired());
  Eigen::MatrixXf m(2, 2);
  Eigen::Map<Eigen::MatrixXf, 0, Eigen::OuterStride<>> upwards(&m(0, 1), 2, 2,
                                                               Eigen::OuterStride<>(-2));
  has(error_of<ValueError>([&] { bridge::as_tensor(upwards); }), "strides [1,-2]");
}

TEST_CASE("to_tensor: expressions are computed, copies are apart, a moved matrix is taken over") {
  auto m = numbered<Eigen::MatrixXf>(2, 3);
  const Eigen::MatrixXf& constant = m;
  check_equal(bridge::to_tensor(m * 2), m * 2);
  const Tensor copy = bridge::to_tensor(constant);
  m(0, 0) = 99;
  CHECK(copy[0][0].item<float>() == 0);
  CHECK(bridge::to_tensor((m.array() > 10).cast<bool>()).dtype() == kBool);
  const float* const memory = m.data();
  CHECK(bridge::to_tensor(std::move(m)).data<float>() == memory);
}

TEST_CASE("as_eigen: tensors of any strides, as matrices of either order and vectors") {
  const Tensor t = numbered({3, 4});
  check_equal(t, bridge::as_eigen<Eigen::MatrixXf>(t));
  check_equal(t, bridge::as_eigen<RowMajor>(t));
  check_equal(t.t(), bridge::as_eigen<Eigen::MatrixXf>(t.t()));
  const Tensor part = t.slice(1, 0, 4, 2).narrow(0, 1, 2);
  check_equal(part, bridge::as_eigen<RowMajor>(part));
  check_equal(part, bridge::as_eigen<Eigen::Matrix2f>(part));
  const auto column = bridge::as_eigen<Eigen::VectorXf>(t.select(1, 1));
  CHECK((column - Eigen::Vector3f(1, 5, 9)).norm() == 0);
  const auto row = bridge::as_eigen<Eigen::RowVector4f>(t.narrow(0, 2, 1));
  CHECK((row - Eigen::RowVector4f(8, 9, 10, 11)).norm() == 0);
  const auto one = bridge::as_eigen<const Eigen::MatrixXf>(t[0].expand({2, 4}));
  CHECK(one(1, 3) == 3);

  bridge::as_eigen<Eigen::MatrixXf>(t)(2, 3) = -1;
  CHECK(t[2][3].item<float>() == -1);
}

TEST_CASE("as_dense_eigen: only a tensor that is dense in the matrix's order") {
  const Tensor t = numbered({3, 4});
  check_equal(t, bridge::as_dense_eigen<RowMajor>(t));
  check_equal(t.t(), bridge::as_dense_eigen<Eigen::MatrixXf>(t.t()));
  check_equal(t.narrow(0, 1, 2), bridge::as_dense_eigen<RowMajor>(t.narrow(0, 1, 2)));
  CHECK(bridge::as_dense_eigen<Eigen::VectorXf>(t[1])(2) == 6);
  has(error_of<ValueError>([&] { bridge::as_dense_eigen<Eigen::MatrixXf>(t); }), "strides [4,1]");
  has(error_of<ValueError>([&] { bridge::as_dense_eigen<Eigen::VectorXf>(t.select(1, 0)); }),
      "strides [4]");
  has(error_of<ValueError>([&] { bridge::as_dense_eigen<RowMajor>(t.narrow(1, 0, 2)); }),
      "row-major");
}

TEST_CASE("to_eigen: a copy of any dtype and strides") {
  const Tensor t = numbered({3, 4});
  check_equal(t.t(), bridge::to_eigen<Eigen::MatrixXd>(t.t()));
  CHECK(bridge::to_eigen<Eigen::Vector4d>(t[1]) == Eigen::Vector4d(4, 5, 6, 7));
  CHECK(bridge::to_eigen<Eigen::RowVectorXi>(t.narrow(0, 1, 1)) == Eigen::RowVector4i(4, 5, 6, 7));
  CHECK(bridge::to_eigen<Eigen::Vector2i>(t.narrow(1, 1, 1).narrow(0, 0, 2)) ==
        Eigen::Vector2i(1, 5));
  const Tensor w = ones({2, 2}, lathe::requires_grad());
  CHECK(bridge::to_eigen<Eigen::MatrixXf>(w).sum() == 4);
}

TEST_CASE("as_eigen: what does not fit is named") {
  const Tensor t = numbered({3, 4});
  has(error_of<ShapeError>([&] { bridge::as_eigen<Eigen::Matrix4f>(t); }), "4 rows and 4 columns");
  has(error_of<ShapeError>([&] { bridge::as_eigen<Eigen::MatrixXf>(t[0]); }), "no matrix");
  has(error_of<ShapeError>([&] { bridge::as_eigen<Eigen::VectorXf>(t); }), "f32[3,4]@cpu");
  has(error_of<ShapeError>([&] { bridge::as_eigen<Eigen::VectorXf>(t.sum()); }), "0 dimensions");
  using Small = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, 0, 2, 4>;
  has(error_of<ShapeError>([&] { bridge::as_eigen<Small>(t); }), "2 rows");
  has(error_of<DTypeError>([&] { bridge::as_eigen<Eigen::MatrixXd>(t); }), "holds f64");
  has(error_of<ValueError>([&] {
        bridge::as_eigen<Eigen::MatrixXf>(t[0].expand({2, 4}));
      }),
      "strides [0,1]");
  has(error_of<StateError>([] {
        bridge::as_eigen<Eigen::MatrixXf>(ones({2, 2}, lathe::requires_grad()));
      }),
      "detach()");
}

TEST_CASE("as_eigen: a tensor on a GPU is refused, to_eigen copies it" * test::cuda_case()) {
  const Tensor t = numbered({3, 4}).to("cuda");
  has(error_of<DeviceError>([&] { bridge::as_eigen<Eigen::MatrixXf>(t); }), "f32[3,4]@cuda:0");
  check_equal(t, bridge::to_eigen<Eigen::MatrixXf>(t));
}
