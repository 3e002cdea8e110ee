// Products of bf16 in tile registers: amx_kernels_amx.cpp for processors with Intel's Advanced
// Matrix Extensions, amx_kernels_cpu.cpp for all others. Used by the weight gradient of
// convolutions (conv/cpu/conv2d_amx_cpu.cpp) and by attention (attention_bf16_cpu.cpp).
//
// A tile register holds 16 rows of 64 bytes. TDPBF16PS multiplies a tile of 16 rows x 32 numbers by
// one of 16 pairs of rows x 16 columns, in which the two numbers of a pair are neighbours, and adds
// the products to a tile of 16 x 16 sums in f32 (Intel 64 and IA-32 Architectures Software
// Developer's Manual, volume 2).
#pragma once

#include <cstdint>

namespace lathe::cpu {

inline constexpr int64_t kAmxTerms = 32;  // terms that one instruction sums
inline constexpr int64_t kAmxBlock = 32;  // rows and columns of sums: two tiles each way

/// sums[rows, 32] (+)= a b, with `steps` times 32 terms in each sum.
struct AmxProduct {
  float* sums;        // rows one after another
  int64_t rows;       // as begin() was told
  const uint16_t* a;  // element (row, term) at a[row * a_row + term]
  int64_t a_row;
  const uint16_t* b;  // element (term, column) at b[term / 2 * 64 + column * 2 + term % 2]
  int64_t steps;
  bool add;  // to what sums holds
};

/// Numbers are bf16, as bits. `rows` are 32 pointers, each to n neighbouring numbers.
struct AmxKernels {
  /// to[c * to_step + i] = rows[i][c], 0 for c from n to `padded`, a multiple of 16: rows of a
  /// product's a, of which c is the row and i the term.
  void (*transpose)(uint16_t* to, int64_t to_step, const uint16_t* const* rows, int64_t n,
                    int64_t padded);
  /// to[c / 32 * block_step + i / 2 * 64 + c % 32 * 2 + i % 2] = rows[i][c], and 0 up to the next
  /// multiple of 32: a product's b, of which i is the term and c the column.
  void (*interleave)(uint16_t* to, int64_t block_step, const uint16_t* const* rows, int64_t n);
  /// to[c / 2 * 64 + i * 2 + c % 2] = rows[i][c], and 0 up to the next multiple of 32: a product's
  /// b, of which c is the term and i the column.
  void (*columns)(uint16_t* to, const uint16_t* const* rows, int64_t n);
  /// Before products of 1 to 32 rows, on the thread that computes them.
  void (*begin)(int64_t rows);
  void (*multiply)(const AmxProduct& product);
  /// After the last product of a thread.
  void (*end)();
};

/// While it lives, the calling thread can multiply 1 to 32 rows.
class AmxScope {
 public:
  AmxScope(const AmxKernels& kernels, int64_t rows) : kernels_(kernels) { kernels_.begin(rows); }
  ~AmxScope() { kernels_.end(); }
  AmxScope(const AmxScope&) = delete;
  AmxScope& operator=(const AmxScope&) = delete;

 private:
  const AmxKernels& kernels_;
};

/// Plain loops.
AmxKernels amx_kernels_base();
/// The instructions. For x86-64 alone, where has_tile_registers().
AmxKernels amx_kernels_amx();
/// The faster of the two that run here.
const AmxKernels& amx_kernels();
/// True if processor and operating system give this process tile registers, and oneDNN may use them
/// (ONEDNN_MAX_CPU_ISA). False in a build without oneDNN.
bool has_tile_registers() noexcept;

}  // namespace lathe::cpu
