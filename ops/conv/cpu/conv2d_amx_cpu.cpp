// The weight gradient in tile registers: the order in which pixels are summed. Contract:
// conv2d_amx_cpu.h.
#include "lathe/ops/conv/cpu/conv2d_amx_cpu.h"

#include <algorithm>
#include <vector>

#include "lathe/core/ceil_div.h"
#include "lathe/core/fetch_ahead.h"
#include "lathe/core/half.h"
#include "lathe/core/hooks/memory_tag.h"
#include "lathe/core/thread_pool.h"
#include "lathe/ops/matmul_kernels/amx_kernels.h"

namespace lathe::cpu {

namespace {

Tensor scratch(int64_t elements, DType dtype) {
  const profile::MemoryTagScope workspace(profile::MemoryTag::kWorkspace);
  return empty({elements}, {.dtype = dtype});
}

/// How images stand in a line of pixels, from which x and dy are read at the same place. A band is
/// an image, or some rows of a large one. Zeros between rows pad the row before and the row after;
/// so do those between images.
struct Line {
  explicit Line(const Conv2dGeometry& g)
      : pitch(std::max(g.Q, g.W + g.pad.cols)),
        reach((g.R - 1) * g.dilation.rows * pitch + (g.S - 1) * g.dilation.cols) {
    constexpr int64_t kMostBytes = 512 * 1024;  // of the copies of a band
    const int64_t row = pitch * (g.C + g.K) * static_cast<int64_t>(sizeof(uint16_t));
    const int64_t overlap = (g.R - 1) * g.dilation.rows;
    bands = ceil_div(g.P, std::max(int64_t{1}, kMostBytes / row - overlap));
    rows = ceil_div(g.P, bands);
    height = bands == 1 ? std::max(g.P, g.H + g.pad.rows) : rows + overlap;
  }
  int64_t pitch, reach;         // pixels from a row to the next, and to the last tap
  int64_t bands, rows, height;  // of an image; rows of dy in each; rows from a band to the next
};

/// Some neighbouring bands in a line.
struct Chunk {
  Chunk(const Conv2dGeometry& g, const Line& line, int64_t first_band, int64_t bands)
      : first(first_band),
        count(bands),
        steps(ceil_div(((count - 1) * line.height + line.rows - 1) * line.pitch + g.Q, kAmxTerms)),
        plane(round_up(steps * kAmxTerms + line.reach, kAmxTerms)) {}
  int64_t first, count;  // bands
  int64_t steps, plane;  // products that go over dy; pixels of a plane of x
};

constexpr int64_t kBlockFloats = kAmxBlock * kAmxBlock;

/// How the sum is divided, as a function of the sizes alone.
struct Division {
  Division(const Conv2dGeometry& g, const Line& line)
      : ins(round_up(g.C, kAmxBlock)), outs(round_up(g.K, kAmxBlock)) {
    constexpr int64_t kChunkBytes = 768 * 1024, kMostParts = 32;
    constexpr int64_t kPartPixels = 4096;             // of dy, worth sums of their own
    constexpr int64_t kSumsBytes = 20 * 1024 * 1024;  // of all parts
    const int64_t band = line.height * line.pitch * (ins + outs) * int64_t{sizeof(uint16_t)};
    chunk = std::max(int64_t{1}, kChunkBytes / band);
    part_floats = g.R * g.S * ins * outs;
    const int64_t most = kSumsBytes / (part_floats * int64_t{sizeof(float)});
    parts = std::clamp(std::min(g.N * g.P * g.Q / kPartPixels, most), int64_t{1},
                       std::min(kMostParts, g.N * line.bands));
  }
  int64_t blocks() const { return outs / kAmxBlock; }

  int64_t ins, outs;     // channels of x and dy, up to whole blocks
  int64_t chunk, parts;  // bands that are in the cache together; parts of the sum
  int64_t part_floats;   // the sums of one part
};

class AmxWeightGradient {
 public:
  AmxWeightGradient(const AmxKernels& kernels, const Conv2dGeometry& g, const Tensor& dy,
                    const Tensor& x)
      : kernels_(kernels),
        g_(g),
        line_(g),
        dy_(reinterpret_cast<const uint16_t*>(dy.data<BFloat16>())),
        x_(reinterpret_cast<const uint16_t*>(x.data<BFloat16>())),
        division_(g, line_),
        zeros_(static_cast<size_t>(std::max(g.C, g.K))) {
    // With more threads than parts, several tasks share a part: each takes some blocks of dy's
    // channels and copies x itself.
    const int64_t shares = ceil_div(int64_t{num_threads()}, division_.parts);
    blocks_ = ceil_div(division_.blocks(), std::min(shares, division_.blocks()));
  }

  void run(const Tensor& dw) {
    const Tensor sums = scratch(division_.parts * division_.part_floats, kF32);
    const int64_t shares = ceil_div(division_.blocks(), blocks_);
    parallel_for(division_.parts * shares, 1, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        const int64_t part = i / shares, out = i % shares * blocks_ * kAmxBlock;
        add_bands(sums.data<float>() + part * division_.part_floats, out,
                  std::min(blocks_ * kAmxBlock, division_.outs - out),
                  bands() * part / division_.parts, bands() * (part + 1) / division_.parts);
      }
    });
    add_parts(dw, sums.data<float>());
  }

 private:
  int64_t bands() const { return g_.N * line_.bands; }
  int64_t taps() const { return g_.R * g_.S; }
  int64_t distance(int64_t tap) const {
    return tap / g_.S * g_.dilation.rows * line_.pitch + tap % g_.S * g_.dilation.cols;
  }
  /// The sums of one part: [c / 32, k / 32, tap, c % 32, k % 32].
  int64_t block_of(int64_t c, int64_t k) const {
    return (c / kAmxBlock * division_.blocks() + k / kAmxBlock) * taps() * kBlockFloats;
  }

  /// The sums over bands [first, last) for `outs` channels of dy from `out` on.
  void add_bands(float* sums, int64_t out, int64_t outs, int64_t first, int64_t last) const {
    const Chunk largest(g_, line_, first, std::min(division_.chunk, last - first));
    const int64_t of_x = division_.ins * largest.plane;
    const Tensor memory = scratch(of_x + outs * largest.steps * kAmxTerms, kBF16);
    auto* const planes = reinterpret_cast<uint16_t*>(memory.data<BFloat16>());
    uint16_t* const pairs = planes + of_x;
    for (int64_t at = first; at < last; at += largest.count) {
      const Chunk chunk(g_, line_, at, std::min(largest.count, last - at));
      copy_x(planes, chunk);
      copy_dy(pairs, chunk, out, outs);
      multiply(sums, planes, pairs, chunk, out, outs, at > first);
    }
  }

  /// Multiplies ranges of pixels that stay in the first-level cache for all taps.
  void multiply(float* sums, const uint16_t* planes, const uint16_t* pairs, const Chunk& chunk,
                int64_t out, int64_t outs, bool add) const {
    constexpr int64_t kSteps = 8;
    for (int64_t in = 0; in < g_.C; in += kAmxBlock) {
      const int64_t rows = std::min(kAmxBlock, g_.C - in);
      kernels_.begin(rows);
      for (int64_t k = 0; k < outs; k += kAmxBlock) {
        for (int64_t step = 0; step < chunk.steps; step += kSteps) {
          AmxProduct product{.sums = sums + block_of(in, out + k),
                             .rows = rows,
                             .a = nullptr,
                             .a_row = chunk.plane,
                             .b = pairs + (k * chunk.steps + step * kAmxBlock) * kAmxTerms,
                             .steps = std::min(kSteps, chunk.steps - step),
                             .add = add || step > 0};
          for (int64_t tap = 0; tap < taps(); ++tap, product.sums += kBlockFloats) {
            product.a = planes + in * chunk.plane + step * kAmxTerms + distance(tap);
            kernels_.multiply(product);
          }
        }
      }
    }
    kernels_.end();
  }

  /// Calls body(first, pixels) for each 32 pixels of a chunk's line up to `end`. row_at(band, row)
  /// is the image's row of `columns` pixels at that row of a band, or null; it stands `margin`
  /// pixels from the row's start.
  template <class RowAt, class Body>
  void for_pixels(const Chunk& chunk, int64_t end, int64_t columns, int64_t channels,
                  int64_t margin, const RowAt& row_at, const Body& body) const {
    const uint16_t* pixels[kAmxTerms];
    int64_t band = chunk.first, row = 0, column = -margin;
    const uint16_t* from = row_at(band, row);
    for (int64_t first = 0; first < end; first += kAmxTerms) {
      for (const uint16_t*& pixel : pixels) {
        const bool is_inside = from != nullptr && column >= 0 && column < columns;
        pixel = is_inside ? from + column * channels : zeros_.data();
        if (is_inside) fetch_ahead(pixel, channels * int64_t{sizeof(uint16_t)});
        if (++column + margin < line_.pitch) continue;
        column = -margin;
        if (++row == line_.height) row = 0, ++band;
        from = band < chunk.first + chunk.count ? row_at(band, row) : nullptr;
      }
      body(first, pixels);
    }
  }

  void copy_x(uint16_t* to, const Chunk& chunk) const {
    const auto row_at = [&](int64_t band, int64_t row) -> const uint16_t* {
      const int64_t h = band % line_.bands * line_.rows - g_.pad.rows + row;
      if (h < 0 || h >= g_.H) return nullptr;
      return x_ + (band / line_.bands * g_.H + h) * g_.W * g_.C;
    };
    for_pixels(chunk, chunk.plane, g_.W, g_.C, g_.pad.cols, row_at,
               [&](int64_t first, const uint16_t* const* pixels) {
                 kernels_.transpose(to + first, chunk.plane, pixels, g_.C,
                                    round_up(g_.C, int64_t{16}));
               });
  }

  void copy_dy(uint16_t* to, const Chunk& chunk, int64_t out, int64_t outs) const {
    const auto row_at = [&](int64_t band, int64_t row) -> const uint16_t* {
      const int64_t p = band % line_.bands * line_.rows + row;
      if (row >= line_.rows || p >= g_.P) return nullptr;
      return dy_ + (band / line_.bands * g_.P + p) * g_.Q * g_.K + out;
    };
    const int64_t channels = std::min(outs, g_.K - out);
    for_pixels(chunk, chunk.steps * kAmxTerms, g_.Q, g_.K, 0, row_at,
               [&](int64_t first, const uint16_t* const* pixels) {
                 kernels_.interleave(to + first * kAmxBlock, chunk.steps * kAmxTerms * kAmxBlock,
                                     pixels, channels);
               });
  }

  /// dw = the sum of the parts, in their order, a block of one tap at a time.
  void add_parts(const Tensor& dw, const float* parts) const {
    constexpr int64_t kGrain = 32768;  // floats of the parts that are worth another thread
    BFloat16* const to = dw.data<BFloat16>();
    const Strides& step = dw.strides();
    const int64_t blocks = division_.part_floats / kBlockFloats;
    parallel_for(
        blocks, ceil_div(kGrain, kBlockFloats * division_.parts), [&](int64_t first, int64_t last) {
          float sum[kBlockFloats];
          for (int64_t i = first; i < last; ++i) {
            const int64_t tap = i % taps(), place = i / taps();
            const int64_t c = place / division_.blocks() * kAmxBlock,
                          k = place % division_.blocks() * kAmxBlock;
            const int64_t ins = std::min(kAmxBlock, g_.C - c), outs = std::min(kAmxBlock, g_.K - k);
            std::copy_n(parts + i * kBlockFloats, ins * kAmxBlock, sum);
            for (int64_t part = 1; part < division_.parts; ++part) {
              const float* const from = parts + part * division_.part_floats + i * kBlockFloats;
              for (int64_t j = 0; j < ins * kAmxBlock; ++j) sum[j] += from[j];
            }
            BFloat16* const filters =
                to + k * step[0] + c * step[1] + tap / g_.S * step[2] + tap % g_.S * step[3];
            for (int64_t column = 0; column < outs; ++column)
              for (int64_t row = 0; row < ins; ++row)
                filters[column * step[0] + row * step[1]] = BFloat16(sum[row * kAmxBlock + column]);
          }
        });
  }

  const AmxKernels& kernels_;
  const Conv2dGeometry g_;
  const Line line_;
  const uint16_t *const dy_, *const x_;
  const Division division_;
  const std::vector<uint16_t> zeros_;
  int64_t blocks_;  // of dy's channels, which one task takes
};

}  // namespace

bool amx_takes(const Conv2dGeometry& g) {
  constexpr int64_t kMost = 1 << 16;  // so that sizes of lines do not overflow
  return g.stride == Pair(1) && g.groups == 1 &&
         std::max({g.W, g.pad.rows, g.pad.cols, g.R * g.dilation.rows, g.S * g.dilation.cols}) <=
             kMost;
}

AmxWork amx_work(const Conv2dGeometry& g) {
  const Line line(g);
  const Division division(g, line);
  const double all = static_cast<double>(line.bands * line.height * line.pitch) *
                     static_cast<double>(division.outs);
  return {static_cast<double>(g.P * g.Q * g.K) / all, division.parts * division.blocks()};
}

void amx_backward_weight(const Conv2dGeometry& g, const Tensor& dw, const Tensor& dy,
                         const Tensor& x) {
  amx_backward_weight(amx_kernels(), g, dw, dy, x);
}

void amx_backward_weight(const AmxKernels& kernels, const Conv2dGeometry& g, const Tensor& dw,
                         const Tensor& dy, const Tensor& x) {
  AmxWeightGradient(kernels, g, dy, x).run(dw);
}

}  // namespace lathe::cpu
