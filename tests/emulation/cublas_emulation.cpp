// The emulated cuBLASLt; see cublas_emulation.h. One lock guards everything.
#include "cublas_emulation.h"

#include <cmath>
#include <cstring>
#include <mutex>
#include <numbers>
#include <utility>
#include <vector>

#include "lathe/core/half.h"

namespace lathe::emulation {

struct CublasHandle {};
struct CublasProduct {
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  cudaDataType_t scale = CUDA_R_32F;
  cublasOperation_t left = CUBLAS_OP_N, right = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void* bias = nullptr;  // read, or for a bias's gradient written
  void* kept = nullptr;  // what a forward epilogue writes and its gradient reads
  int64_t kept_ld = 0;
};
struct CublasMatrix {
  cudaDataType_t type = CUDA_R_32F;
  int64_t rows = 0, cols = 0, ld = 0;
  int32_t batch = 1;
  int64_t batch_step = 0;
};
struct CublasWish {
  uint64_t workspace_bytes = 0;
  uint32_t reductions = 7;
};

namespace {

std::mutex g_mutex;

double element(cudaDataType_t type, const void* memory, int64_t at) {
  switch (type) {
    case CUDA_R_16F: return static_cast<float>(static_cast<const Half*>(memory)[at]);
    case CUDA_R_16BF: return static_cast<float>(static_cast<const BFloat16*>(memory)[at]);
    case CUDA_R_32F: return static_cast<const float*>(memory)[at];
    case CUDA_R_64F: break;
  }
  return static_cast<const double*>(memory)[at];
}

void store(cudaDataType_t type, void* memory, int64_t at, double value) {
  switch (type) {
    case CUDA_R_16F: static_cast<Half*>(memory)[at] = Half(static_cast<float>(value)); break;
    case CUDA_R_16BF:
      static_cast<BFloat16*>(memory)[at] = BFloat16(static_cast<float>(value));
      break;
    case CUDA_R_32F: static_cast<float*>(memory)[at] = static_cast<float>(value); break;
    case CUDA_R_64F: static_cast<double*>(memory)[at] = value; break;
  }
}

/// A factor as the product sees it.
struct Factor {
  const void* memory;
  CublasMatrix layout;
  bool transposed, rounds_to_tf32;

  int64_t rows() const { return transposed ? layout.cols : layout.rows; }
  int64_t cols() const { return transposed ? layout.rows : layout.cols; }
  int64_t place(int32_t batch, int64_t i, int64_t j) const {
    if (transposed) std::swap(i, j);
    return batch * layout.batch_step + j * layout.ld + i;
  }
  double at(int32_t batch, int64_t i, int64_t j) const {
    const double value = element(layout.type, memory, place(batch, i, j));
    if (!rounds_to_tf32) return value;
    auto bits = half_detail::bits_of(static_cast<float>(value));
    return half_detail::float_of(bits & 0xffffe000u);  // 10 bits of mantissa
  }
};

bool fits(const Factor& a, const Factor& b, const CublasMatrix& d) {
  const auto sound = [](const CublasMatrix& m) {
    return m.rows > 0 && m.cols > 0 && m.ld >= m.rows;
  };
  return sound(a.layout) && sound(b.layout) && sound(d) && a.rows() == d.rows &&
         b.cols() == d.cols && a.cols() == b.rows() && a.layout.batch == d.batch &&
         b.layout.batch == d.batch && a.layout.type == d.type && b.layout.type == d.type;
}

/// What an epilogue is made of.
struct Parts {
  bool adds_bias = false, relu = false, gelu = false;  // to a sum, in this order
  bool relu_grad = false, gelu_grad = false;           // times the derivative
  bool keeps = false;                                  // `kept` is written, or by a gradient read
  bool row_sums = false, right_sums = false;           // a bias's gradient is written
};

Parts parts_of(cublasLtEpilogue_t epilogue) {
  switch (epilogue) {
    case CUBLASLT_EPILOGUE_DEFAULT: return {};
    case CUBLASLT_EPILOGUE_RELU: return {.relu = true};
    case CUBLASLT_EPILOGUE_RELU_AUX: return {.relu = true, .keeps = true};
    case CUBLASLT_EPILOGUE_BIAS: return {.adds_bias = true};
    case CUBLASLT_EPILOGUE_RELU_BIAS: return {.adds_bias = true, .relu = true};
    case CUBLASLT_EPILOGUE_RELU_AUX_BIAS: return {.adds_bias = true, .relu = true, .keeps = true};
    case CUBLASLT_EPILOGUE_DRELU: return {.relu_grad = true, .keeps = true};
    case CUBLASLT_EPILOGUE_DRELU_BGRAD: return {.relu_grad = true, .keeps = true, .row_sums = true};
    case CUBLASLT_EPILOGUE_GELU: return {.gelu = true};
    case CUBLASLT_EPILOGUE_GELU_AUX: return {.gelu = true, .keeps = true};
    case CUBLASLT_EPILOGUE_GELU_BIAS: return {.adds_bias = true, .gelu = true};
    case CUBLASLT_EPILOGUE_GELU_AUX_BIAS: return {.adds_bias = true, .gelu = true, .keeps = true};
    case CUBLASLT_EPILOGUE_DGELU: return {.gelu_grad = true, .keeps = true};
    case CUBLASLT_EPILOGUE_DGELU_BGRAD: return {.gelu_grad = true, .keeps = true, .row_sums = true};
    case CUBLASLT_EPILOGUE_BGRADB: return {.right_sums = true};
  }
  return {};
}

/// gelu(x) = x s and its derivative, s = sigmoid(2 sqrt(2/pi) (x + 0.044715 x^3)): the
/// approximation by tanh, written in another way.
struct Gelu {
  double value, slope;
  explicit Gelu(double x) {
    const double factor = 2 * std::sqrt(2 / std::numbers::pi);
    const double s = 1 / (1 + std::exp(-factor * (x + 0.044715 * x * x * x)));
    value = x * s;
    slope = s + value * (1 - s) * factor * (1 + 3 * 0.044715 * x * x);
  }
};

/// What a product's epilogue reads and writes.
struct Epilogue {
  Parts parts;
  cudaDataType_t type;
  void *bias, *kept;
  int64_t kept_ld;

  /// A sum of row i and column j before rounding → the result's element.
  double operator()(double sum, int64_t i, int64_t j) const {
    const int64_t place = j * kept_ld + i;
    if (parts.adds_bias) sum += element(type, bias, i);
    if (parts.relu) {
      if (parts.keeps) keep_bit(place, sum > 0);
      return sum > 0 ? sum : 0;
    }
    if (parts.gelu) {
      if (parts.keeps) store(type, kept, place, sum);
      return Gelu(sum).value;
    }
    if (parts.relu_grad) return bit(place) ? sum : 0;
    if (parts.gelu_grad) return sum * Gelu(element(type, kept, place)).slope;
    return sum;
  }

  bool bit(int64_t place) const {
    return (static_cast<const uint8_t*>(kept)[place / 8] >> (place % 8) & 1) != 0;
  }
  void keep_bit(int64_t place, bool on) const {
    uint8_t& byte = static_cast<uint8_t*>(kept)[place / 8];
    const auto mask = static_cast<uint8_t>(1 << (place % 8));
    byte = static_cast<uint8_t>(on ? byte | mask : byte & ~mask);
  }
};

/// The library's rules about what an epilogue keeps.
bool keeps_well(const CublasProduct& product, int64_t rows) {
  const Parts parts = parts_of(product.epilogue);
  if (!parts.keeps) return true;
  const int64_t step = parts.relu || parts.relu_grad ? 128 : 8;
  return product.kept_ld >= rows && product.kept_ld % step == 0 &&
         reinterpret_cast<uintptr_t>(product.kept) % 16 == 0;
}

void multiply(const Factor& a, const Factor& b, const CublasMatrix& d, void* result,
              const Epilogue& epilogue) {
  std::vector<double> row_sums(static_cast<size_t>(d.rows));
  for (int32_t n = 0; n < d.batch; ++n)
    for (int64_t j = 0; j < d.cols; ++j)
      for (int64_t i = 0; i < d.rows; ++i) {
        double sum = 0;
        for (int64_t k = 0; k < a.cols(); ++k) sum += a.at(n, i, k) * b.at(n, k, j);
        const double value = epilogue(sum, i, j);
        row_sums[static_cast<size_t>(i)] += value;
        store(d.type, result, n * d.batch_step + j * d.ld + i, value);
      }
  if (!epilogue.parts.row_sums) return;
  for (int64_t i = 0; i < d.rows; ++i) {
    store(d.type, epilogue.bias, i, row_sums[static_cast<size_t>(i)]);
  }
}

/// What CUBLASLT_EPILOGUE_BGRADB writes.
void sum_columns(const Factor& b, const CublasMatrix& d, void* sums) {
  for (int64_t j = 0; j < d.cols; ++j) {
    double sum = 0;
    for (int64_t k = 0; k < b.rows(); ++k)
      sum += element(b.layout.type, b.memory, b.place(0, k, j));
    store(d.type, sums, j, sum);
  }
}

template <class T, class... Fields>
cublasStatus_t make(T** object, Fields... fields) {
  const std::lock_guard lock(g_mutex);
  *object = new T{fields...};
  ++cublas_probe().descriptors;
  return CUBLAS_STATUS_SUCCESS;
}
template <class T>
cublasStatus_t destroy(T* object) {
  const std::lock_guard lock(g_mutex);
  delete object;
  --cublas_probe().descriptors;
  return CUBLAS_STATUS_SUCCESS;
}
template <class T>
cublasStatus_t assign(T& field, const void* value, size_t bytes) {
  if (bytes != sizeof(T)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&field, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

CublasProbe& cublas_probe() {
  static CublasProbe probe;
  return probe;
}

}  // namespace lathe::emulation

using namespace lathe::emulation;

const char* cublasLtGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS: return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED: return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED: return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_EXECUTION_FAILED: return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
  }
  return "an unknown status";
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  static CublasHandle only;
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess) return CUBLAS_STATUS_NOT_INITIALIZED;
  *handle = &only;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* product, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  return make(product, compute, scale);
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t product) { return destroy(product); }
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t product,
                                              cublasLtMatmulDescAttributes_t name,
                                              const void* value, size_t bytes) {
  switch (name) {
    case CUBLASLT_MATMUL_DESC_TRANSA: return assign(product->left, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB: return assign(product->right, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE: return assign(product->epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: return assign(product->bias, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER: return assign(product->kept, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD: return assign(product->kept_ld, value, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType_t type,
                                          uint64_t rows, uint64_t cols, int64_t ld) {
  return make(layout, type, static_cast<int64_t>(rows), static_cast<int64_t>(cols), ld);
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  return destroy(layout);
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t name,
                                                const void* value, size_t bytes) {
  switch (name) {
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT: return assign(layout->batch, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
      return assign(layout->batch_step, value, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* wish) {
  return make(wish);
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t wish) {
  return destroy(wish);
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t wish,
                                                    cublasLtMatmulPreferenceAttributes_t name,
                                                    const void* value, size_t bytes) {
  uint32_t alignment = 0;
  switch (name) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return assign(wish->workspace_bytes, value, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK: return assign(wish->reductions, value, bytes);
    default: return assign(alignment, value, bytes);
  }
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t product,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t wish, int most,
                                              cublasLtMatmulHeuristicResult_t* results,
                                              int* count) {
  const std::lock_guard lock(g_mutex);
  ++cublas_probe().heuristics;
  *count = 0;
  const bool valid = fits({nullptr, *a, product->left == CUBLAS_OP_T, false},
                          {nullptr, *b, product->right == CUBLAS_OP_T, false}, *d);
  if (!valid || !keeps_well(*product, d->rows)) return CUBLAS_STATUS_INVALID_VALUE;
  if (cublas_probe().knows_none || cublas_probe().unknown.contains(product->epilogue)) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  const auto add = [&](uint64_t number, size_t bytes, cublasStatus_t state) {
    if (*count < most && bytes <= wish->workspace_bytes) {
      results[(*count)++] = {.algo = {{number}}, .workspaceSize = bytes, .state = state};
    }
  };
  add(99, 0, CUBLAS_STATUS_NOT_SUPPORTED);  // the library lists such, too
  const bool wide = (wish->reductions & CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE) == 0;
  if (!wide) add(12, 0, CUBLAS_STATUS_SUCCESS);
  add(21, 8 * static_cast<size_t>(d->rows * d->cols * d->batch), CUBLAS_STATUS_SUCCESS);
  add(0, 0, CUBLAS_STATUS_SUCCESS);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t product, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void*,
                              cublasLtMatrixLayout_t, void* d, cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algo, void* workspace,
                              size_t workspace_bytes, cudaStream_t stream) {
  const std::lock_guard lock(g_mutex);
  CublasProbe& probe = cublas_probe();
  const auto number = static_cast<int64_t>(algo->data[0]);
  if (probe.failing.contains(number)) {
    ++probe.failures;
    cudaFree(product);  // leaves an error behind in the runtime, as a failed launch does
    return CUBLAS_STATUS_EXECUTION_FAILED;
  }
  const bool tf32 = product->compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  const Factor left{a, *a_layout, product->left == CUBLAS_OP_T, tf32};
  const Factor right{b, *b_layout, product->right == CUBLAS_OP_T, tf32};
  const Parts parts = parts_of(product->epilogue);
  const bool has_bias = parts.adds_bias || parts.row_sums || parts.right_sums;
  void* const bias = has_bias ? product->bias : nullptr;
  const bool plain =
      element(product->scale, alpha, 0) == 1 && element(product->scale, beta, 0) == 0;
  const bool missing = has_bias != (bias != nullptr) || (parts.keeps && product->kept == nullptr);
  if (!fits(left, right, *d_layout) || !plain || missing) return CUBLAS_STATUS_INVALID_VALUE;
  if (!keeps_well(*product, d_layout->rows)) return CUBLAS_STATUS_INVALID_VALUE;
  if (reinterpret_cast<uintptr_t>(bias) % 16 != 0) return CUBLAS_STATUS_INVALID_VALUE;
  if ((workspace == nullptr) != (workspace_bytes == 0)) return CUBLAS_STATUS_INVALID_VALUE;
  ++probe.products;
  probe.algorithm = number;
  probe.workspace_bytes = workspace_bytes;
  probe.epilogue = product->epilogue;
  probe.compute = product->compute;
  probe.stream = stream;
  const Epilogue epilogue{parts, d_layout->type, bias, product->kept, product->kept_ld};
  const cudaError_t queued = enqueue_kernel(
      stream, [left, right, layout = *d_layout, d, epilogue, workspace, workspace_bytes] {
        if (workspace_bytes > 0) std::memset(workspace, 0x5A, workspace_bytes);
        multiply(left, right, layout, d, epilogue);
        if (epilogue.parts.right_sums) sum_columns(right, layout, epilogue.bias);
      });
  return queued == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}
