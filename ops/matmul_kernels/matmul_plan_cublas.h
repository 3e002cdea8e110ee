// A matrix product of cuBLASLt: its description and its algorithms (matmul_plan_cublas.cpp). For
// *_cublas.cpp files only.
//
// cuBLAS reads memory column by column, so to cuBLAS a row-major matrix is its own transpose.
// Everything here is in cuBLAS's terms: result[rows,cols] = left[rows,terms] * right[terms,cols],
// with columns `ld` elements apart.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lathe/core/dtype.h"
#include "lathe/core/gpu/cublas_handle.h"

namespace lathe::cuda {

/// How a factor or the result lies in memory.
struct MatmulLayout {
  bool transposed = false;  // `ld` is the distance between rows instead of columns
  int64_t ld = 0, batch_step = 0;
  int64_t alignment = 0;  // of its address in bytes: a power of two

  bool operator==(const MatmulLayout&) const = default;
};

/// What the same kernel does besides multiplying, before it rounds.
enum class MatmulEpilogue : uint8_t {
  kNone,
  kRelu,       // relu of the result
  kGelu,       // gelu of the result, in its tanh approximation
  kReluGrad,   // the result times relu's derivative at another product's sums, as `kept` tells
  kGeluGrad,   // the same for gelu
  kRightSums,  // writes bias[col] = sum over right's column: the gradient of a bias
};

/// What a product reads and writes besides its factors and its result, aligned to 16 bytes.
struct MatmulAddresses {
  void* bias = nullptr;
  void* kept = nullptr;
};

/// Everything that decides which algorithm computes it fastest, or at all.
struct MatmulKey {
  DType dtype = kF32;
  bool tf32 = false;           // f32 factors may be rounded to TF32
  bool deterministic = false;  // only the first algorithm is used, so a failure changes no bits
  int64_t rows = 0, cols = 0, terms = 0, batch = 1;
  MatmulLayout left, right, result;
  MatmulEpilogue epilogue = MatmulEpilogue::kNone;
  // With kNone, kRelu, kGelu: adds bias[row] to every column first. With kReluGrad, kGeluGrad:
  // writes bias[row] = sum over the result's row, the gradient of a bias.
  bool bias = false;
  // The distance between columns of `kept`: in bits for a relu, in elements for a gelu. 0 if kRelu
  // or kGelu keeps nothing.
  int64_t kept_ld = 0;
  int device = 0;

  bool operator==(const MatmulKey&) const = default;
};

/// The distance that cuBLAS wants between the columns of what kRelu and kGelu keep of `rows` rows.
int64_t kept_ld(MatmulEpilogue epilogue, int64_t rows);

struct MatmulKeyHash {
  size_t operator()(const MatmulKey& key) const noexcept;
};

/// A product ready to run. For one thread.
class MatmulPlan {
 public:
  /// throws: CudaError if cuBLAS has no algorithm; whatever cublas::check throws.
  explicit MatmulPlan(const MatmulKey& key);

  /// Queues the product on the current stream. `addresses` holds what the epilogue reads or writes,
  /// null otherwise. The workspace comes from the caching allocator. An algorithm that fails is
  /// dropped and the next one is taken. If memory is short, the next one runs for this call only.
  /// If all have failed, the next call may try them again, because the fault was probably not
  /// theirs. A deterministic key runs only the first and passes on its error.
  /// throws: CudaError or OutOfMemoryError if none could run (or may).
  void execute(const void* left, const void* right, void* result, const MatmulAddresses& addresses);

 private:
  void describe(const MatmulKey& key);
  void tell(const MatmulAddresses& addresses);
  void find_algorithms(const MatmulKey& key);
  void run(const cublasLtMatmulHeuristicResult_t& how, const void* left, const void* right,
           void* result) const;

  struct Algorithm {
    cublasLtMatmulHeuristicResult_t how;
    bool failed = false;
  };

  Device device_;
  bool is_f64_, is_deterministic_;
  cublas::MatmulDescriptor product_;
  cublas::MatrixLayout left_, right_, result_;
  MatmulAddresses told_;               // the addresses that product_ was last given
  std::vector<Algorithm> algorithms_;  // the best first
};

}  // namespace lathe::cuda
