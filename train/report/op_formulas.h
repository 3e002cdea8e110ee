// What each op computes, and its gradient, in a line each: for people who learn.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "lathe/core/config.h"
#include "lathe/core/function_ref.h"

namespace lathe::report {

/// In the formulas y is the result, x, a, b, w, … are the inputs, and dy, dx, … the gradients of
/// the loss with respect to them. Products of tensors are element by element, except @, the matrix
/// product; T() swaps rows and columns.
struct OpFormula {
  std::string_view op;      // the name of autograd's node
  std::string_view inputs;  // names of the node's inputs in order: "x w b"
  // "y = max(x, 0)"; in braces what stands only for an input that may be missing: {b: + b}
  std::string_view forward;
  std::string_view backward;  // "dx = dy where y > 0, else 0", separated by "; "
};

/// Null for an op that is not listed: one of the program's own, or a gradient that was recorded.
LATHE_API const OpFormula* find_formula(std::string_view op);

/// The name of input `index`: "w", or "x2" where there is none.
LATHE_API std::string_view input_name(const OpFormula* formula, size_t index);

using HasInput = FunctionRef<bool(std::string_view name)>;

/// The formula for the inputs that a call has.
LATHE_API std::string forward_text(const OpFormula& formula, HasInput has);

/// The gradients of the inputs that want one.
LATHE_API std::string backward_text(const OpFormula& formula, HasInput wants);

LATHE_API std::span<const OpFormula> all_formulas();

}  // namespace lathe::report
