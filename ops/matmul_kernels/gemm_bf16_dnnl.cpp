// bf16 matrix products by oneDNN's matmul primitive. Contract: gemm_bf16.h.
//
// oneDNN's kernels for blocks take operands that are dense, either row by row or column by column.
// For other strides oneDNN has a slower kernel, so such operands are copied first. oneDNN can also
// choose the order of b in memory; packing b for that in every call saved time only for a few
// large products.
#include <algorithm>
#include <climits>
#include <memory>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "lathe/core/copy.h"
#include "lathe/core/hooks/memory_tag.h"
#include "lathe/ops/matmul_kernels/gemm_bf16.h"
#include "lathe/ops/onednn/onednn.h"
#include "lathe/ops/plans/lru_cache.h"

namespace lathe::cpu {

namespace {

using Layout = dnnl::memory::desc;
using DnnlType = dnnl::memory::data_type;

/// How an operand lies in memory. Its matrices are dense.
struct MatrixOrder {
  bool transposed = false;  // column by column
  bool repeated = false;    // one matrix for the whole batch

  auto key() const { return std::tuple{transposed, repeated}; }
};

/// Absent if the operand has to be copied.
std::optional<MatrixOrder> order_of(const Tensor& t) {
  const int64_t rows = t.dim(-2), cols = t.dim(-1), r = t.stride(-2), c = t.stride(-1);
  const bool batched = t.ndim() == 3 && t.dim(0) > 1;
  const bool repeated = batched && t.stride(0) == 0;
  if (batched && !repeated && t.stride(0) != rows * cols) return {};
  if ((cols == 1 || c == 1) && (rows == 1 || r == cols)) return MatrixOrder{false, repeated};
  if ((rows == 1 || r == 1) && (cols == 1 || c == rows)) return MatrixOrder{true, repeated};
  return {};
}

/// An operand as the primitive reads it.
struct Bf16Operand {
  Tensor values;
  MatrixOrder order;
};

Bf16Operand dense_copy(const Tensor& t) {
  const profile::MemoryTagScope workspace(profile::MemoryTag::kWorkspace);
  Tensor copy = empty(t.shape(), {.dtype = kBF16});
  copy_values(copy, t);
  return {copy, {}};
}

Bf16Operand bf16_operand(const Tensor& t) {
  const auto order = order_of(t);
  return order ? Bf16Operand{t, *order} : dense_copy(t);
}

/// All that decides a primitive.
struct MatmulRequest {
  int64_t count, m, k, n;  // matrices, and their sizes
  MatrixOrder a, b;
  bool batched, has_bias;
  int threads;

  auto key() const {
    return std::tuple{count, m, k, n, a.key(), b.key(), batched, has_bias, threads};
  }
};

double multiplications(const MatmulRequest& r) {
  return static_cast<double>(r.count) * static_cast<double>(r.m) * static_cast<double>(r.k) *
         static_cast<double>(r.n);
}

struct MatmulPrimitive {
  dnnl::primitive primitive;
  Layout a, b, bias, y, scratchpad;
};

Layout matmul_layout(const MatmulRequest& r, int64_t rows, int64_t cols, const MatrixOrder& order) {
  const int64_t row_step = order.transposed ? 1 : cols, col_step = order.transposed ? rows : 1;
  if (!r.batched) return {{rows, cols}, DnnlType::bf16, {row_step, col_step}};
  const int64_t count = order.repeated ? 1 : r.count;
  return {{count, rows, cols}, DnnlType::bf16, {rows * cols, row_step, col_step}};
}

MatmulPrimitive make_matmul_primitive(const MatmulRequest& r) {
  MatmulPrimitive made;
  made.a = matmul_layout(r, r.m, r.k, r.a);
  made.b = matmul_layout(r, r.k, r.n, r.b);
  made.y = matmul_layout(r, r.m, r.n, {});
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const auto make = [&](const auto&... parts) {
    const auto desc = forward_desc<dnnl::matmul>(attributes, parts...);
    made.primitive = dnnl::matmul(desc);
    made.scratchpad = desc.scratchpad_desc();
  };
  if (r.has_bias) {
    made.bias = Layout({1, r.n}, DnnlType::bf16, dnnl::memory::dims{r.n, 1});
    make(made.a, made.b, made.bias, made.y);
  } else {
    make(made.a, made.b, made.y);
  }
  return made;
}

/// The primitive, or null if oneDNN has none for these sizes. Made and run by r.threads threads.
std::shared_ptr<const MatmulPrimitive> matmul_primitive(const MatmulRequest& r) {
  using Cache = LruCache<decltype(r.key()), std::optional<MatmulPrimitive>>;
  constexpr size_t kPrimitives = 1024;
  static Cache cache(kPrimitives);
  const auto made = cache.get(r.key(), [&]() -> std::optional<MatmulPrimitive> {
    try {
      return make_matmul_primitive(r);
    } catch (const dnnl::error& e) {
      if (e.status != dnnl_unimplemented) throw;
      return std::nullopt;
    }
  });
  if (!*made) return nullptr;
  return {made, &**made};
}

void run_matmul(const MatmulPrimitive& made, const Tensor& y, const Tensor& a, const Tensor& b,
                const Tensor& bias) {
  const auto memory = [](const Layout& layout, const Tensor& t) {
    return dnnl::memory(layout, dnnl_engine(), t.raw_data());
  };
  std::unordered_map<int, dnnl::memory> arguments{{DNNL_ARG_SRC, memory(made.a, a)},
                                                  {DNNL_ARG_WEIGHTS, memory(made.b, b)},
                                                  {DNNL_ARG_DST, memory(made.y, y)}};
  if (bias.defined()) arguments.emplace(DNNL_ARG_BIAS, memory(made.bias, bias));
  Tensor scratch;
  if (const auto bytes = static_cast<int64_t>(made.scratchpad.get_size()); bytes > 0) {
    const profile::MemoryTagScope workspace(profile::MemoryTag::kWorkspace);
    scratch = empty({bytes}, {.dtype = kU8});
    arguments.emplace(DNNL_ARG_SCRATCHPAD, memory(made.scratchpad, scratch));
  }
  made.primitive.execute(dnnl_stream(), arguments);
  dnnl_stream().wait();
}

/// True if bf16 products take less time than f32 products and the conversions. With tiles they
/// always do. Without them, AVX512-BF16 was slower than f32 on a Sapphire Rapids, so there only
/// products of few rows gain, by reading b unconverted. To make a primitive takes 150 to 600 us,
/// which small products save only after many calls.
bool is_worth_bf16(const MatmulRequest& r) {
  constexpr double kLeastWork = 1 << 18;
  constexpr int64_t kRowsWithoutTiles = 32;
  if (std::max({r.count, r.m, r.k, r.n}) > INT_MAX) return false;  // oneDNN keeps some as int
  if (multiplications(r) < kLeastWork) return false;
  if (!dnnl_uses(dnnl::cpu_isa::avx512_core_bf16)) return false;
  return multiplies_tiles() || r.m <= kRowsWithoutTiles;
}

/// Fewer multiplications than these take less time than it takes to wake OpenMP's threads.
int matmul_threads(const MatmulRequest& r) {
  const double worth_waking = multiplies_tiles() ? 4e7 : 5e6;
  return multiplications(r) < worth_waking ? 1 : dnnl_threads();
}

}  // namespace

bool multiplies_tiles() noexcept try {
  return dnnl_uses(dnnl::cpu_isa::avx512_core_amx);
} catch (...) {  // oneDNN cannot be loaded
  return false;
}

Tensor bf16_product(const Tensor& a, const Tensor& b, const Tensor& bias) {
  MatmulRequest request{.count = a.ndim() == 3 ? a.dim(0) : 1,
                        .m = a.dim(-2),
                        .k = a.dim(-1),
                        .n = b.dim(-1),
                        .a = {},
                        .b = {},
                        .batched = a.ndim() == 3,
                        .has_bias = bias.defined(),
                        .threads = 1};
  if (!is_worth_bf16(request)) return {};
  const Bf16Operand left = bf16_operand(a);
  Bf16Operand right = bf16_operand(b);
  if (left.order.repeated && right.order.repeated) right = dense_copy(b);  // not both in oneDNN
  const bool is_dense = !bias.defined() || bias.dim(0) == 1 || bias.stride(0) == 1;
  const Tensor added = is_dense ? bias : dense_copy(bias).values;
  request.a = left.order;
  request.b = right.order;
  request.threads = matmul_threads(request);
  return translate_dnnl_errors("matmul", [&]() -> Tensor {
    const OmpThreads threads(request.threads);
    const auto made = matmul_primitive(request);
    if (made == nullptr) return {};
    Shape shape = a.shape();
    shape[a.ndim() - 1] = b.dim(-1);
    Tensor y = empty(shape, {.dtype = kBF16});
    run_matmul(*made, y, left.values, right.values, added);
    return y;
  });
}

}  // namespace lathe::cpu
