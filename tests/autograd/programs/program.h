// A program over small f64 tensors: what the generator writes, and both interpreters run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lathe/core/tensor.h"

namespace lathe::programs {

enum class Op : uint8_t {
  // New values.
  kLeaf,      // `data` as `dims`, requires grad
  kConstant,  // the same, does not
  // Views of in[0].
  kNarrow,     // dimension i, start j, length k
  kSlice,      // dimension i, from j to k, step l
  kSelect,     // dimension i, index j
  kTranspose,  // dimensions i and j
  kPermute,    // order `dims`
  kView,       // as `dims`
  kReshape,    // as `dims`, where that is a view
  kExpand,     // to `dims`
  kUnsqueeze,  // dimension i
  kAsStrided,  // `dims`, `strides`, offset i
  kDetach,     // i: does it require grad?
  // New tensors.
  kAdd,
  kSub,
  kMul,
  kMaximum,
  kMatmul,
  kWhere,  // `data` is the condition, of shape `dims`
  kCat,    // along i
  kStack,  // along i
  kSum,    // over `dims`; i: keepdim
  kNeg,
  kRelu,
  kAbs,
  kSquare,
  kClone,
  kClamp,        // between i and j
  kTimes,        // i
  kPlus,         // i
  kIndexSelect,  // dimension i, places `data`
  // In place, into in[0].
  kAddInto,  // alpha i
  kSubInto,
  kMulInto,
  kCopyInto,
  kFill,       // with i
  kZero,       //
  kPlusInto,   // i
  kTimesInto,  // i
  kNegInto,
  kReluInto,
  kClampInto,       // between i and j
  kMaskedFillInto,  // with i where `data`, of shape `dims`
  // Gradients.
  kGrad,      // of in[0] with dL/d(in[0]) = `data`, for the inputs in[1…]; i: create_graph
  kBackward,  // of in[0], likewise
  kReadGrad,  // a copy of in[0].grad(), zeros where there is none
};

inline bool is_view(Op op) { return op >= Op::kNarrow && op <= Op::kDetach; }
inline bool is_new(Op op) { return op >= Op::kAdd && op <= Op::kIndexSelect; }
inline bool is_in_place(Op op) { return op >= Op::kAddInto && op <= Op::kMaskedFillInto; }

/// One line. The variables of `in` are named by their numbers; `out` (-1: none) is a new one. A
/// kGrad with create_graph makes variables out, out + 1, … of its inputs' gradients.
struct Statement {
  Op op;
  int out = -1;
  std::vector<int> in = {};
  int64_t i = 0, j = 0, k = 0, l = 0;
  Dims dims = {}, strides = {};
  std::vector<double> data = {};
  bool no_grad = false;
};

struct Program {
  uint64_t seed = 0;
  std::vector<Statement> lines;
};

/// As PyTorch's users would write it, a line for each statement.
std::string source(const Program& program);

/// What an interpreter saw, in order of the statements. Two interpreters' logs must be equal.
/// - a new tensor, and one that was written in place: its values
/// - gradients: of every input, or of every leaf so far; none counts as zeros
/// - at the end, of every variable: its values, then whether it requires grad
struct Log {
  std::vector<std::vector<double>> entries;
  std::vector<size_t> line;  // of each entry; the number of lines for the end
  std::string error;         // the pass was refused: the log ends here
};

}  // namespace lathe::programs
