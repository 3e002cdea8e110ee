// Random choices with given probabilities (multinomial.cpp, made of other ops).
#pragma once

#include "lathe/core/random/generator.h"
#include "lathe/core/tensor.h"

namespace lathe {

struct MultinomialOptions {
  bool replacement = false;  // true: a number can be drawn several times
};
/// `count` numbers of classes per row, drawn with probabilities in proportion to the row; a class
/// of weight 0 is never drawn. Waits for the device, to check the weights.
///   weights  [C] or [N,C]; rows need not sum to 1   →  i64 [count] or [N,count]
/// Computed in f64, from 48 random bits per draw, or per class without replacement.
/// dtypes: floats.   grad: none.
/// throws: ValueError for a weight that is negative or not finite, a row of zeros, or, without
/// replacement, fewer classes of positive weight than draws; ShapeError, DTypeError.
/// ref: Efraimidis and Spirakis 2006, doi:10.1016/j.ipl.2005.11.003, for draws without replacement.
LATHE_API Tensor multinomial(const Tensor& weights, int64_t count, MultinomialOptions options = {},
                             Generator* generator = nullptr);

}  // namespace lathe
