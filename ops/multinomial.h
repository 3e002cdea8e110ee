// Random choices with given probabilities (multinomial.cpp, made of other ops).
#pragma once

#include "lathe/core/random/generator.h"
#include "lathe/core/tensor.h"

namespace lathe {

struct MultinomialOptions {
  bool replacement = false;  // true: a number can be drawn several times
};
/// Draws `count` class numbers per row, with probabilities proportional to the row's weights. A
/// class of weight 0 is never drawn. Waits for the device to check the weights.
///   weights  [C] or [N,C]; rows need not sum to 1   →  i64 [count] or [N,count]
/// multinomial computes in f64. With replacement, each draw takes 48 random bits; without
/// replacement, each class of each row takes 48 random bits.
/// dtypes: floats.   grad: none.
/// throws: ShapeError, DTypeError; ValueError for one of these:
///   - a weight that is negative or not finite
///   - a row without a positive weight
///   - without replacement, a row with fewer positive weights than `count`
/// ref: Efraimidis and Spirakis 2006, doi:10.1016/j.ipl.2005.11.003, for draws without replacement.
LATHE_API Tensor multinomial(const Tensor& weights, int64_t count, MultinomialOptions options = {},
                             Generator* generator = nullptr);

}  // namespace lathe
