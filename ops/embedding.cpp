// embedding and one_hot: made of other ops. Contracts: embedding.h.
#include "lathe/ops/embedding.h"

#include "lathe/core/hooks/range.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/index.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/views.h"
#include "lathe/ops/where.h"

namespace lathe {

namespace {

/// A list of indices as i64, checked.
Tensor checked(const char* op, const Tensor& index, int64_t size) {
  Tensor wide = cast(index, kI64);
  check_index(op, wide, size);
  return wide;
}

void check_dtype(const char* op, const Tensor& index) {
  LATHE_CHECK(DTypeError, index.dtype() == kI64 || index.dtype() == kI32, op,
              ": index must be i64 or i32 (index: ", index, ")");
}

}  // namespace

Tensor embedding(const Tensor& weight, const Tensor& index, const EmbeddingOptions& options) {
  const profile::OpRange range("embedding", {weight, index});
  profile::note_arguments(options);
  check_dtype("embedding", index);
  LATHE_CHECK(ShapeError, weight.ndim() == 2, "embedding: weight must be [V,E] (weight: ", weight,
              ")");
  const Tensor places = reshape(checked("embedding", index, weight.dim(0)), {index.numel()});
  Tensor rows = index_select(weight, 0, places);
  if (options.padding_index) {
    const int64_t padding = *options.padding_index, size = weight.dim(0);
    LATHE_CHECK(IndexError, padding >= -size && padding < size, "embedding: padding_index ",
                padding, " is outside [", -size, ", ", size, ") (weight: ", weight, ")");
    const Tensor padded = eq(places, padding < 0 ? padding + size : padding);
    rows = where(unsqueeze(padded, 1), rows.detach(), rows);
  }
  Shape shape = index.shape();
  shape.push_back(weight.dim(1));
  return reshape(rows, shape);
}

Tensor one_hot(const Tensor& index, int64_t classes) {
  const profile::OpRange range("one_hot", {index});
  check_dtype("one_hot", index);
  if (classes == -1) {
    LATHE_CHECK(ValueError, index.numel() > 0,
                "one_hot: the number of classes of an empty index must be given (index: ", index,
                ")");
    classes = std::max<int64_t>(max(index).item<int64_t>() + 1, 1);
  }
  LATHE_CHECK(ValueError, classes >= 1, "one_hot: classes must be positive or -1, got ", classes);
  const Tensor column = unsqueeze(checked("one_hot", index, classes), -1);
  return cast(eq(column, arange(classes, {.device = index.device()})), kI64);
}

}  // namespace lathe
