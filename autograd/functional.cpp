// Derivatives of functions, made of grad(). Contracts: functional.h.
#include "lathe/autograd/functional.h"

#include "lathe/autograd/engine.h"
#include "lathe/autograd/grad_mode.h"
#include "lathe/autograd/record.h"
#include "lathe/core/copy.h"

namespace lathe {

namespace {

Tensor filled_like(const Tensor& t, double value) {
  const Tensor out = empty_like(t);
  fill_values(out, value);
  return out;
}

/// Tensors to call f on: with create_graph they hang on the inputs' history.
Tensors own_inputs(const char* op, const Tensors& inputs, bool create_graph) {
  Tensors out;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& x = inputs[i];
    LATHE_CHECK(DTypeError, x.defined() && is_floating(x.dtype()), op, ": input ", i,
                " must be floating (", x, ")");
    const bool linked = create_graph && x.requires_grad();
    out.push_back(linked ? x.view(x.shape()) : x.detach().requires_grad_());
  }
  return out;
}

Tensors call(const char* op, const TensorsFunction& f, const Tensors& inputs) {
  const Tensors ys = f(inputs);
  for (size_t k = 0; k < ys.size(); ++k) {
    LATHE_CHECK(ValueError, ys[k].defined(), op, ": the function returned an undefined output ", k);
  }
  return ys;
}

Tensor call_scalar(const char* op, const TensorsFunction& f, const Tensors& inputs) {
  const Tensors ys = call(op, f, inputs);
  LATHE_CHECK(ShapeError, ys.size() == 1 && ys[0].numel() == 1, op,
              ": the function must return one tensor of one element, but it returned ", ys.size(),
              " tensors (output 0: ", ys.empty() ? Tensor() : ys[0], ")");
  return ys[0];
}

void check_vectors(const char* op, const Tensors& v, const Tensors& like, const char* what) {
  LATHE_CHECK(ShapeError, v.size() == like.size(), op, ": v has ", v.size(), " tensors for ",
              like.size(), " ", what, "s");
  for (size_t i = 0; i < v.size(); ++i) {
    LATHE_CHECK(ShapeError, v[i].defined() && v[i].shape() == like[i].shape(), op, ": v[", i,
                "] does not match ", what, " ", i, " (v: ", v[i], ", ", what, ": ", like[i], ")");
    LATHE_CHECK(DTypeError, v[i].dtype() == like[i].dtype(), op, ": v[", i, "] does not match ",
                what, " ", i, " (v: ", v[i], ", ", what, ": ", like[i], ")");
  }
}

/// v * d ys / d xs. Outputs without a history and unused inputs count as constants. Keeps the
/// graph.
Tensors gradients(const Tensors& ys, const Tensors& xs, const Tensors& v, bool create_graph) {
  Tensors outputs, weights;
  for (size_t k = 0; k < ys.size(); ++k) {
    if (!ys[k].requires_grad()) continue;
    outputs.push_back(ys[k]);
    weights.push_back(v[k]);
  }
  Tensors out(xs.size());
  if (!outputs.empty()) {
    out = grad(outputs, xs,
               {.grad_outputs = weights,
                .retain_graph = true,
                .create_graph = create_graph,
                .allow_unused = true});
  }
  for (size_t i = 0; i < xs.size(); ++i) {
    if (!out[i].defined()) out[i] = filled_like(xs[i], 0);
  }
  return out;
}

Tensors results(Tensors tensors, const DerivativeOptions& options) {
  for (Tensor& t : tensors) {
    if (!options.create_graph) t = t.detach();
  }
  return tensors;
}

/// Zeros with a 1 at element i in row-major order.
Tensor unit_like(const Tensor& t, int64_t i) {
  const Tensor out = empty(t.shape(), {.dtype = t.dtype(), .device = t.device()});
  fill_values(out, 0);
  fill_values(alias(out, {}, {}, i), 1);
  return out;
}

/// The rows in one tensor of `shape`. Recorded, because rows may have gradients.
Tensor stack_rows(const Tensors& rows, const Tensor& y, const Tensor& x) {
  Shape shape = y.shape();
  for (int d = 0; d < x.ndim(); ++d) shape.push_back(x.shape()[d]);
  const int64_t count = static_cast<int64_t>(rows.size());
  Shape by_row{count};
  for (int d = 0; d < x.ndim(); ++d) by_row.push_back(x.shape()[d]);
  const Tensor out = empty(by_row, {.dtype = x.dtype(), .device = x.device()});
  for (int64_t i = 0; i < count; ++i) {
    copy_values(alias(out, x.shape(), contiguous_strides(x.shape()), i * x.numel()),
                rows[static_cast<size_t>(i)]);
  }
  autograd::record("jacobian", out, rows, [](const Tensor& dy, const autograd::Needs& need) {
    Tensors parts(need.size());
    for (size_t i = 0; i < parts.size(); ++i) {
      if (need[i]) parts[i] = dy.select(0, static_cast<int64_t>(i));
    }
    return parts;
  });
  return out.view(shape);
}

Tensors jacobian_of(const Tensor& y, const Tensors& xs, const DerivativeOptions& options) {
  std::vector<Tensors> rows(xs.size());
  for (int64_t e = 0; e < y.numel(); ++e) {
    const Tensors row = gradients({y}, xs, {unit_like(y, e)}, options.create_graph);
    for (size_t i = 0; i < xs.size(); ++i) rows[i].push_back(row[i]);
  }
  Tensors out;
  for (size_t i = 0; i < xs.size(); ++i) out.push_back(stack_rows(rows[i], y, xs[i]));
  return results(out, options);
}

/// d f / d xs for hessian and hvp: with a history of its own.
Tensors gradient_of_scalar(const Tensor& y, const Tensors& xs) {
  return gradients({y}, xs, {filled_like(y, 1)}, true);
}

}  // namespace

FunctionAndProducts vjp(const TensorsFunction& f, const Tensors& inputs, const Tensors& v,
                        const DerivativeOptions& options) {
  const EnableGrad on;
  const Tensors xs = own_inputs("vjp", inputs, options.create_graph);
  const Tensors ys = call("vjp", f, xs);
  const bool one = v.empty() && ys.size() == 1 && ys[0].numel() == 1;
  const Tensors weights = one ? Tensors{filled_like(ys[0], 1)} : v;
  check_vectors("vjp", weights, ys, "output");
  const Tensors products = gradients(ys, xs, weights, options.create_graph);
  return {results(ys, options), results(products, options)};
}

FunctionAndProducts jvp(const TensorsFunction& f, const Tensors& inputs, const Tensors& v,
                        const DerivativeOptions& options) {
  const EnableGrad on;
  const Tensors xs = own_inputs("jvp", inputs, options.create_graph);
  check_vectors("jvp", v, xs, "input");
  const Tensors ys = call("jvp", f, xs);
  Tensors u;  // g(u) = u * J is linear, and its gradient is J * v wherever u is
  for (const Tensor& y : ys) u.push_back(filled_like(y, 0).requires_grad_(is_floating(y.dtype())));
  const Tensors g = gradients(ys, xs, u, true);
  Tensors used, products(ys.size());
  for (size_t k = 0; k < ys.size(); ++k) {
    if (u[k].requires_grad()) used.push_back(u[k]);
    products[k] = filled_like(ys[k], 0);
  }
  const Tensors found = gradients(g, used, v, options.create_graph);
  for (size_t k = 0, at = 0; k < ys.size(); ++k) {
    if (u[k].requires_grad()) products[k] = found[at++];
  }
  return {results(ys, options), results(products, options)};
}

std::vector<Tensors> jacobian(const TensorsFunction& f, const Tensors& inputs,
                              const DerivativeOptions& options) {
  const EnableGrad on;
  const Tensors xs = own_inputs("jacobian", inputs, options.create_graph);
  std::vector<Tensors> out;
  for (const Tensor& y : call("jacobian", f, xs)) out.push_back(jacobian_of(y, xs, options));
  return out;
}

std::vector<Tensors> hessian(const TensorsFunction& f, const Tensors& inputs,
                             const DerivativeOptions& options) {
  const EnableGrad on;
  const Tensors xs = own_inputs("hessian", inputs, options.create_graph);
  const Tensors dxs = gradient_of_scalar(call_scalar("hessian", f, xs), xs);
  std::vector<Tensors> out;
  for (const Tensor& dx : dxs) out.push_back(jacobian_of(dx, xs, options));
  return out;
}

FunctionAndProducts hvp(const TensorsFunction& f, const Tensors& inputs, const Tensors& v,
                        const DerivativeOptions& options) {
  const EnableGrad on;
  const Tensors xs = own_inputs("hvp", inputs, options.create_graph);
  check_vectors("hvp", v, xs, "input");
  const Tensor y = call_scalar("hvp", f, xs);
  const Tensors products = gradients(gradient_of_scalar(y, xs), xs, v, options.create_graph);
  return {results({y}, options), results(products, options)};
}

}  // namespace lathe
