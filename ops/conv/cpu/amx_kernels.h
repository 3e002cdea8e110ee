// The inner loops of the weight gradient in tile registers (conv2d_amx_cpu.h): amx_kernels_amx.cpp
// for processors with Intel's Advanced Matrix Extensions, amx_kernels_cpu.cpp for all others.
//
// A tile register holds 16 rows of 64 bytes. TDPBF16PS multiplies a tile of 16 rows x 32 numbers by
// one of 16 pairs of rows x 16 columns, in which the two numbers of a pair are neighbours, and adds
// the products to a tile of 16 x 16 sums in f32 (Intel 64 and IA-32 Architectures Software
// Developer's Manual, volume 2).
#pragma once

#include <cstdint>

namespace lathe::cpu {

inline constexpr int64_t kAmxPixels = 32;  // pixels that one instruction sums over
inline constexpr int64_t kAmxBlock = 32;   // rows and columns of sums: two tiles each way

/// sums[rows, 32] (+)= the sum over `steps` times 32 pixels of a * b.
struct AmxProduct {
  float* sums;        // rows one after another
  int64_t rows;       // as begin() was told
  const uint16_t* a;  // element (row, pixel) at a[row * a_row + pixel]
  int64_t a_row;
  const uint16_t* b;  // element (pixel, column) at b[pixel / 2 * 64 + column * 2 + pixel % 2]
  int64_t steps;
  bool add;  // to what sums holds
};

/// Numbers are bf16, as bits. `pixels` are 32 pointers, each to `channels` neighbouring channels.
struct AmxKernels {
  /// to[c * to_step + i] = pixels[i][c], 0 for c from channels to `padded`, a multiple of 16.
  void (*transpose)(uint16_t* to, int64_t to_step, const uint16_t* const* pixels, int64_t channels,
                    int64_t padded);
  /// to[c / 32 * block_step + i / 2 * 64 + c % 32 * 2 + i % 2] = pixels[i][c], and 0 up to the next
  /// multiple of 32 channels.
  void (*interleave)(uint16_t* to, int64_t block_step, const uint16_t* const* pixels,
                     int64_t channels);
  /// Before products of 1 to 32 rows, on the thread that computes them.
  void (*begin)(int64_t rows);
  void (*multiply)(const AmxProduct& product);
  /// After the last product of a thread.
  void (*end)();
};

/// Plain loops.
AmxKernels amx_kernels_base();
/// The instructions. Call it on x86-64 alone, where the processor has them.
AmxKernels amx_kernels_amx();
/// Asks the operating system for the tile registers (Linux: arch_prctl). False if it refuses.
bool request_tile_registers() noexcept;

}  // namespace lathe::cpu
