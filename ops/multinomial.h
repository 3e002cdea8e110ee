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
/// Computed in f64 from 48 random bits per draw; without replacement, from 48 per class.
/// dtypes: floats.   grad: none.
/// throws: ValueError for a weight that is negative or not finite, and for a row of zeros; without
/// replacement also if a row has fewer positive weights than draws; ShapeError, DTypeError.
/// ref: Efraimidis and Spirakis 2006, doi:10.1016/j.ipl.2005.11.003, for draws without replacement.
LATHE_API Tensor multinomial(const Tensor& weights, int64_t count, MultinomialOptions options = {},
                             Generator* generator = nullptr);

}  // namespace lathe
