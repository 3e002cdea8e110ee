// Execution of an operation graph of the emulated cuDNN; see cudnn_program.h.
#include "cudnn_program.h"

#include <algorithm>
#include <cstring>

#include "lathe/core/half.h"

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
    case CudnnRounding::kTf32: break;
  }
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  bits &= 0xffffe000u;  // 10 bits of mantissa
  std::memcpy(&value, &bits, sizeof bits);
  return value;
}

/// f(index in x, index in w, index in y) for every product of a convolution.
template <class F>
void for_each_product(const CudnnStep& s, F&& f) {
  const auto [N, C, H, W] = s.x.dims;
  const auto [K, group_c, R, S] = s.w.dims;
  const auto [unused_n, unused_k, P, Q] = s.y.dims;
  const int64_t group_k = K / (C / group_c);
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
            for (int64_t t = 0; t < S; ++t)
              for (int64_t q = 0; q < Q; ++q) {
                const int64_t w = q * s.stride[1] - s.pad[1] + t * s.dilation[1];
                if (w < 0 || w >= W) continue;
                f(static_cast<size_t>(x_row + w), static_cast<size_t>(w_row + t),
                  static_cast<size_t>(y_row + q));
              }
          }
}

Values compute(const CudnnStep& s, const Values& x, const Values& w, const Values& y) {
  std::vector<double> sums(static_cast<size_t>(s.output().numel()));
  switch (s.kind) {
    case CudnnStep::kForward:
      for_each_product(s, [&](size_t i, size_t j, size_t o) { sums[o] += double(x[i]) * w[j]; });
      break;
    case CudnnStep::kBackwardData:
      for_each_product(s, [&](size_t i, size_t j, size_t o) { sums[i] += double(y[o]) * w[j]; });
      break;
    case CudnnStep::kBackwardFilter:
      for_each_product(s, [&](size_t i, size_t j, size_t o) { sums[j] += double(x[i]) * y[o]; });
      break;
    case CudnnStep::kAdd: {
      CudnnTensor b = s.w;  // w broadcasts to x
      int64_t step = 1;
      for (size_t d = 4; d-- > 0; step *= s.w.dims[d]) b.strides[d] = s.w.dims[d] == 1 ? 0 : step;
      b.dims = s.x.dims;
      for_each_element(b, [&](size_t i, int64_t at) { sums[i] = x[i] + w[size_t(at)]; });
      break;
    }
  }
  return {sums.begin(), sums.end()};
}

}  // namespace

std::vector<CudnnTensor> CudnnProgram::tensors() const {
  std::vector<CudnnTensor> all;
  for (const CudnnStep& step : steps) {
    for (const CudnnTensor* t : {&step.x, &step.w, &step.y}) {
      const bool known = std::ranges::find(all, t->uid, &CudnnTensor::uid) != all.end();
      if (!t->is_virtual && !known) all.push_back(*t);
    }
  }
  return all;
}

void CudnnProgram::run(const std::map<int64_t, void*>& memory) const {
  std::map<int64_t, Values> values;
  const auto get = [&](const CudnnTensor& t, const CudnnStep& step) -> Values {
    if (t.uid == step.output().uid) return {};
    const auto made = values.find(t.uid);
    Values v = made != values.end() ? made->second : read(t, memory.at(t.uid));
    if (step.is_convolution()) {
      for (float& value : v) value = rounded(value, rounding);
    }
    return v;
  };
  for (const CudnnStep& step : steps) {
    Values result = compute(step, get(step.x, step), get(step.w, step), get(step.y, step));
    if (!step.output().is_virtual) {
      write(step.output(), memory.at(step.output().uid), result);
    }
    values[step.output().uid] = std::move(result);
  }
}

const char* cudnn_shape_problem(const CudnnStep& s) {
  if (!s.is_convolution()) {
    if (s.x.dims != s.y.dims) return "a pointwise operation changes no sizes";
    for (size_t d = 0; d < 4; ++d) {
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
