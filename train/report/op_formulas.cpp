// The table of formulas, in the order of ops/README.md as far as there is one.
#include "lathe/train/report/op_formulas.h"

#include <algorithm>

namespace lathe::report {
namespace {

// clang-format off
constexpr OpFormula kFormulas[] = {
  // layers
  {"conv2d", "x w b", "y[n,k,p,q] = sum over c,r,s of x[n,c,p+r,q+s] w[k,c,r,s]{b:, plus b[k]}: each filter slides over the image",
   "dw = x slid over dy; dx = dy slid over w turned by 180 degrees; db = sum of dy"},
  {"fused_conv2d", "x w b r", "y = conv2d(x, w){b:, plus b[k]}{r:, plus r}; then max(y, 0) if a relu is part of it", "as of conv2d, the sum and relu one by one"},
  {"linear", "x w b", "y = x @ T(w){b: + b}", "dx = dy @ w; dw = T(dy) @ x; db = sum of dy over the rows"},
  {"mlp", "x w b", "y = several linear layers with an activation between them", "as linear and the activation, last layer first"},
  {"matmul", "a b", "y = a @ b", "da = dy @ T(b); db = T(a) @ dy"},
  {"batch_norm", "x r w b", "y = w (x - m) / s + b, with mean m and standard deviation s of each channel in the batch",
   "dx = w/s (dy - mean(dy) - xn mean(dy xn)), where xn = (x - m) / s; dw = sum of dy xn; db = sum of dy"},
  {"batch_norm_relu", "x r w b", "y = max(w (x - m) / s + b, 0), with mean m and standard deviation s of each channel in the batch",
   "g = dy where y > 0, else 0; dx = w/s (g - mean(g) - xn mean(g xn)), where xn = (x - m) / s; dw = sum of g xn; db = sum of g"},
  {"batch_norm_add_relu", "x r w b", "y = max(w (x - m) / s + b + r, 0), with mean m and standard deviation s of each channel in the batch; r comes over the shortcut",
   "g = dy where y > 0, else 0; dr = g; dx = w/s (g - mean(g) - xn mean(g xn)), where xn = (x - m) / s; dw = sum of g xn; db = sum of g"},
  {"batch_norm_relu_conv2d", "x w b f", "y = conv2d(z, f), where z = batch_norm_relu(x, w, b)", "as of conv2d, then as of batch_norm_relu"},
  {"layer_norm", "x w b", "y = {w:w }(x - m) / s{b: + b}, with mean m and standard deviation s of each row",
   "dx = 1/s (g - mean(g) - xn mean(g xn)), where g = w dy, xn = (x - m) / s; dw = sum of dy xn; db = sum of dy"},
  {"group_norm", "x w b", "y = {w:w }(x - m) / s{b: + b}, with mean m and standard deviation s of each image's groups of channels",
   "dx = 1/s (g - mean(g) - xn mean(g xn)), where g = w dy, xn = (x - m) / s; dw = sum of dy xn; db = sum of dy"},
  {"lstm", "x h c w b", "y[t] = sigmoid(o) tanh(c), where c = sigmoid(f) c + sigmoid(i) tanh(g), and i, f, g, o are the parts of x[t] + w y[t-1]{b: + b}",
   "from the last t back, with the gradient d of i, f, g, o: dx[t] = d; dh = T(w) d; dc = dc sigmoid(f); dw = sum of d T(h); db = sum of d"},
  {"scaled_dot_product_attention", "q k v", "y = w @ v, where w = softmax(q @ T(k) scale) over the keys that a query may see",
   "dv = T(w) @ dy; ds = w (dy @ T(v) - sum of dy y) scale; dq = ds @ k; dk = T(ds) @ q"},
  {"dropout", "x", "y = x / (1-p) for a random part 1-p of the elements, 0 for the others", "dx = dy / (1-p) for the same elements, 0 for the others"},
  {"max_pool2d", "x", "y = the largest x of each window", "dx = dy at the place of that largest one, 0 elsewhere"},
  {"avg_pool2d", "x", "y = the mean of x over each window", "dx = dy / (size of the window), added up where windows overlap"},
  {"adaptive_avg_pool2d", "x", "y = the mean of x over each of the parts into which the image is divided", "dx = dy / (size of the part)"},
  {"upsample", "x", "y = x enlarged, by copies or by weighted means of neighbours", "dx = the sum of dy over the pixels that x has gone into, with the same weights"},
  {"roi_align", "x", "y = the mean of x at evenly spread points of each bin of each box, between the pixels by weighted means", "dx = dy added to the pixels with the same weights"},
  {"roi_align_grad", "x", "y = x, which is one number for each bin, added to the pixels that the bin reads, with their weights", "dx = dy pooled with the same weights"},
  {"resample", "x", "y = weighted means of neighbours in x", "dx = the sum of dy over the pixels that x has gone into, with the same weights"},

  // activations
  {"relu", "x", "y = max(x, 0)", "dx = dy where y > 0, else 0"},
  {"leaky_relu", "x", "y = x where x > 0, else slope x", "dx = dy where x > 0, else slope dy"},
  {"elu", "x", "y = x where x > 0, else alpha (exp(x) - 1)", "dx = dy where x > 0, else alpha exp(x) dy"},
  {"gelu", "x", "y = x P(x), where P is the normal distribution function", "dx = dy (P(x) + x p(x)), where p is the normal density"},
  {"silu", "x", "y = x s, where s = 1 / (1 + exp(-x))", "dx = dy s (1 + x (1 - s))"},
  {"sigmoid", "x", "y = 1 / (1 + exp(-x))", "dx = dy y (1 - y)"},
  {"tanh", "x", "y = tanh(x)", "dx = dy (1 - y^2)"},
  {"softplus", "x", "y = log(1 + exp(x))", "dx = dy / (1 + exp(-x))"},
  {"hardtanh", "x", "y = x, but at least low and at most high", "dx = dy strictly between the two, else 0"},
  {"relu6", "x", "y = x, but at least 0 and at most 6", "dx = dy strictly between the two, else 0"},
  {"hardsigmoid", "x", "y = x, but at least 0 and at most 6", "dx = dy strictly between the two, else 0"},
  {"hardswish", "x", "y = x (x + 3) / 6, but 0 below -3 and x above 3", "dx = dy (x / 3 + 1/2) between -3 and 3, 0 up to -3, dy from 3 on"},
  {"softmax", "x", "y = exp(x) / sum of exp(x)", "dx = y (dy - sum of dy y)"},
  {"log_softmax", "x", "y = x - log(sum of exp(x))", "dx = dy - softmax(x) (sum of dy)"},

  // losses
  {"cross_entropy", "x", "y = log(sum over the classes of exp(x)) - x[label] for each row: how unlikely the model holds its label", "dx = dy (softmax(x), less 1 at the label)"},
  {"nll_loss", "x", "y = -x[label] for each row", "dx = -dy at the label, 0 elsewhere"},
  {"mse_loss", "x t", "y = (x - t)^2", "dx = 2 dy (x - t); dt = -dx"},
  {"smooth_l1_loss", "x t", "y = (x - t)^2 / (2 beta) where |x - t| < beta, else |x - t| - beta / 2", "dx = dy (x - t) / beta where |x - t| < beta, else dy sign(x - t); dt = -dx"},
  {"binary_cross_entropy", "x t", "y = -(t log(x) + (1 - t) log(1 - x))", "dx = dy (x - t) / (x (1 - x))"},

  // arithmetic
  {"add", "a b", "y = a + b", "da = dy; db = dy"},
  {"sub", "a b", "y = a - b", "da = dy; db = -dy"},
  {"mul", "a b", "y = a b", "da = dy b; db = dy a"},
  {"div", "a b", "y = a / b", "da = dy / b; db = -dy a / b^2"},
  {"pow", "a b", "y = a^b", "da = dy b a^(b-1); db = dy y log(a)"},
  {"neg", "x", "y = -x", "dx = -dy"},
  {"abs", "x", "y = |x|", "dx = dy sign(x)"},
  {"square", "x", "y = x^2", "dx = 2 dy x"},
  {"sqrt", "x", "y = sqrt(x)", "dx = dy / (2 y)"},
  {"rsqrt", "x", "y = 1 / sqrt(x)", "dx = -dy y^3 / 2"},
  {"reciprocal", "x", "y = 1 / x", "dx = -dy y^2"},
  {"exp", "x", "y = exp(x)", "dx = dy y"},
  {"exp2", "x", "y = 2^x", "dx = dy y log(2)"},
  {"expm1", "x", "y = exp(x) - 1", "dx = dy (y + 1)"},
  {"log", "x", "y = log(x)", "dx = dy / x"},
  {"log1p", "x", "y = log(1 + x)", "dx = dy / (1 + x)"},
  {"log2", "x", "y = log(x) / log(2)", "dx = dy / (x log(2))"},
  {"log10", "x", "y = log(x) / log(10)", "dx = dy / (x log(10))"},
  {"sin", "x", "y = sin(x)", "dx = dy cos(x)"},
  {"cos", "x", "y = cos(x)", "dx = -dy sin(x)"},
  {"tan", "x", "y = tan(x)", "dx = dy (1 + y^2)"},
  {"asin", "x", "y = asin(x)", "dx = dy / sqrt(1 - x^2)"},
  {"acos", "x", "y = acos(x)", "dx = -dy / sqrt(1 - x^2)"},
  {"atan", "x", "y = atan(x)", "dx = dy / (1 + x^2)"},
  {"sinh", "x", "y = sinh(x)", "dx = dy cosh(x)"},
  {"cosh", "x", "y = cosh(x)", "dx = dy sinh(x)"},
  {"asinh", "x", "y = asinh(x)", "dx = dy / sqrt(x^2 + 1)"},
  {"acosh", "x", "y = acosh(x)", "dx = dy / sqrt(x^2 - 1)"},
  {"atanh", "x", "y = atanh(x)", "dx = dy / (1 - x^2)"},
  {"erf", "x", "y = erf(x)", "dx = dy 2 exp(-x^2) / sqrt(pi)"},
  {"lgamma", "x", "y = log |gamma(x)|", "dx = dy digamma(x)"},
  {"digamma", "x", "y = the derivative of lgamma", "dx = dy polygamma(1, x)"},
  {"polygamma", "x", "y = derivative n of digamma", "dx = dy polygamma(n + 1, x)"},
  {"erfinv", "x", "y with erf(y) = x", "dx = dy sqrt(pi) / 2 exp(y^2)"},
  {"atan2", "a b", "y = the angle of the point (b, a)", "da = dy b / (a^2 + b^2); db = -dy a / (a^2 + b^2)"},
  {"hypot", "a b", "y = sqrt(a^2 + b^2)", "da = dy a / y; db = dy b / y"},
  {"fmod", "a b", "y = a - b trunc(a / b)", "da = dy; db = -dy trunc(a / b)"},
  {"remainder", "a b", "y = a - b floor(a / b)", "da = dy; db = -dy floor(a / b)"},
  {"maximum", "a b", "y = the larger of a and b", "dy goes to the larger one, half of it to each where they are equal"},
  {"minimum", "a b", "y = the smaller of a and b", "dy goes to the smaller one, half of it to each where they are equal"},
  {"clamp", "x", "y = x, but at least low and at most high", "dx = dy from low to high, else 0"},
  {"where", "a b", "y = a where the condition holds, else b", "da = dy where it holds, else 0; db = dy where it does not, else 0"},
  {"sign", "x", "y = 1, 0 or -1", "dx = 0"},
  {"floor", "x", "y = x rounded down", "dx = 0"},
  {"ceil", "x", "y = x rounded up", "dx = 0"},
  {"round", "x", "y = x rounded", "dx = 0"},
  {"trunc", "x", "y = x rounded towards 0", "dx = 0"},

  // reductions
  {"sum", "x", "y = sum of x", "dx = dy, for every element that was added"},
  {"mean", "x", "y = sum of x / n", "dx = dy / n"},
  {"prod", "x", "y = product of x", "dx = dy times the product of the other elements"},
  {"var", "x", "y = sum of (x - mean)^2 / (n - 1)", "dx = 2 dy (x - mean) / (n - 1)"},
  {"std", "x", "y = sqrt(sum of (x - mean)^2 / (n - 1))", "dx = dy (x - mean) / (y (n - 1))"},
  {"norm", "x", "y = sqrt(sum of x^2)", "dx = dy x / y"},
  {"logsumexp", "x", "y = log(sum of exp(x))", "dx = dy softmax(x)"},
  {"amax", "x", "y = the largest x", "dx = dy at the largest, divided among equal ones"},
  {"amin", "x", "y = the smallest x", "dx = dy at the smallest, divided among equal ones"},
  {"max", "x", "y = the largest x", "dx = dy at the largest, 0 elsewhere"},
  {"min", "x", "y = the smallest x", "dx = dy at the smallest, 0 elsewhere"},
  {"cumsum", "x", "y[i] = x[0] + ... + x[i]", "dx[i] = dy[i] + ... + dy[n-1]"},
  {"cumprod", "x", "y[i] = x[0] * ... * x[i]", "dx[i] = sum over j from i on of dy[j] times the product of the other factors of y[j]"},
  {"flip", "x", "y = x in reverse order along some dimensions", "dx = dy in reverse order along the same ones"},
  {"tril", "x", "y = x up to a diagonal of its matrices, 0 above it", "dx = dy up to the same one, 0 above it"},
  {"triu", "x", "y = x from a diagonal of its matrices on, 0 below it", "dx = dy from the same one on, 0 below it"},
  {"cdist", "a b", "y[i,j] = the distance from row i of a to row j of b", "da[i] = sum over j of dy[i,j] times that distance's derivative by a[i]; db[j] likewise"},

  // matrices
  {"cholesky", "a", "y = the lower triangular matrix with y @ T(y) = a",
   "da = the symmetric part of T(inv(y)) @ p @ inv(y), where p is the lower triangle of T(y) @ dy with half its diagonal"},
  {"solve_triangular", "a b", "y = the solution of a @ y = b, where a is triangular", "db = the solution of T(a) @ db = dy; da = the same triangle of -db @ T(y)"},
  {"det", "a", "y = det(a)", "da = dy y T(inv(a))"},
  {"slogdet", "a", "y = the sign of det(a), and log |det(a)|", "da = dy T(inv(a)), with dy of the logarithm"},
  {"pinv", "a", "y = the pseudo-inverse of a", "da = -T(y) @ dy @ T(y), and a term for each side on which a has no inverse"},
  {"matrix_exp", "a", "y = 1 + a + a @ a / 2 + a @ a @ a / 6 + ...", "da = the upper right block of exp([[T(a), dy], [0, T(a)]])"},
  {"sort", "x", "y = x in order", "dx = dy, each at the place where its element was"},
  {"topk", "x", "y = the k largest x", "dx = dy at their places, 0 elsewhere"},

  // places
  {"index_select", "x", "y = rows of x, by their numbers", "dx = dy added to those rows, 0 elsewhere"},
  {"index_sum", "x", "y = rows of x added up by numbers", "dx = the row of dy that each row went to"},
  {"bag_sums", "x f", "y = for each bag the sum{f:, weighted with f,} of its rows of x, or their mean", "dx = dy added to those rows, 0 elsewhere{f:; df = the scalar product of the row of x and that of dy}"},
  {"bag_dots", "x z", "y = the scalar product of a row of x and a row of z for each entry of a bag", "dx = dy times the rows of z; dz = dy times the rows of x"},
  {"bag_maxima", "x", "y = for each bag the largest of its rows of x, in each column", "dx = dy at the first of the largest, 0 elsewhere"},
  {"gather", "x", "y = elements of x, by their places", "dx = dy added at those places, 0 elsewhere"},
  {"scatter_sum", "x", "y = elements of x added up at places", "dx = dy at the place that each element went to"},
  {"scatter_reduce", "x s", "y = the product, the largest or the smallest of x and the elements of s that go to its place", "of a product dy times the other factors; else dy goes to the largest (smallest), divided among equal ones"},
  {"gather_strided", "x", "y = a part of x", "dx = dy at its place, 0 elsewhere"},
  {"scatter_strided", "x", "y = x at a place among zeros", "dx = dy at that place"},
  {"cat", "x", "y = the inputs one after another", "each gets its part of dy"},
  {"pad", "x", "y = x with a border", "dx = dy without the border"},
  {"view", "x", "y = x in another shape", "dx = dy in x's shape"},
  {"reshape", "x", "y = x in another shape", "dx = dy in x's shape"},
  {"flatten", "x", "y = x in another shape", "dx = dy in x's shape"},
  {"squeeze", "x", "y = x without dimensions of size 1", "dx = dy in x's shape"},
  {"unsqueeze", "x", "y = x with a dimension of size 1 more", "dx = dy in x's shape"},
  {"permute", "x", "y = x with its dimensions in another order", "dx = dy with them in the old order"},
  {"transpose", "x", "y = x with two dimensions swapped", "dx = dy with them swapped back"},
  {"expand", "x", "y = x repeated along a dimension of size 1", "dx = sum of dy over the repetitions"},
  {"select", "x", "y = one row of x", "dx = dy at that row, 0 elsewhere"},
  {"narrow", "x", "y = some rows of x", "dx = dy at those rows, 0 elsewhere"},
  {"slice", "x", "y = every n-th row of x (or column, or channel), from one to another", "dx = dy at those rows, 0 elsewhere"},
  {"split", "x", "y = some rows of x", "dx = dy at those rows, 0 elsewhere"},
  {"as_strided", "x", "y = a part of x's memory", "dx = dy added at its places, 0 elsewhere"},
  {"diagonal", "x", "y = the diagonal of x", "dx = dy on the diagonal, 0 elsewhere"},
  {"windows", "x", "y = the windows of x", "dx = dy added where windows overlap"},

  // the same values elsewhere
  {"cast", "x", "y = x in another number type", "dx = dy in x's type"},
  {"to_device", "x", "y = x on another device", "dx = dy back on x's device"},
  {"contiguous", "x", "y = x in another order of memory", "dx = dy"},
  {"clone", "x", "y = a copy of x", "dx = dy"},
  {"assign", "x", "y = x, in place of what was there", "dx = dy"},
  {"write_view", "x v", "y = x, with a part replaced by v", "dx = dy, 0 at that part; dv = dy there"},
  {"checkpoint", "x", "y = f(x), whose ops keep nothing", "f is computed again, and then its ops' gradients"},
};
// clang-format on

bool has_braces(std::string_view text) { return text.find('{') != std::string_view::npos; }

}  // namespace

std::string forward_text(const OpFormula& formula, HasInput has) {
  std::string out;
  std::string_view rest = formula.forward;
  while (has_braces(rest)) {
    const size_t open = rest.find('{'), colon = rest.find(':', open), close = rest.find('}', colon);
    out += rest.substr(0, open);
    if (has(rest.substr(open + 1, colon - open - 1)))
      out += rest.substr(colon + 1, close - colon - 1);
    rest.remove_prefix(close + 1);
  }
  return out.append(rest);
}

std::string backward_text(const OpFormula& formula, HasInput wants) {
  std::string out;
  std::string_view rest = formula.backward;
  while (!rest.empty()) {
    const std::string_view part = rest.substr(0, rest.find("; "));
    rest.remove_prefix(std::min(rest.size(), part.size() + 2));
    const size_t equals = part.find(" = ");
    // "dw = …" is the gradient of the input w; "g = …" a value for the parts that follow.
    const bool is_gradient =
        part.starts_with('d') && equals != std::string_view::npos && equals <= 3;
    if (is_gradient && !wants(part.substr(1, equals - 1))) continue;
    out += out.empty() ? "" : "; ";
    out += part;
  }
  return out;
}

std::span<const OpFormula> all_formulas() { return kFormulas; }

const OpFormula* find_formula(std::string_view op) {
  const auto* const at = std::ranges::find(kFormulas, op, &OpFormula::op);
  return at == std::end(kFormulas) ? nullptr : at;
}

std::string_view input_name(const OpFormula* formula, size_t index) {
  constexpr std::string_view kOthers[] = {"x",  "x2", "x3", "x4", "x5",
                                          "x6", "x7", "x8", "x9", "x10"};
  std::string_view rest = formula == nullptr ? "" : formula->inputs;
  for (size_t i = 0; !rest.empty(); ++i) {
    const std::string_view name = rest.substr(0, rest.find(' '));
    if (i == index) return name;
    rest.remove_prefix(std::min(rest.size(), name.size() + 1));
  }
  return index < std::size(kOthers) ? kOthers[index] : "x...";
}

}  // namespace lathe::report
