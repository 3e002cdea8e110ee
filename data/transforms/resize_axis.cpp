// The weights of one axis, and the search for short weights that give the same bytes.
#include "lathe/data/transforms/resize_axis.h"

namespace lathe::data {
namespace {

bool equal_for_all_bytes(int16_t short_weight, int32_t weight) {
  int differences = 0;
  for (int32_t d = -255; d <= 255; ++d)
    differences += short_product(static_cast<int16_t>(d), short_weight) !=
                   (d * weight + kWeightHalf) >> kWeightBits;
  return differences == 0;
}

int16_t short_weight_of(int32_t weight) {
  const int32_t nearest = weight >> (kWeightBits - 15);
  for (const int32_t s : {nearest, nearest + 1, nearest - 1})
    if (s > 0 && s <= INT16_MAX && equal_for_all_bytes(static_cast<int16_t>(s), weight))
      return static_cast<int16_t>(s);
  return 0;
}

}  // namespace

void ResizeAxis::find_short_weights() {
  for (int64_t x = 0; x < out; ++x) {
    const int32_t* pair = weights.data() + x * stride;
    const bool is_pair = count[static_cast<size_t>(x)] == 2 && pair[0] + pair[1] == kWeightOne;
    short_weights.push_back(is_pair ? short_weight_of(pair[0]) : int16_t{0});
  }
}

void ResizeAxis::set(int32_t in_pixels, int32_t out_pixels) {
  in = in_pixels;
  out = out_pixels;
  const Triangle triangle = Triangle::of(in, out);
  stride = 2 * static_cast<int32_t>(triangle.support) + 3;
  const auto n = static_cast<size_t>(out);
  first.assign(n, 0);
  count.assign(n, 0);
  weights.assign(n * static_cast<size_t>(stride), 0);
  short_weights.clear();
  for (int32_t x = 0; x < out; ++x) {
    int32_t from = triangle.first(x), to = triangle.last(x);
    const double total = triangle.total(x);
    const auto weight = [&](int32_t k) { return triangle.weight(x, k, total); };
    while (to - from > 1 && weight(to - 1) == 0) --to;
    while (to - from > 1 && weight(from) == 0) ++from;
    first[static_cast<size_t>(x)] = from;
    count[static_cast<size_t>(x)] = to - from;
    int32_t* row = weights.data() + int64_t{x} * stride;
    for (int32_t k = from; k < to; ++k) row[k - from] = weight(k);
  }
}

}  // namespace lathe::data
