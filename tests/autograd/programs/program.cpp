// A program as text; see program.h.
#include "program.h"

#include <array>

namespace lathe::programs {

namespace {

std::string name(int variable) { return "x" + std::to_string(variable); }

template <class Numbers>
std::string list(const Numbers& numbers) {
  std::string text = "[";
  for (const auto number : numbers) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(static_cast<long long>(number));
  }
  return text + "]";
}

std::string names(const Statement& s, size_t from) {
  std::string text = "[";
  for (size_t i = from; i < s.in.size(); ++i) text += (i > from ? ", " : "") + name(s.in[i]);
  return text + "]";
}

template <class... Numbers>
std::string call(const std::string& method, Numbers... numbers) {
  std::string text = "." + method + "(";
  const std::array<int64_t, sizeof...(numbers)> all{numbers...};
  for (size_t i = 0; i < all.size(); ++i) text += (i > 0 ? ", " : "") + std::to_string(all[i]);
  return text + ")";
}

std::string view_text(const Statement& s, const std::string& x) {
  switch (s.op) {
    case Op::kNarrow: return x + call("narrow", s.i, s.j, s.k);
    case Op::kSlice:
      return x + "[" +
             [&] {
               std::string before;
               for (int64_t d = 0; d < s.i; ++d) before += ":, ";
               return before;
             }() +
             std::to_string(s.j) + ":" + std::to_string(s.k) + ":" + std::to_string(s.l) + "]";
    case Op::kSelect: return x + call("select", s.i, s.j);
    case Op::kTranspose: return x + call("transpose", s.i, s.j);
    case Op::kPermute: return x + ".permute(" + list(s.dims) + ")";
    case Op::kView: return x + ".view(" + list(s.dims) + ")";
    case Op::kReshape: return x + ".reshape(" + list(s.dims) + ")";
    case Op::kExpand: return x + ".expand(" + list(s.dims) + ")";
    case Op::kUnsqueeze: return x + call("unsqueeze", s.i);
    case Op::kAsStrided:
      return x + ".as_strided(" + list(s.dims) + ", " + list(s.strides) + ", " +
             std::to_string(s.i) + ")";
    default: return x + ".detach()" + (s.i != 0 ? ".requires_grad_()" : "");
  }
}

std::string new_text(const Statement& s, const std::string& x) {
  const std::string y = s.in.size() > 1 ? name(s.in[1]) : "";
  switch (s.op) {
    case Op::kAdd: return x + " + " + y;
    case Op::kSub: return x + " - " + y;
    case Op::kMul: return x + " * " + y;
    case Op::kMaximum: return "torch.maximum(" + x + ", " + y + ")";
    case Op::kMatmul: return x + " @ " + y;
    case Op::kWhere:
      return "torch.where(mask(" + list(s.dims) + ", " + list(s.data) + "), " + x + ", " + y + ")";
    case Op::kCat: return "torch.cat(" + names(s, 0) + ", " + std::to_string(s.i) + ")";
    case Op::kStack: return "torch.stack(" + names(s, 0) + ", " + std::to_string(s.i) + ")";
    case Op::kSum: return x + ".sum(" + list(s.dims) + (s.i != 0 ? ", True)" : ")");
    case Op::kNeg: return "-" + x;
    case Op::kRelu: return x + ".relu()";
    case Op::kAbs: return x + ".abs()";
    case Op::kSquare: return x + ".square()";
    case Op::kClone: return x + ".clone()";
    case Op::kClamp: return x + call("clamp", s.i, s.j);
    case Op::kTimes: return x + " * " + std::to_string(s.i);
    case Op::kPlus: return x + " + " + std::to_string(s.i);
    default:
      return x + ".index_select(" + std::to_string(s.i) + ", torch.tensor(" + list(s.data) + "))";
  }
}

std::string in_place_text(const Statement& s, const std::string& x) {
  const std::string y = s.in.size() > 1 ? name(s.in[1]) : "";
  switch (s.op) {
    case Op::kAddInto:
      return x + ".add_(" + y + (s.i == 1 ? ")" : ", alpha=" + std::to_string(s.i) + ")");
    case Op::kSubInto: return x + ".sub_(" + y + ")";
    case Op::kMulInto: return x + ".mul_(" + y + ")";
    case Op::kCopyInto: return x + ".copy_(" + y + ")";
    case Op::kFill: return x + call("fill_", s.i);
    case Op::kZero: return x + ".zero_()";
    case Op::kPlusInto: return x + call("add_", s.i);
    case Op::kTimesInto: return x + call("mul_", s.i);
    case Op::kNegInto: return x + ".neg_()";
    case Op::kReluInto: return x + ".relu_()";
    case Op::kClampInto: return x + call("clamp_", s.i, s.j);
    default:
      return x + ".masked_fill_(mask(" + list(s.dims) + ", " + list(s.data) + "), " +
             std::to_string(s.i) + ")";
  }
}

std::string text_of(const Statement& s) {
  const std::string x = s.in.empty() ? "" : name(s.in[0]);
  const std::string result = s.out < 0 ? "" : name(s.out) + " = ";
  const std::string graph = s.i != 0 ? ", create_graph=True)" : ")";
  switch (s.op) {
    case Op::kLeaf: return result + "leaf(" + list(s.dims) + ", " + list(s.data) + ")";
    case Op::kConstant: return result + "constant(" + list(s.dims) + ", " + list(s.data) + ")";
    case Op::kReadGrad: return result + "gradient_of(" + x + ")";
    case Op::kBackward: return "backward(" + x + ", " + list(s.data) + graph;
    case Op::kGrad: {
      std::string results;
      for (size_t i = 1; i < s.in.size() && s.i != 0; ++i) {
        results += (i > 1 ? ", " : "") + name(s.out + static_cast<int>(i) - 1);
      }
      if (!results.empty()) results += " = ";
      return results + "grad(" + x + ", " + list(s.data) + ", " + names(s, 1) + graph;
    }
    default:
      if (is_view(s.op)) return result + view_text(s, x);
      return is_new(s.op) ? result + new_text(s, x) : in_place_text(s, x);
  }
}

}  // namespace

std::string source(const Program& program) {
  std::string text;
  for (const Statement& s : program.lines) {
    text += s.no_grad ? "with torch.no_grad(): " : "";
    text += text_of(s) + "\n";
  }
  return text;
}

}  // namespace lathe::programs
