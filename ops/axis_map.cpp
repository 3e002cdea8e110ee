// Linear maps along one axis; see axis_map.h.
#include "lathe/ops/axis_map.h"

#include <algorithm>
#include <cmath>

namespace lathe {

namespace {

/// Adds one output.
void append(AxisMap& map, int64_t begin, const std::vector<double>& weights, double divisor) {
  if (map.offset.empty()) map.offset.push_back(0);
  map.begin.push_back(begin);
  map.weight.insert(map.weight.end(), weights.begin(), weights.end());
  map.offset.push_back(static_cast<int64_t>(map.weight.size()));
  map.divisor.push_back(divisor);
}

void append_mean(AxisMap& map, int64_t begin, int64_t end, int64_t divisor) {
  append(map, begin, std::vector<double>(static_cast<size_t>(end - begin), 1.0),
         static_cast<double>(divisor));
}

}  // namespace

int64_t pooled_size(int64_t in, const Window1d& w) {
  const int64_t room = in + 2 * w.pad - w.dilation * (w.kernel - 1) - 1;
  if (room < 0) return 0;
  int64_t out = (room + (w.ceil_mode ? w.stride - 1 : 0)) / w.stride + 1;
  if (w.ceil_mode && (out - 1) * w.stride >= in + w.pad) --out;
  return out;
}

AxisMap average_map(int64_t in, const Window1d& w, bool count_pad) {
  AxisMap map{in, {}, {}, {}, {}};
  const int64_t out = pooled_size(in, w);
  for (int64_t i = 0; i < out; ++i) {
    const int64_t start = i * w.stride - w.pad;
    const int64_t stop = std::min(start + w.kernel, in + w.pad);
    const int64_t begin = std::max<int64_t>(start, 0), end = std::min(stop, in);
    append_mean(map, begin, std::max(begin, end), count_pad ? stop - start : end - begin);
  }
  return map;
}

AxisMap adaptive_average_map(int64_t in, int64_t out) {
  AxisMap map{in, {}, {}, {}, {}};
  for (int64_t i = 0; i < out; ++i) {
    const int64_t begin = i * in / out, end = ((i + 1) * in + out - 1) / out;
    append_mean(map, begin, end, end - begin);
  }
  return map;
}

AxisMap nearest_map(int64_t in, int64_t out, double step) {
  AxisMap map{in, {}, {}, {}, {}};
  for (int64_t i = 0; i < out; ++i) {
    const auto at = static_cast<int64_t>(std::floor(static_cast<double>(i) * step));
    append(map, std::min(at, in - 1), {1.0}, 1.0);
  }
  return map;
}

AxisMap linear_map(int64_t in, int64_t out, double step, bool align_corners) {
  AxisMap map{in, {}, {}, {}, {}};
  if (align_corners) {
    step = out > 1 ? static_cast<double>(in - 1) / static_cast<double>(out - 1) : 0.0;
  }
  for (int64_t i = 0; i < out; ++i) {
    const auto x = static_cast<double>(i);
    const double place = align_corners ? x * step : std::max((x + 0.5) * step - 0.5, 0.0);
    const int64_t left = std::min(static_cast<int64_t>(place), in - 1);
    const double share = std::min(place - static_cast<double>(left), 1.0);
    if (left + 1 < in) {
      append(map, left, {1.0 - share, share}, 1.0);
    } else {
      append(map, left, {1.0}, 1.0);
    }
  }
  return map;
}

AxisMap transposed(const AxisMap& map) {
  // The outputs that use an input lie side by side in every map made here; those between that do
  // not get weight 0.
  const auto n = static_cast<size_t>(map.in);
  std::vector<int64_t> first(n, map.out()), last(n, -1);
  const auto each = [&](auto f) {
    for (int64_t i = 0; i < map.out(); ++i) {
      const auto u = static_cast<size_t>(i);
      for (int64_t k = 0; k < map.taps(i); ++k) {
        f(static_cast<size_t>(map.begin[u] + k), i,
          map.weight[static_cast<size_t>(map.offset[u] + k)] / map.divisor[u]);
      }
    }
  };
  each([&](size_t source, int64_t i, double) {
    first[source] = std::min(first[source], i);
    last[source] = std::max(last[source], i);
  });
  AxisMap result{map.out(), {}, {}, {}, {}};
  for (size_t s = 0; s < n; ++s) {
    const bool used = last[s] >= 0;
    append(result, used ? first[s] : 0,
           std::vector<double>(static_cast<size_t>(used ? last[s] - first[s] + 1 : 0), 0.0), 1.0);
  }
  each([&](size_t source, int64_t i, double weight) {
    result.weight[static_cast<size_t>(result.offset[source] + i - first[source])] += weight;
  });
  return result;
}

}  // namespace lathe
