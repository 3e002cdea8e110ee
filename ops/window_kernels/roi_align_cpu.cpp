// CPU kernels of ops/roi_align.h. A bin's mean over its points is a weighted sum of pixels, and the
// weight of a pixel is one factor for its row times one for its column. So the points of an axis
// are counted once per box, as weights of pixels. Then a bin takes a sum of rows and of that a sum
// of columns, instead of four pixels for each of its points.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "lathe/core/thread_pool.h"
#include "lathe/core/visit.h"
#include "lathe/ops/roi_align.h"

namespace lathe::cpu {

namespace {

constexpr int64_t kTask = 1 << 15;  // the least number of products for one thread

/// The side of a bin: corners [K,4] are x1, y1, x2, y2.
template <class C>
C side_of_bin(const C* corners, bool vertical, int64_t bins, bool aligned) {
  const C length = corners[vertical ? 3 : 2] - corners[vertical ? 1 : 0];
  return (aligned ? length : std::max(length, C(1))) / static_cast<C>(bins);
}

/// The pixels with a weight above 0 that the bins of all boxes read along one axis of the image.
/// Bin number b (box * bins + bin) has the entries from begins[b] to begins[b + 1] - 1.
template <class C>
struct AxisWeights {
  std::vector<int64_t> begins{0}, pixel;
  std::vector<C> weight;
  std::vector<int64_t> low, high;  // of each box: the pixels from the first to the last
  int64_t bins;

  AxisWeights(const Tensor& corners, bool vertical, int64_t bins_of_box, int64_t size,
              const RoiAlignOptions& opt)
      : bins(bins_of_box) {
    const C* box = corners.data<C>();
    for (int64_t k = 0; k < corners.dim(0); ++k, box += 4) {
      const C side = side_of_bin(box, vertical, bins, opt.aligned);
      const size_t first = pixel.size();
      for (int64_t bin = 0; bin < bins; ++bin) {
        add_bin(box[vertical ? 1 : 0], side, static_cast<C>(bin), size, opt.sampling_ratio);
      }
      const auto [least, most] =
          std::minmax_element(pixel.begin() + static_cast<std::ptrdiff_t>(first), pixel.end());
      low.push_back(first < pixel.size() ? *least : 0);
      high.push_back(first < pixel.size() ? *most + 1 : 0);
    }
  }

 private:
  /// Points are more than half a pixel apart, and `size` + 3 or more of them almost a whole one. So
  /// no bin has more than size + 6 points at the image; they begin a little before pixel -1.
  void add_bin(C begin, C side, C bin, int64_t size, int64_t ratio) {
    const C count = ratio > 0 ? static_cast<C>(ratio) : std::max(std::ceil(side), C(0));
    const C last = static_cast<C>(size);
    const auto looked_at = static_cast<int64_t>(ratio > 0 ? count : std::min(count, last + 6));
    C first = 0;
    if (const C skipped = count - static_cast<C>(looked_at); skipped > 0) {
      const C before = std::floor(((-1 - begin) / side - bin) * count - 2);
      first = std::min(std::max(before, C(0)), skipped);
    }
    for (int64_t i = 0; i < looked_at; ++i) {
      const C number = first + static_cast<C>(i);
      const C at = begin + (bin + (number + C(0.5)) / count) * side;
      if (!(at >= -1 && at <= last)) continue;
      const C place = std::min(std::max(at, C(0)), last - 1), floor = std::floor(place);
      const C part = place - floor;
      const auto cell = static_cast<int64_t>(floor);
      add(cell, (1 - part) / count);
      add(cell + 1, part / count);
    }
    begins.push_back(static_cast<int64_t>(pixel.size()));
  }

  /// Points are in order, so a pixel of an earlier point is among the bin's last entries.
  void add(int64_t cell, C share) {
    if (share == 0) return;
    const auto begin = static_cast<size_t>(begins.back());
    for (size_t k = pixel.size(), looks = 3; k > begin && looks > 0; --k, --looks) {
      if (pixel[k - 1] != cell) continue;
      weight[k - 1] += share;
      return;
    }
    pixel.push_back(cell);
    weight.push_back(share);
  }
};

/// What a box reads of a plane [H,width] of pixels.
template <class C>
struct BoxReads {
  const AxisWeights<C>&down, &across;
  int64_t width;
};

template <class C>
LATHE_CLONES void pool_box(C* y, const C* x, const BoxReads<C>& in, int64_t box, C* line) {
  const int64_t low = in.across.low[static_cast<size_t>(box)];
  const int64_t columns = in.across.high[static_cast<size_t>(box)] - low;
  const int64_t rows = in.down.bins, bins = in.across.bins;
  const int64_t *row_begins = in.down.begins.data() + box * rows, *row = in.down.pixel.data();
  const int64_t *begins = in.across.begins.data() + box * bins, *column = in.across.pixel.data();
  const C *row_weight = in.down.weight.data(), *weight = in.across.weight.data();
  for (int64_t p = 0; p < rows; ++p) {
    for (int64_t c = 0; c < columns; ++c) line[c] = 0;
    for (int64_t i = row_begins[p]; i < row_begins[p + 1]; ++i) {
      const C* const from = x + row[i] * in.width + low;
      const C factor = row_weight[i];
      for (int64_t c = 0; c < columns; ++c) line[c] += factor * from[c];
    }
    for (int64_t q = 0; q < bins; ++q) {
      C sum = 0;
      for (int64_t j = begins[q]; j < begins[q + 1]; ++j) sum += weight[j] * line[column[j] - low];
      y[p * bins + q] = sum;
    }
  }
}

template <class C>
LATHE_CLONES void spread_box(C* dx, const C* dy, const BoxReads<C>& in, int64_t box, C* line) {
  const int64_t low = in.across.low[static_cast<size_t>(box)];
  const int64_t columns = in.across.high[static_cast<size_t>(box)] - low;
  const int64_t rows = in.down.bins, bins = in.across.bins;
  const int64_t *row_begins = in.down.begins.data() + box * rows, *row = in.down.pixel.data();
  const int64_t *begins = in.across.begins.data() + box * bins, *column = in.across.pixel.data();
  const C *row_weight = in.down.weight.data(), *weight = in.across.weight.data();
  for (int64_t p = 0; p < rows; ++p) {
    for (int64_t c = 0; c < columns; ++c) line[c] = 0;
    for (int64_t q = 0; q < bins; ++q) {
      const C value = dy[p * bins + q];
      for (int64_t j = begins[q]; j < begins[q + 1]; ++j)
        line[column[j] - low] += weight[j] * value;
    }
    for (int64_t i = row_begins[p]; i < row_begins[p + 1]; ++i) {
      C* const to = dx + row[i] * in.width + low;
      const C factor = row_weight[i];
      for (int64_t c = 0; c < columns; ++c) to[c] += factor * line[c];
    }
  }
}

/// About how many products a box takes in one plane.
template <class C>
double products_of_box(const BoxReads<C>& in, int64_t boxes) {
  const double down = static_cast<double>(in.down.pixel.size()) / static_cast<double>(boxes);
  const double across = static_cast<double>(in.across.pixel.size()) / static_cast<double>(boxes);
  return down * across + static_cast<double>(in.down.bins) * across + 64;
}

int64_t grain_of(double products) {
  return std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(kTask) / products));
}

}  // namespace

int64_t first_endless_box(const Tensor& corners, Pair size, const RoiAlignOptions& opt) {
  int64_t k = 0;
  visit_float(corners.dtype(), "roi_align", [&](auto tag) {
    using C = ComputeType<typename decltype(tag)::type>;
    const C* box = corners.data<C>();
    for (; k < corners.dim(0); ++k, box += 4) {
      const C wide = side_of_bin(box, false, size.cols, opt.aligned);
      const C high = side_of_bin(box, true, size.rows, opt.aligned);
      constexpr C kMost = std::numeric_limits<C>::max();
      if (!(wide <= kMost && high <= kMost)) return;
    }
  });
  return k;
}

void roi_align(const Tensor& y, const Tensor& x, const Tensor& image, const Tensor& corners,
               const RoiAlignOptions& opt) {
  if (y.numel() == 0) return;
  visit_float(x.dtype(), "roi_align", [&](auto tag) {
    using C = ComputeType<typename decltype(tag)::type>;
    const int64_t boxes = y.dim(0), channels = y.dim(1), bins = y.dim(2) * y.dim(3);
    const int64_t plane = x.dim(2) * x.dim(3), width = x.dim(3);
    const AxisWeights<C> down(corners, true, y.dim(2), x.dim(2), opt);
    const AxisWeights<C> across(corners, false, y.dim(3), width, opt);
    const BoxReads<C> in{down, across, width};
    const int64_t* const n = image.data<int64_t>();
    parallel_for(
        boxes * channels, grain_of(products_of_box(in, boxes)), [&](int64_t begin, int64_t end) {
          std::vector<C> line(static_cast<size_t>(width));
          for (int64_t i = begin; i < end; ++i) {
            const int64_t box = i / channels, channel = i % channels;
            pool_box(y.data<C>() + i * bins, x.data<C>() + (n[box] * channels + channel) * plane,
                     in, box, line.data());
          }
        });
  });
}

void roi_align_grad(const Tensor& dx, const Tensor& dy, const Tensor& image, const Tensor& corners,
                    const RoiAlignOptions& opt) {
  if (dx.numel() == 0) return;
  visit_float(dy.dtype(), "roi_align", [&](auto tag) {
    using C = ComputeType<typename decltype(tag)::type>;
    const int64_t boxes = dy.dim(0), channels = dy.dim(1), bins = dy.dim(2) * dy.dim(3);
    const int64_t plane = dx.dim(2) * dx.dim(3), width = dx.dim(3), planes = dx.dim(0) * channels;
    const AxisWeights<C> down(corners, true, dy.dim(2), dx.dim(2), opt);
    const AxisWeights<C> across(corners, false, dy.dim(3), width, opt);
    const BoxReads<C> in{down, across, width};
    const int64_t* const n = image.data<int64_t>();
    std::vector<std::vector<int64_t>> of_image(static_cast<size_t>(dx.dim(0)));
    for (int64_t k = 0; k < boxes; ++k) of_image[static_cast<size_t>(n[k])].push_back(k);
    const double per_plane = products_of_box(in, std::max<int64_t>(boxes, 1)) *
                             static_cast<double>(boxes) / static_cast<double>(dx.dim(0));
    parallel_for(planes, grain_of(per_plane + static_cast<double>(plane)),
                 [&](int64_t begin, int64_t end) {
                   std::vector<C> line(static_cast<size_t>(width));
                   for (int64_t i = begin; i < end; ++i) {
                     const int64_t channel = i % channels;
                     C* const to = dx.data<C>() + i * plane;
                     std::fill_n(to, plane, C(0));
                     for (const int64_t box : of_image[static_cast<size_t>(i / channels)]) {
                       spread_box(to, dy.data<C>() + (box * channels + channel) * bins, in, box,
                                  line.data());
                     }
                   }
                 });
  });
}

}  // namespace lathe::cpu
