// Execution of an operation graph of the emulated cuDNN; see cudnn_program.h.
#include "cudnn_program.h"

#include <algorithm>
#include <cstring>

#include "lathe/core/error.h"
#include "lathe/core/half.h"
#include "unseen.h"

namespace lathe::emulation {

namespace {

using Values = std::vector<float>;  // of a tensor, in the order N C H W

/// f(position in Values, position in memory) for every element.
template <class F>
void for_each_element(const CudnnTensor& t, F&& f) {
  size_t i = 0;
  for (int64_t a = 0; a < t.dims[0]; ++a)
    for (int64_t b = 0; b < t.dims[1]; ++b)
      for (int64_t c = 0; c < t.dims[2]; ++c)
        for (int64_t d = 0; d < t.dims[3]; ++d) {
          f(i++, a * t.strides[0] + b * t.strides[1] + c * t.strides[2] + d * t.strides[3]);
        }
}

template <class T>
Values read_as(const CudnnTensor& t, const void* memory) {
  Values values(static_cast<size_t>(t.numel()));
  for_each_element(t, [&](size_t i, int64_t at) {
    values[i] = static_cast<float>(static_cast<const T*>(memory)[at]);
  });
  return values;
}

template <class T>
void write_as(const CudnnTensor& t, void* memory, const Values& values) {
  for_each_element(t, [&](size_t i, int64_t at) { static_cast<T*>(memory)[at] = T(values[i]); });
}

Values read(const CudnnTensor& t, const void* memory) {
  switch (t.dtype) {
    case CUDNN_DATA_HALF: return read_as<Half>(t, memory);
    case CUDNN_DATA_BFLOAT16: return read_as<BFloat16>(t, memory);
    case CUDNN_DATA_FLOAT: break;
  }
  return read_as<float>(t, memory);
}

void write(const CudnnTensor& t, void* memory, const Values& values) {
  switch (t.dtype) {
    case CUDNN_DATA_HALF: return write_as<Half>(t, memory, values);
    case CUDNN_DATA_BFLOAT16: return write_as<BFloat16>(t, memory, values);
    case CUDNN_DATA_FLOAT: return write_as<float>(t, memory, values);
  }
}

float rounded(float value, CudnnRounding how) {
  switch (how) {
    case CudnnRounding::kNone: return value;
    case CudnnRounding::kBfloat16: return static_cast<float>(BFloat16(value));
    case CudnnRounding::kHalf: return static_cast<float>(Half(value));
    case CudnnRounding::kTf32: break;
  }
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  bits &= 0xffffe000u;  // 10 bits of mantissa
  std::memcpy(&value, &bits, sizeof bits);
  return value;
}

/// Products of one filter tap with a row of x: one for each of `count` neighbours in y.
struct ProductRow {
  size_t x, w, y;  // where the first one's factors and sum are
  size_t x_step;   // from one to the next
  size_t count;
};

/// f(row) for every row of products of a convolution that has any.
template <class F>
void for_each_row(const CudnnStep& s, F&& f) {
  const auto [N, C, H, W] = s.x.dims;
  const auto [K, group_c, R, S] = s.w.dims;
  const auto [unused_n, unused_k, P, Q] = s.y.dims;
  const int64_t group_k = K / (C / group_c), step = s.stride[1];
  for (int64_t n = 0; n < N; ++n)
    for (int64_t k = 0; k < K; ++k)
      for (int64_t c = 0; c < group_c; ++c)
        for (int64_t r = 0; r < R; ++r)
          for (int64_t p = 0; p < P; ++p) {
            const int64_t h = p * s.stride[0] - s.pad[0] + r * s.dilation[0];
            if (h < 0 || h >= H) continue;
            const int64_t x_row = ((n * C + k / group_k * group_c + c) * H + h) * W;
            const int64_t w_row = ((k * group_c + c) * R + r) * S;
            const int64_t y_row = ((n * K + k) * P + p) * Q;
            for (int64_t t = 0; t < S; ++t) {
              const int64_t w = t * s.dilation[1] - s.pad[1];  // of q = 0
              const int64_t first = w < 0 ? (-w + step - 1) / step : 0;
              const int64_t end = w < W ? std::min((W - 1 - w) / step + 1, Q) : 0;
              if (first >= end) continue;
              f(ProductRow{static_cast<size_t>(x_row + w + first * step),
                           static_cast<size_t>(w_row + t), static_cast<size_t>(y_row + first),
                           static_cast<size_t>(step), static_cast<size_t>(end - first)});
            }
          }
}

// Most of the time of a test on the emulated cuDNN goes into these three loops.
LATHE_UNSEEN void add_to_y(double* y, const float* x, double w, const ProductRow& row) {
  for (size_t i = 0; i < row.count; ++i) y[i] += static_cast<double>(x[i * row.x_step]) * w;
}
LATHE_UNSEEN void add_to_x(double* x, const float* y, double w, const ProductRow& row) {
  for (size_t i = 0; i < row.count; ++i) x[i * row.x_step] += static_cast<double>(y[i]) * w;
}
LATHE_UNSEEN void add_to_w(double* w, const float* x, const float* y, const ProductRow& row) {
  double sum = *w;
  for (size_t i = 0; i < row.count; ++i) sum += static_cast<double>(x[i * row.x_step]) * y[i];
  *w = sum;
}

/// Whether a factor of a convolution that is read as t may change when it is rounded.
bool changes(const CudnnTensor& t, CudnnRounding how) {
  const bool is_half = t.dtype == CUDNN_DATA_HALF && !t.is_virtual;
  return how == CudnnRounding::kBfloat16 || (how != CudnnRounding::kNone && !is_half);
}

/// f(index in x, index in t) for every element of x, to which t broadcasts.
template <class F>
void for_each_pair(const CudnnTensor& x, CudnnTensor t, F&& f) {
  int64_t step = 1;
  for (size_t d = 4; d-- > 0;) {
    const int64_t size = t.dims[d];
    t.strides[d] = size == 1 ? 0 : step;
    step *= size;
  }
  t.dims = x.dims;
  for_each_element(t, [&](size_t i, int64_t at) { f(i, static_cast<size_t>(at)); });
}

/// The loops over a row are not watched by a sanitizer; this sees what lies outside of x, w or y.
void check_row(const ProductRow& row, size_t x, size_t w, size_t y) {
  const size_t last = row.count - 1;
  LATHE_CHECK(ValueError, row.x + last * row.x_step < x && row.w < w && row.y + last < y,
              "emulated cuDNN: a convolution of ", x, " by ", w, " numbers that gives ", y,
              " leaves its tensors");
}

Values convolve(const CudnnStep& s, const Values& a, const Values& b) {
  std::vector<double> sums(static_cast<size_t>(s.outputs()[0].numel()));
  double* const to = sums.data();
  const float *const p = a.data(), *const q = b.data();
  const size_t made = sums.size(), first = a.size(), second = b.size();
  for_each_row(s, [&](const ProductRow& row) {
    switch (s.kind) {
      case CudnnStep::kForward: check_row(row, first, second, made); break;
      case CudnnStep::kBackwardData: check_row(row, made, first, second); break;
      default: check_row(row, first, made, second);
    }
    switch (s.kind) {
      case CudnnStep::kForward: return add_to_y(to + row.y, p + row.x, q[row.w], row);
      case CudnnStep::kBackwardData: return add_to_x(to + row.x, q + row.y, p[row.w], row);
      default: return add_to_w(to + row.w, p + row.x, q + row.y, row);
    }
  });
  return {sums.begin(), sums.end()};
}

Values pointwise(const CudnnStep& s, const Values& x, const Values& w) {
  Values y(x.size());
  switch (s.kind) {
    case CudnnStep::kAdd:
      for_each_pair(s.x, s.w, [&](size_t i, size_t j) { y[i] = x[i] + w[j]; });
      break;
    case CudnnStep::kSubtract:
      for_each_pair(s.x, s.w, [&](size_t i, size_t j) { y[i] = x[i] - w[j]; });
      break;
    case CudnnStep::kMultiply:
      for_each_pair(s.x, s.w, [&](size_t i, size_t j) { y[i] = x[i] * w[j]; });
      break;
    case CudnnStep::kReluBackward:  // compares as cuDNN's kernel for sm_90 does (FSETP.GEU)
      for_each_pair(s.x, s.w, [&](size_t i, size_t j) { y[i] = !(x[i] < 0) ? w[j] : 0; });
      break;
    default:
      for (size_t i = 0; i < x.size(); ++i) y[i] = x[i] < 0 ? 0 : x[i];
  }
  return y;
}

/// The sum of f(i) over the elements i of each channel, in f32 as the library's kernels have it:
/// first in rows, then over these.
template <class F>
Values channel_sums(const CudnnTensor& x, F&& f) {
  const auto [N, C, H, W] = x.dims;
  Values sums(static_cast<size_t>(C));
  size_t i = 0;
  for (int64_t n = 0; n < N; ++n)
    for (auto& sum : sums)
      for (int64_t h = 0; h < H; ++h) {
        float row = 0;
        for (int64_t w = 0; w < W; ++w) row += f(i++);
        sum += row;
      }
  return sums;
}

std::vector<Values> statistics(const CudnnStep& s, const Values& x) {
  return {channel_sums(s.x, [&](size_t i) { return x[i]; }),
          channel_sums(s.x, [&](size_t i) { return x[i] * x[i]; })};
}

std::vector<Values> norm_backward(const CudnnStep& s, const std::vector<Values>& in) {
  const Values &x = in[0], &dy = in[1], &mean = in[2], &invstd = in[3], &scale = in[4];
  const auto plane = static_cast<size_t>(s.x.dims[2] * s.x.dims[3]);
  const auto channels = static_cast<size_t>(s.x.dims[1]);
  const float count = static_cast<float>(x.size() / channels);
  Values dbias = channel_sums(s.x, [&](size_t i) { return dy[i]; });
  Values dscale = channel_sums(s.x, [&](size_t i) {
    const size_t c = i / plane % channels;
    return dy[i] * (x[i] - mean[c]) * invstd[c];
  });
  Values dy_factor(channels), x_factor(channels), constant(channels);
  for (size_t c = 0; c < channels; ++c) {
    dy_factor[c] = scale[c] * invstd[c];
    x_factor[c] = -scale[c] * invstd[c] * invstd[c] * dscale[c] / count;
    constant[c] = -dy_factor[c] * dbias[c] / count - x_factor[c] * mean[c];
  }
  return {dscale, dbias, dy_factor, x_factor, constant};
}

std::vector<Values> compute(const CudnnStep& s, const std::vector<Values>& in) {
  if (s.is_convolution()) return {convolve(s, in[0], in[1])};
  if (s.kind == CudnnStep::kStatistics) return statistics(s, in[0]);
  if (s.kind == CudnnStep::kNormBackward) return norm_backward(s, in);
  return {pointwise(s, in[0], s.kind == CudnnStep::kRelu ? in[0] : in[1])};
}

}  // namespace

std::vector<CudnnTensor> CudnnStep::inputs() const {
  switch (kind) {
    case kBackwardData: return {w, y};
    case kBackwardFilter: return {x, y};
    case kRelu:
    case kStatistics: return {x};
    case kNormBackward: {
      std::vector<CudnnTensor> all{x, w};
      all.insert(all.end(), read.begin(), read.end());
      return all;
    }
    default: return {x, w};
  }
}

std::vector<CudnnTensor> CudnnStep::outputs() const {
  switch (kind) {
    case kBackwardData: return {x};
    case kBackwardFilter: return {w};
    case kStatistics:
    case kNormBackward: return written;
    default: return {y};
  }
}

const CudnnStep& CudnnProgram::convolution() const {
  return *std::ranges::find_if(steps, &CudnnStep::is_convolution);
}

std::vector<CudnnTensor> CudnnProgram::tensors() const {
  std::vector<CudnnTensor> all;
  const auto add = [&](const CudnnTensor& t) {
    const bool known = std::ranges::find(all, t.uid, &CudnnTensor::uid) != all.end();
    if (!t.is_virtual && !known) all.push_back(t);
  };
  for (const CudnnStep& step : steps) {
    std::ranges::for_each(step.inputs(), add);
    std::ranges::for_each(step.outputs(), add);
  }
  return all;
}

void CudnnProgram::run(const std::map<int64_t, void*>& memory) const {
  std::map<int64_t, Values> values;
  for (const CudnnStep& step : steps) {
    std::vector<Values> in;
    for (const CudnnTensor& t : step.inputs()) {
      const auto made = values.find(t.uid);
      Values& v = in.emplace_back(made != values.end() ? made->second : read(t, memory.at(t.uid)));
      if (!step.is_convolution() || !changes(t, rounding)) continue;
      for (float& value : v) value = rounded(value, rounding);
    }
    std::vector<Values> out = compute(step, in);
    const std::vector<CudnnTensor> outputs = step.outputs();
    for (size_t k = 0; k < out.size(); ++k) {
      if (!outputs[k].is_virtual) write(outputs[k], memory.at(outputs[k].uid), out[k]);
      values[outputs[k].uid] = std::move(out[k]);
    }
  }
}

/// The reason why a step that is no convolution does not fit together; "" if it does.
static const char* channel_shape_problem(const CudnnStep& s) {
  const auto per_channel = [&](const CudnnTensor& t) {
    return t.dims == std::array<int64_t, 4>{1, s.x.dims[1], 1, 1};
  };
  if (!std::ranges::all_of(s.read, per_channel) || !std::ranges::all_of(s.written, per_channel)) {
    return "there is not one number per channel";
  }
  const bool pair = s.kind == CudnnStep::kNormBackward;
  return pair && s.x.dims != s.w.dims ? "x and dy have different sizes" : "";
}

const char* cudnn_shape_problem(const CudnnStep& s) {
  if (s.kind >= CudnnStep::kStatistics) return channel_shape_problem(s);
  if (!s.is_convolution()) {
    if (s.x.dims != s.y.dims) return "a pointwise operation changes no sizes";
    for (size_t d = 0; s.kind != CudnnStep::kRelu && d < 4; ++d) {
      if (s.w.dims[d] != 1 && s.w.dims[d] != s.x.dims[d]) return "b does not broadcast to x";
    }
    return "";
  }
  const int64_t groups = s.x.dims[1] / s.w.dims[1];
  if (s.x.dims[1] % s.w.dims[1] != 0) return "the channels of x are no multiple of those of w";
  if (s.w.dims[0] % groups != 0) return "the filters do not divide into the groups";
  if (s.y.dims[0] != s.x.dims[0] || s.y.dims[1] != s.w.dims[0]) {
    return "y is no batch of planes, one per filter";
  }
  for (size_t d = 0; d < 2; ++d) {
    const int64_t reach = s.dilation[d] * (s.w.dims[d + 2] - 1) + 1;
    const int64_t room = s.x.dims[d + 2] + 2 * s.pad[d] - reach;
    if (room < 0) return "the filter is larger than the padded image";
    if (s.y.dims[d + 2] != room / s.stride[d] + 1) return "y has not the size of the output";
  }
  return "";
}

}  // namespace lathe::emulation
