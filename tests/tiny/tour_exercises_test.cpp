// The exercises of docs/tour that tiny/ is enough for, solved with it. Those with Lathe are in
// tests/tour.
#include <doctest/doctest.h>

#include "../../tiny/loader.h"
#include "../../tiny/net.h"

namespace tiny {
namespace {

/// 1, 2, 3, … of a shape.
Tensor counting(const Shape& shape) {
  Tensor x(shape);
  for (int64_t i = 0; i < x.numel(); ++i) x.data()[i] = i + 1;
  return x;
}

void check_equal(const Tensor& a, const Tensor& b) {
  REQUIRE(a.shape() == b.shape());
  const Tensor x = copy_of(a), y = copy_of(b);
  for (int64_t i = 0; i < x.numel(); ++i) CHECK(x.data()[i] == doctest::Approx(y.data()[i]));
}

TEST_CASE("tour 1.1 in tiny: two transposes permute the strides") {
  const Tensor y = transpose(transpose(Tensor({2, 3, 4}), 1, 2), 0, 1);
  CHECK(y.shape() == Shape{4, 2, 3});
  CHECK(y.strides() == Strides{1, 12, 4});
}

TEST_CASE("tour 1.2 in tiny: the diagonal has the stride 5") {
  const Tensor x = counting({4, 4});
  Tensor diagonal = x.as_strided({4}, {5}, 0);
  copy_(diagonal, Tensor({4}, {-1, -1, -1, -1}));
  for (int64_t i = 0; i < 16; ++i) CHECK(x.data()[i] == (i % 5 == 0 ? -1 : i + 1));
}

TEST_CASE("tour 1.3 in tiny: is_contiguous() minds dimensions of size 1, where nobody steps") {
  const auto is_row_major = [](const Tensor& t) {
    int64_t expected = 1;
    for (size_t d = t.ndim(); d-- > 0; expected *= t.dim(d))
      if (t.dim(d) != 1 && t.strides()[d] != expected) return false;
    return true;
  };
  const Tensor x({3, 4});
  CHECK(is_row_major(x));
  CHECK(!is_row_major(transpose(x)));
  const Tensor column = slice(x, 0, 0, 1);  // [1,4] with the strides 4, 1
  CHECK(is_row_major(column));
  CHECK(is_row_major(transpose(transpose(column))));
  const Tensor turned = transpose(Tensor({4, 1}));  // [1,4] with the strides 1, 1
  CHECK(is_row_major(turned));
  CHECK(!turned.is_contiguous());  // tiny compares all strides, so it copies once too often
}

/// Runs a node when as many gradients have come as edges lead to it.
struct Counting {
  std::map<Node*, int> edges;
  std::map<Node*, Tensor> sums;
  std::map<Meta*, Tensor> leaves;

  void count(Node& node) {
    for (const auto& input : node.inputs)
      if (input && input->maker && edges[input->maker.get()]++ == 0) count(*input->maker);
  }
  static void add(Tensor& sum, const Tensor& dx) {
    sum = sum.defined() ? sum_of_gradients(sum, dx) : dx;
  }
  void run(Node& node, const Tensor& dy) {
    const auto gradients = node.backward(dy, Needs(node.inputs.size(), true));
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      Meta* const input = node.inputs[i].get();
      if (input == nullptr) continue;
      Node* const maker = input->maker.get();
      add(maker ? sums[maker] : leaves[input], gradients[i]);
      if (maker && --edges[maker] == 0) run(*maker, sums[maker]);
    }
  }
};

TEST_CASE("tour 2.2 in tiny: a pass that counts gives the same gradients") {
  const Tensor w = parameter(Tensor({}, {3})), b = parameter(Tensor({}, {1}));
  const Tensor h = w * Tensor({}, {2}) + b, loss = h * h + h;
  Counting pass;
  pass.count(*loss.meta()->maker);
  pass.run(*loss.meta()->maker, Tensor({}, {1}));
  backward(loss);
  check_equal(pass.leaves.at(w.meta().get()), grad(w));
  check_equal(pass.leaves.at(b.meta().get()), grad(b));
  CHECK(grad(w).item() == 30);
  CHECK(grad(b).item() == 15);
}

TEST_CASE("tour 2.3 in tiny: detach() has the number and no edge") {
  const Tensor w = parameter(Tensor({}, {3})), b = parameter(Tensor({}, {1}));
  const Tensor h = w * Tensor({}, {2}) + b;
  backward(h * detach(h));
  CHECK(grad(w).item() == 14);
}

/// v³ of each number, with the gradient dy · slope(v).
Tensor cube(const Tensor& x, double (*slope)(double)) {
  const Tensor y = map(x, [](double v) { return v * v * v; });
  return record("cube", y, {x}, [x = Saved(x), slope](const Tensor& dy, const Needs&) {
    return std::vector{dy * map(x.get(), slope)};
  });
}

TEST_CASE("tour 3.4 in tiny: differences find a wrong gradient, if h is neither large nor small") {
  const auto right = [](double v) { return 3 * v * v; };
  const auto wrong = [](double v) { return 3 * v; };
  const auto difference = [&](Tensor x, int64_t i, double h) {
    const double was = x.data()[i];
    x.data()[i] = was + h;
    const double above = sum(cube(x, right)).item();
    x.data()[i] = was - h;
    const double below = sum(cube(x, right)).item();
    x.data()[i] = was;
    return (above - below) / (2 * h);
  };
  const Tensor w = parameter(Tensor({2}, {1, 2})), v = parameter(copy_of(w));
  backward(sum(cube(w, right)));
  backward(sum(cube(v, wrong)));
  const double rights[] = {3, 12}, wrongs[] = {3, 6};
  for (int i = 0; i < 2; ++i) {
    CHECK(grad(w).data()[i] == rights[i]);
    CHECK(grad(v).data()[i] == wrongs[i]);
    CHECK(std::abs(difference(detach(w), i, 1e-5) - rights[i]) < 1e-9);
  }
  const auto error = [&](double h) { return std::abs(difference(Tensor({1}, {2}), 0, h) - 12); };
  CHECK(error(0.01) == doctest::Approx(1e-4).epsilon(1e-3));
  CHECK(error(1e-8) > 10 * error(1e-5));
  CHECK(error(1e-12) > 1000 * error(1e-8));
}

TEST_CASE("tour 3b.3 in tiny: the gradient of repeating is a sum") {
  const Tensor m = counting({2, 3}), dy({2, 3}, {1, 0, -1, 2, 2, 2});
  const Tensor c = parameter(Tensor({2, 1}, {5, 7}));
  backward(sum(m * c * dy));
  check_equal(grad(c), sum_to(dy * m, {2, 1}));
  check_equal(grad(c), Tensor({2, 1}, {-2, 30}));
}

TEST_CASE("tour 4.1 and 4.2 in tiny: both gradients of a convolution by matmul()") {
  const Tensor x = parameter(counting({2, 3, 5, 5})), w = parameter(counting({4, 3, 3, 3}));
  const Tensor y = conv2d(x, w, {.pad = 1});
  const Tensor dy = counting(y.shape());
  backward(sum(y * dy));
  const Conv2dSizes z = conv2d_sizes(x.shape(), w.shape(), {.pad = 1});
  Tensor dw({z.K, z.CRS()}), dx(x.shape());
  for (int64_t n = 0; n < z.N; ++n) {
    const Tensor dy_n = image_of(dy, n, z.K, z.PQ());
    dw = dw + matmul(dy_n, transpose(patches_of(detach(x), n, z)));
    const Tensor columns = matmul(transpose(reshape(detach(w), {z.K, z.CRS()})), dy_n);
    double* to = image_of(dx, n, z.C, z.H * z.W).data();
    for_each_patch_pixel(z,
                         [&](int64_t patch, int64_t pixel) { to[pixel] += columns.data()[patch]; });
  }
  check_equal(reshape(dw, w.shape()), grad(w));
  check_equal(dx, grad(x));
}

TEST_CASE("tour 4.3 in tiny: a 1 x 1 convolution is one product for each image") {
  const Tensor x = counting({1, 3, 2, 2}), w = counting({4, 3, 1, 1});
  check_equal(reshape(matmul(reshape(w, {4, 3}), reshape(x, {3, 4})), {1, 4, 2, 2}), conv2d(x, w));
}

TEST_CASE("tour 5.1 in tiny: in evaluation the statistics are constants") {
  for (const std::vector<double>& g : {std::vector<double>{1, 0, -1}, {1, 2, 3}}) {
    const Tensor x = parameter(counting({3, 1})), dy({3, 1}, g);
    Tensor mean({1}), var({1}, {9});
    backward(sum(batch_norm(x, Tensor({1}, {6}), Tensor({1}), mean, var, {}) * dy));
    for (int i = 0; i < 3; ++i) CHECK(grad(x).data()[i] == doctest::Approx(2 * g[i]).epsilon(1e-5));
  }
}

TEST_CASE("tour 5.2 in tiny: four zeros before the batch norm's gradient, none behind it") {
  const Tensor x = parameter(Tensor({5, 1}, {1, 2, 4, 4, 9})), dy({5, 1}, {-1, 0, 0, 1, 2});
  Tensor mean({1}), var({1}, {1});
  backward(
      sum(relu(batch_norm(x, Tensor({1}, {1}), Tensor({1}), mean, var, {.training = true})) * dy));
  const double expected[] = {0.14128, 0.04582, -0.14510, -0.14510, 0.10309};
  for (int i = 0; i < 5; ++i)
    CHECK(grad(x).data()[i] == doctest::Approx(expected[i]).epsilon(1e-4));
}

/// The nearest number of f16; infinity where there is none.
double f16(double x) {
  const int exponent = std::max(std::ilogb(x), -14);  // below 2^-14 numbers lie no closer
  const double step = std::ldexp(1.0, exponent - 10), y = std::nearbyint(x / step) * step;
  return std::abs(y) > 65504 ? std::copysign(INFINITY, y) : y;
}

struct Lost {
  int64_t zeros, infinities;
};

/// What f16 makes of the gradients of the second convolution's output in main.cpp's first step.
Lost lost_in_f16(const Batch& batch, double scale) {
  Generator random(0);
  Net net(28, 28, 10, random);
  Tensor rounded;
  const auto as_f16 = [&](const Tensor& x) {
    return record("as_f16", copy_of(x), {x}, [&](const Tensor& dy, const Needs&) {
      return std::vector{rounded = map(dy, f16)};
    });
  };
  const Tensor a = max_pool2d(relu(net.bn1(net.conv1(batch.x), true)), 2);
  const Tensor b = max_pool2d(relu(net.bn2(as_f16(net.conv2(a)), true)), 2);
  const Tensor scores = net.fc(reshape(b, {b.dim(0), b.numel() / b.dim(0)}));
  backward(cross_entropy(scores, batch.labels) * Tensor({}, {scale}));
  const double *const begin = rounded.data(), *const end = begin + rounded.numel();
  return {std::count(begin, end, 0),
          std::count_if(begin, end, [](double g) { return std::isinf(g); })};
}

TEST_CASE("tour 6.4 in tiny: f16 loses gradients at both ends") {
  CHECK(f16(65519) == 65504);
  CHECK(std::isinf(f16(65520)));
  CHECK(f16(2049) == 2048);
  CHECK(f16(0x1p-24) == 0x1p-24);
  CHECK(f16(0x1p-25) == 0);
  CHECK(f16(0) == 0);
  const Dataset set = made_up_images(2000, 1);
  const Batch batch = *Epoch(set, {.batch_size = 64, .shuffle = true, .seed = 1}, 0).next();
  CHECK(std::abs(lost_in_f16(batch, 1).zeros - 1012) <= 2);
  CHECK(lost_in_f16(batch, 0x1p16).zeros == 0);
  CHECK(lost_in_f16(batch, 0x1p24).infinities == 0);
  CHECK(std::abs(lost_in_f16(batch, 0x1p25).infinities - 125) <= 2);
}

TEST_CASE("tour 7.1 in tiny: requests of 1 MiB, and of a byte more") {
  for (const size_t more : {0, 1}) {
    Device device(size_t{1} << 30);
    Pool pool(device);
    for (int i = 0; i < 20; ++i) pool.allocate(Pool::kMiB + more);
    CHECK(pool.stats().device_calls == (more ? 2 : 10));
  }
}

TEST_CASE("tour 7.2 in tiny: growing requests, each given back") {
  Device device(size_t{1} << 30);
  Pool pool(device);
  for (size_t mib = 12; mib <= 20; mib += 2) pool.deallocate(pool.allocate(mib * Pool::kMiB));
  CHECK(pool.stats().reserved_bytes == 80 * Pool::kMiB);
}

TEST_CASE("tour 7.3 in tiny: the pool gives back what it keeps, and asks again") {
  Device device(64 * Pool::kMiB);
  Pool pool(device);
  pool.deallocate(pool.allocate(40 * Pool::kMiB));
  CHECK(pool.allocate(60 * Pool::kMiB) != nullptr);
  CHECK(pool.stats().device_calls == 4);  // take, take refused, give back, take
  CHECK(pool.stats().reserved_bytes == 60 * Pool::kMiB);
}

/// Mirrors the images of a batch that draw a 1.
void mirror(Batch& batch, uint64_t seed, uint64_t epoch) {
  const int64_t W = batch.x.dim(3), pixels = batch.x.dim(2) * W;
  for (size_t n = 0; n < batch.indices.size(); ++n)
    if (Random(seed, epoch, batch.indices[n], 1).below(2) == 1)
      for (double* row = batch.x.data() + n * pixels; row != batch.x.data() + (n + 1) * pixels;
           row += W)
        std::reverse(row, row + W);
}

TEST_CASE("tour 9.4 in tiny: what an image draws does not depend on its batch") {
  const Dataset set = made_up_images(2000, 1);
  const auto mirrored = [&](uint64_t epoch) {
    int64_t count = 0;
    for (int64_t i = 0; i < set.size(); ++i) count += Random(1, epoch, i, 1).below(2);
    return count;
  };
  CHECK(mirrored(0) == 1018);
  CHECK(mirrored(1) == 1024);

  // From batch `first` on, with batches of a size: the pixels of each image.
  const auto images_from = [&](int64_t first, int64_t size) {
    const std::vector<int64_t> order = random_order(set.size(), 1, 0);
    std::map<int64_t, std::vector<double>> images;
    for (int64_t at = first * size; at < set.size(); at += size) {
      const auto begin = order.begin() + at, end = begin + std::min(size, order.end() - begin);
      Batch batch = make_batch(set, {begin, end});
      mirror(batch, 1, 0);
      const int64_t pixels = set.height * set.width;
      const double* from = batch.x.data();
      for (const int64_t index : batch.indices) {
        images[index].assign(from, from + pixels);
        from += pixels;
      }
    }
    return images;
  };
  const auto whole = images_from(0, 64);
  CHECK(images_from(0, 50) == whole);
  const auto resumed = images_from(2, 64);
  CHECK(resumed.size() == 2000 - 2 * 64);
  for (const auto& [index, pixels] : resumed) CHECK(pixels == whole.at(index));
}

/// The softmax of each row of s [N,C].
Tensor softmax(const Tensor& s) {
  const Tensor w = map(log_softmax(s), [](double v) { return std::exp(v); });
  return record("softmax", w, {s}, [w = Saved(w)](const Tensor& dw, const Needs&) {
    const Tensor a = dw * w.get(), sums = sum_to(a, {a.dim(0), 1});
    return std::vector{a + map(sums, [](double v) { return -v; }) * w.get()};
  });
}

TEST_CASE("tour 11.4 in tiny: scores far apart leave no gradient") {
  const Tensor k({3, 2}, {1, 0, 0, 1, 1, 1}), v({3, 2}, {4, 0, 0, 4, 8, 8});
  struct Row {
    double factor, weight, result, dq;  // of the third query: for the third key; by one number
  };
  for (const Row& row :
       {Row{1, 0.673, 6.0371, 0.9339}, {4, 0.993, 7.9584, 0.1169}, {16, 1, 8, 2.022e-08}}) {
    const Tensor q = parameter(Tensor({3, 2}, {2, 0, 0, 2, 2, 2}));
    const Tensor scores = matmul(q, transpose(k)) * Tensor({}, {row.factor / std::sqrt(2)});
    const Tensor weights = softmax(scores), result = matmul(weights, v);
    backward(sum(result));
    CHECK(std::abs(weights.data()[8] - row.weight) < 0.0006);
    CHECK(result.data()[4] == doctest::Approx(row.result).epsilon(1e-4));
    CHECK(std::abs(grad(q).data()[4] - row.dq) < 1e-3 * row.dq);
    CHECK(weights.data()[0] == doctest::Approx(weights.data()[2]));  // a tie stays a tie
  }
}

}  // namespace
}  // namespace tiny
