// The order of sort, argsort and topk (contract: sort.h), shared by host and device.
#pragma once

#include "lathe/core/config.h"

namespace lathe {

/// An element and its place in its line.
template <class A, class Place>
struct SortElement {
  A value;
  Place at;
};

/// A total order: NaN above all numbers, equal values by their place. So every sorting algorithm
/// gives the stable order.
template <class A, class Place>
LATHE_HD bool comes_first(const SortElement<A, Place>& a, const SortElement<A, Place>& b,
                          bool descending) {
  const bool a_nan = a.value != a.value, b_nan = b.value != b.value;
  if (a_nan != b_nan) return a_nan == descending;
  if (!a_nan && a.value != b.value) return (a.value > b.value) == descending;
  return a.at < b.at;
}

}  // namespace lathe
