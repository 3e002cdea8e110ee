// The linear maps along one axis of pooling and upsampling, and their adjoint. Contracts:
// axis_map.h.
#include "lathe/ops/axis_map.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <new>

#include "lathe/core/checked_size.h"

namespace lathe {

namespace {

/// An empty map with room for `outputs` outputs of `taps` weights in all. A map that does not fit
/// memory fails here, before its first output is computed.
AxisMap with_room(int64_t in, int64_t outputs, CheckedSize taps) {
  const int64_t bytes =
      ((CheckedSize(outputs) * 3 + taps + 1) * 8)
          .value_or_throw<OutOfMemoryError>("axis map: ", outputs, " outputs are too many");
  AxisMap map{in, {}, {}, {}, {}};
  try {
    if (bytes > kAddressSpaceBytes) throw std::bad_alloc();
    map.begin.reserve(static_cast<size_t>(outputs));
    map.offset.reserve(static_cast<size_t>(outputs) + 1);
    map.divisor.reserve(static_cast<size_t>(outputs));
    map.weight.reserve(static_cast<size_t>(taps.value_or_throw()));
  } catch (const std::bad_alloc&) {
    LATHE_FAIL(OutOfMemoryError, "axis map: no memory for ", outputs, " outputs (", bytes,
               " bytes)");
  }
  map.offset.push_back(0);
  return map;
}

/// Adds one output.
void append(AxisMap& map, int64_t begin, std::initializer_list<double> weights) {
  map.begin.push_back(begin);
  map.weight.insert(map.weight.end(), weights);
  map.offset.push_back(static_cast<int64_t>(map.weight.size()));
  map.divisor.push_back(1.0);
}

/// Adds one output of `count` equal weights.
void append_equal(AxisMap& map, int64_t begin, int64_t count, double weight, int64_t divisor) {
  map.begin.push_back(begin);
  map.weight.insert(map.weight.end(), static_cast<size_t>(count), weight);
  map.offset.push_back(static_cast<int64_t>(map.weight.size()));
  map.divisor.push_back(static_cast<double>(divisor));
}

/// One averaging window: [start, stop) with the padding, [begin, end) without.
struct PoolExtent {
  int64_t start, stop, begin, end;
};

PoolExtent pool_extent_of(int64_t in, const Window1d& w, int64_t i) {
  const int64_t start = i * w.stride - w.pad, last = in + w.pad;
  const int64_t stop = start > last - w.kernel ? last : start + w.kernel;
  const int64_t begin = std::max<int64_t>(start, 0);
  return {start, stop, begin, std::max(begin, std::min(stop, in))};
}

}  // namespace

int64_t pooled_size(int64_t in, const Window1d& w) {
  const CheckedSize reach = CheckedSize(w.dilation) * (w.kernel - 1) + 1;
  if (reach.overflowed()) return 0;  // pad is at most half the kernel, too little to make up for it
  const int64_t room = in - (reach.value_or_throw() - 2 * w.pad);
  if (room < 0) return w.ceil_mode && room > -w.stride ? 1 : 0;
  const int64_t rest = room % w.stride;
  const bool one_more = w.ceil_mode && rest > 0 && w.stride - rest < in + w.pad - room;
  return room / w.stride + 1 + (one_more ? 1 : 0);
}

AxisMap average_map(int64_t in, const Window1d& w, bool count_pad) {
  const int64_t out = pooled_size(in, w);
  CheckedSize taps = 0;
  for (int64_t i = 0; i < out; ++i) {
    const PoolExtent e = pool_extent_of(in, w, i);
    taps += e.end - e.begin;
  }
  AxisMap map = with_room(in, out, taps);
  for (int64_t i = 0; i < out; ++i) {
    const PoolExtent e = pool_extent_of(in, w, i);
    append_equal(map, e.begin, e.end - e.begin, 1.0,
                 count_pad ? e.stop - e.start : std::min(e.stop, in) - e.begin);
  }
  return map;
}

AxisMap sum_map(int64_t in, const Window1d& w, int64_t divisor) {
  AxisMap map = average_map(in, w, true);
  std::fill(map.divisor.begin(), map.divisor.end(), static_cast<double>(divisor));
  return map;
}

AxisMap adaptive_average_map(int64_t in, int64_t out) {
  // Neighbouring windows share at most one input.
  AxisMap map = with_room(in, out, CheckedSize(in) + out);
  // i * in = begin * out + rest is updated step by step, because the product itself may overflow.
  int64_t begin = 0, rest = 0;
  for (int64_t i = 0; i < out; ++i) {
    int64_t next = begin + in / out, next_rest = rest + in % out;
    if (next_rest >= out) {
      ++next;
      next_rest -= out;
    }
    const int64_t end = next + (next_rest > 0 ? 1 : 0);
    append_equal(map, begin, end - begin, 1.0, end - begin);
    begin = next;
    rest = next_rest;
  }
  return map;
}

AxisMap nearest_map(int64_t in, int64_t out, double step, double shift) {
  AxisMap map = with_room(in, out, out);
  for (int64_t i = 0; i < out; ++i) {
    const auto at = static_cast<int64_t>(std::floor((static_cast<double>(i) + shift) * step));
    append(map, std::min(at, in - 1), {1.0});
  }
  return map;
}

AxisMap linear_map(int64_t in, int64_t out, double step, bool align_corners) {
  AxisMap map = with_room(in, out, CheckedSize(out) * 2);
  if (align_corners) {
    step = out > 1 ? static_cast<double>(in - 1) / static_cast<double>(out - 1) : 0.0;
  }
  for (int64_t i = 0; i < out; ++i) {
    const auto x = static_cast<double>(i);
    const double place = align_corners ? x * step : std::max((x + 0.5) * step - 0.5, 0.0);
    const int64_t left = std::min(static_cast<int64_t>(place), in - 1);
    const double share = std::min(place - static_cast<double>(left), 1.0);
    if (left + 1 < in) {
      append(map, left, {1.0 - share, share});
    } else {
      append(map, left, {1.0});
    }
  }
  return map;
}

AxisMap cubic_map(int64_t in, int64_t out, double step, bool align_corners) {
  constexpr double a = -0.75;
  const auto near = [](double d) { return ((a + 2) * d - (a + 3)) * d * d + 1; };       // d <= 1
  const auto far = [](double d) { return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a; };  // 1 < d < 2
  AxisMap map = with_room(in, out, CheckedSize(out) * 4);
  if (align_corners) {
    step = out > 1 ? static_cast<double>(in - 1) / static_cast<double>(out - 1) : 0.0;
  }
  for (int64_t i = 0; i < out; ++i) {
    const auto x = static_cast<double>(i);
    const double place = align_corners ? x * step : (x + 0.5) * step - 0.5;
    const double whole = std::floor(place), t = place - whole;
    const double weights[] = {far(t + 1), near(t), near(1 - t), far(2 - t)};
    const auto inside = [&](int64_t k) {  // the input of the k-th weight
      return std::clamp<int64_t>(static_cast<int64_t>(whole) - 1 + k, 0, in - 1);
    };
    const int64_t begin = inside(0);
    map.begin.push_back(begin);
    map.weight.resize(map.weight.size() + static_cast<size_t>(inside(3) - begin + 1));
    double* first = map.weight.data() + map.offset.back();
    for (int64_t k = 0; k < 4; ++k) first[inside(k) - begin] += weights[k];
    map.offset.push_back(static_cast<int64_t>(map.weight.size()));
    map.divisor.push_back(1.0);
  }
  return map;
}

AxisMap transposed(const AxisMap& map) {
  // In every map made here the outputs that use an input are neighbours. Outputs among them that do
  // not use it get weight 0.
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
  // For an unused input first is beyond last.
  const auto taps = [&](size_t s) { return std::max<int64_t>(last[s] - first[s] + 1, 0); };
  CheckedSize total = 0;
  for (size_t s = 0; s < n; ++s) total += taps(s);
  AxisMap result = with_room(map.out(), map.in, total);
  for (size_t s = 0; s < n; ++s) {
    append_equal(result, taps(s) > 0 ? first[s] : 0, taps(s), 0.0, 1);
  }
  each([&](size_t source, int64_t i, double weight) {
    result.weight[static_cast<size_t>(result.offset[source] + i - first[source])] += weight;
  });
  return result;
}

}  // namespace lathe
