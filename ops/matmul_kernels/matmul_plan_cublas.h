// A matrix product of cuBLASLt, described and with its algorithms chosen (matmul_plan_cublas.cpp).
// For *_cublas.cpp.
//
// cuBLAS reads memory column by column, so a row-major matrix is its own transpose to it.
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
  bool transposed = false;  // rows are `ld` apart, and not columns
  int64_t ld = 0, batch_step = 0;
  int64_t alignment = 0;  // of its address in bytes: a power of two

  bool operator==(const MatmulLayout&) const = default;
};

/// What the same kernel does besides multiplying, before rounding.
enum class MatmulEpilogue : uint8_t {
  kNone,
  kRelu,       // the result's elements
  kGelu,       // the same, gelu's tanh approximation
  kReluGrad,   // times the derivative at the sums of another product, of which it reads `kept`
  kGeluGrad,   // the same
  kRightSums,  // writes bias[col] = sum over right's column: a bias's gradient
};

/// What a product reads and writes beside its factors and its result, aligned to 16 bytes.
struct MatmulAddresses {
  void* bias = nullptr;
  void* kept = nullptr;
};

/// Everything that decides which algorithm computes it fastest, or at all.
struct MatmulKey {
  DType dtype = kF32;
  bool tf32 = false;           // f32 factors may be rounded to TF32
  bool deterministic = false;  // the first algorithm or none: what failed before changes no bits
  int64_t rows = 0, cols = 0, terms = 0, batch = 1;
  MatmulLayout left, right, result;
  MatmulEpilogue epilogue = MatmulEpilogue::kNone;
  bool bias = false;    // adds bias[row] to every column before kRelu, kGelu; with kReluGrad,
                        // kGeluGrad writes bias[row] = sum over the result's row, a bias's gradient
  int64_t kept_ld = 0;  // from column to column of `kept`: bits for a relu, elements for a gelu; 0
                        // where kRelu or kGelu keeps nothing
  int device = 0;

  bool operator==(const MatmulKey&) const = default;
};

/// The distance between the columns of what kRelu and kGelu keep of `rows` rows, as cuBLAS wants
/// it.
int64_t kept_ld(MatmulEpilogue epilogue, int64_t rows);

struct MatmulKeyHash {
  size_t operator()(const MatmulKey& key) const noexcept;
};

/// For one thread.
class MatmulPlan {
 public:
  /// throws: CudaError where cuBLAS has no algorithm; what cublas::check throws.
  explicit MatmulPlan(const MatmulKey& key);

  /// Queues the product on the current stream; `addresses` is what the epilogue reads or writes,
  /// null where it does not. The workspace comes from the caching allocator. An algorithm that
  /// fails is dropped and the next one taken; where memory is short the next one runs this once.
  /// Where all have failed the next call may try them again: it was not the algorithms. A
  /// deterministic key runs the first and passes on its error.
  /// throws: CudaError, OutOfMemoryError if none could (or may).
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
  MatmulAddresses told_;               // that product_ was told last
  std::vector<Algorithm> algorithms_;  // the best first
};

}  // namespace lathe::cuda
