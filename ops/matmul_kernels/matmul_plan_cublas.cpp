// Matrix products of cuBLASLt: descriptors, algorithms, execution. Contracts: matmul_plan_cublas.h.
#include <array>
#include <cstdint>
#include <exception>

#include "lathe/core/ceil_div.h"
#include "lathe/core/error.h"
#include "lathe/core/gpu/workspace.h"
#include "lathe/core/stream.h"
#include "lathe/ops/matmul_kernels/matmul_plan_cublas.h"
#include "lathe/ops/plans/word_hash.h"

namespace lathe::cuda {

namespace {

constexpr uintptr_t kPointerAlignment = 16;  // bytes, of MatmulAddresses

cudaDataType_t data_type(DType dtype) {
  switch (dtype) {
    case DType::kF16: return CUDA_R_16F;
    case DType::kBF16: return CUDA_R_16BF;
    case DType::kF64: return CUDA_R_64F;
    default: return CUDA_R_32F;
  }
}

cublasComputeType_t compute_type(const MatmulKey& key) {
  if (key.dtype == kF64) return CUBLAS_COMPUTE_64F;
  return key.dtype == kF32 && key.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

cublasLtEpilogue_t epilogue_of(const MatmulKey& key) {
  const bool bias = key.bias, keeps = key.kept_ld != 0;
  switch (key.epilogue) {
    case MatmulEpilogue::kNone: return bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    case MatmulEpilogue::kRelu:
      if (keeps) return bias ? CUBLASLT_EPILOGUE_RELU_AUX_BIAS : CUBLASLT_EPILOGUE_RELU_AUX;
      return bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
    case MatmulEpilogue::kGelu:
      if (keeps) return bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
      return bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
    case MatmulEpilogue::kReluGrad:
      return bias ? CUBLASLT_EPILOGUE_DRELU_BGRAD : CUBLASLT_EPILOGUE_DRELU;
    case MatmulEpilogue::kGeluGrad:
      return bias ? CUBLASLT_EPILOGUE_DGELU_BGRAD : CUBLASLT_EPILOGUE_DGELU;
    case MatmulEpilogue::kRightSums: return CUBLASLT_EPILOGUE_BGRADB;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

template <class T>
void set(const cublas::MatmulDescriptor& product, cublasLtMatmulDescAttributes_t name, T value) {
  cublas::check(
      cublas::functions().cublasLtMatmulDescSetAttribute(product.get(), name, &value, sizeof value),
      "describe a product");
}
template <class T>
void set(const cublas::MatrixLayout& layout, cublasLtMatrixLayoutAttribute_t name, T value) {
  cublas::check(cublas::functions().cublasLtMatrixLayoutSetAttribute(layout.get(), name, &value,
                                                                     sizeof value),
                "describe a matrix");
}
template <class T>
void set(const cublas::MatmulPreference& wish, cublasLtMatmulPreferenceAttributes_t name, T value) {
  cublas::check(cublas::functions().cublasLtMatmulPreferenceSetAttribute(wish.get(), name, &value,
                                                                         sizeof value),
                "describe a preference");
}

cublas::MatrixLayout make_layout(const MatmulKey& key, const MatmulLayout& l, int64_t rows,
                                 int64_t cols) {
  cublas::MatrixLayout layout;
  if (l.transposed) std::swap(rows, cols);
  cublas::check(cublas::functions().cublasLtMatrixLayoutCreate(
                    layout.address(), data_type(key.dtype), static_cast<uint64_t>(rows),
                    static_cast<uint64_t>(cols), l.ld),
                "make a matrix layout");
  if (key.batch > 1) {
    set(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<int32_t>(key.batch));
    set(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, l.batch_step);
  }
  return layout;
}

}  // namespace

MatmulPlan::MatmulPlan(const MatmulKey& key)
    : device_(DeviceType::kCUDA, static_cast<int8_t>(key.device)),
      is_f64_(key.dtype == kF64),
      is_deterministic_(key.deterministic) {
  describe(key);
  find_algorithms(key);
}

void MatmulPlan::describe(const MatmulKey& key) {
  cublas::check(cublas::functions().cublasLtMatmulDescCreate(product_.address(), compute_type(key),
                                                             is_f64_ ? CUDA_R_64F : CUDA_R_32F),
                "make a product");
  set(product_, CUBLASLT_MATMUL_DESC_TRANSA, key.left.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(product_, CUBLASLT_MATMUL_DESC_TRANSB, key.right.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(product_, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(key));
  if (key.kept_ld != 0) set(product_, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, key.kept_ld);
  // The heuristic reads no memory; the addresses only tell it the alignment that it may rely on.
  void* const aligned = reinterpret_cast<void*>(kPointerAlignment);
  tell({key.bias || key.epilogue == MatmulEpilogue::kRightSums ? aligned : nullptr,
        key.kept_ld != 0 ? aligned : nullptr});
  left_ = make_layout(key, key.left, key.rows, key.terms);
  right_ = make_layout(key, key.right, key.terms, key.cols);
  result_ = make_layout(key, key.result, key.rows, key.cols);
}

// Sums are kept in f32 even if several blocks share one (no OUTPUT_TYPE), and are added up in a
// fixed order (no INPLACE), so the same product always has the same bits.
void MatmulPlan::find_algorithms(const MatmulKey& key) {
  constexpr uint64_t kWorkspaceBytes = 32 << 20;  // what cuBLAS itself takes on Hopper
  constexpr int kMost = 8;
  cublas::MatmulPreference wish;
  cublas::check(cublas::functions().cublasLtMatmulPreferenceCreate(wish.address()),
                "make a preference");
  set(wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspaceBytes);
  set(wish, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  set(wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, static_cast<uint32_t>(key.left.alignment));
  set(wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, static_cast<uint32_t>(key.right.alignment));
  set(wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
      static_cast<uint32_t>(key.result.alignment));
  set(wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
      static_cast<uint32_t>(key.result.alignment));
  std::array<cublasLtMatmulHeuristicResult_t, kMost> found{};
  int count = 0;
  cublas::check(cublas::functions().cublasLtMatmulAlgoGetHeuristic(
                    cublas::handle(device_), product_.get(), left_.get(), right_.get(),
                    result_.get(), result_.get(), wish.get(), kMost, found.data(), &count),
                "find an algorithm");
  for (int i = 0; i < count; ++i) {
    const auto& result = found[static_cast<size_t>(i)];
    if (result.state == CUBLAS_STATUS_SUCCESS) algorithms_.push_back({result});
  }
  LATHE_CHECK(CudaError, !algorithms_.empty(), "cublas: no algorithm for this product");
}

void MatmulPlan::run(const cublasLtMatmulHeuristicResult_t& how, const void* left,
                     const void* right, void* result) const {
  const float one = 1, zero = 0;
  const double one_f64 = 1, zero_f64 = 0;
  const void* const alpha = is_f64_ ? static_cast<const void*>(&one_f64) : &one;
  const void* const beta = is_f64_ ? static_cast<const void*>(&zero_f64) : &zero;
  const Workspace workspace(static_cast<int64_t>(how.workspaceSize), device_);
  const auto stream = static_cast<cudaStream_t>(current_stream(device_).native);
  cublas::check(cublas::functions().cublasLtMatmul(
                    cublas::handle(device_), product_.get(), alpha, left, left_.get(), right,
                    right_.get(), beta, result, result_.get(), result, result_.get(), &how.algo,
                    workspace.get(), how.workspaceSize, stream),
                "multiply");
}

void MatmulPlan::tell(const MatmulAddresses& addresses) {
  if (addresses.bias != told_.bias) {
    set(product_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, addresses.bias);
    told_.bias = addresses.bias;
  }
  if (addresses.kept != told_.kept) {
    set(product_, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, addresses.kept);
    told_.kept = addresses.kept;
  }
}

void MatmulPlan::execute(const void* left, const void* right, void* result,
                         const MatmulAddresses& addresses) {
  tell(addresses);
  std::exception_ptr error;
  bool any_left = false;
  for (Algorithm& algorithm : algorithms_) {
    if (algorithm.failed) continue;
    try {
      return run(algorithm.how, left, right, result);
    } catch (const OutOfMemoryError&) {  // there may be enough the next time
      if (is_deterministic_) throw;      // another algorithm gives other bits
      error = std::current_exception();
      any_left = true;
    } catch (const CudaError&) {
      if (is_deterministic_) throw;
      error = std::current_exception();
      algorithm.failed = true;
    }
  }
  if (!any_left) {
    for (Algorithm& algorithm : algorithms_) algorithm.failed = false;
  }
  std::rethrow_exception(error);
}

int64_t kept_ld(MatmulEpilogue epilogue, int64_t rows) {
  const int64_t step = epilogue == MatmulEpilogue::kRelu ? 128 : 8;  // bits, elements
  return round_up(rows, step);
}

size_t MatmulKeyHash::operator()(const MatmulKey& key) const noexcept {
  WordHash hash(static_cast<uint64_t>(key.dtype) << 32 | static_cast<uint64_t>(key.tf32) << 16 |
                static_cast<uint64_t>(key.deterministic) << 17 |
                static_cast<uint64_t>(key.bias) << 18 |
                static_cast<uint64_t>(key.kept_ld != 0) << 19 |
                static_cast<uint64_t>(key.epilogue) << 8 | static_cast<uint64_t>(key.device));
  for (const int64_t size : {key.rows, key.cols, key.terms, key.batch}) hash.add(size);
  for (const MatmulLayout* l : {&key.left, &key.right, &key.result}) {
    hash.add(static_cast<uint64_t>(l->transposed) << 8 | static_cast<uint64_t>(l->alignment));
    hash.add(l->ld);
  }
  return hash.value();
}

}  // namespace lathe::cuda
