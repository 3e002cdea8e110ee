// Squared distances for processors with AVX-512. Nothing else is here, because
// all that distance_avx512.cpp includes is compiled for them.
#pragma once

#include <cstdint>

namespace lathe::cpu {

inline constexpr int64_t kDistanceBand = 64;  // rows of x2 in a band
inline constexpr int64_t kDistanceTile = 6;   // rows of x1 that meet a band at a time

/// squares[i * stride + c] = |a_i|^2 + |b_c|^2 - 2 a_i b_c, for the rows a_i of a [kDistanceTile,d]
/// and the columns b_c of band [d,kDistanceBand]; their squared norms are given.
///   near[i]  bit c is set where the result cannot be used: digits cancelled (it is less than a
///            quarter of the norms' sum), or a number is NaN or too large
void squares_by_product_avx512(float* squares, int64_t stride, uint64_t* near, const float* a,
                               const float* a_norms, const float* band, const float* band_norms,
                               int64_t d);

// |a - b|^2 and |a|^2 of rows of d numbers.
float square_apart_avx512(const float* a, const float* b, int64_t d);
float square_norm_avx512(const float* a, int64_t d);

}  // namespace lathe::cpu
