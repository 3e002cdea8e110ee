// Chapter 3b: views share memory. A write through one of them is seen through all, and counted.
#include <lathe/lathe.h>

#include <iostream>
#include <string>

using lathe::Tensor;

/// The values, with " |" between rows.
static std::string values(const Tensor& t) {
  std::string out;
  for (const Tensor& row : t.reshape({-1, t.size(-1)}).unbind()) {
    out += out.empty() ? "" : " |";
    for (const double value : row.to_vector<double>()) out += lathe::concat(' ', value);
  }
  return out;
}

static void print(const char* name, const Tensor& t) { std::cout << name << values(t) << '\n'; }

/// The first line of what f throws.
template <class F>
static void print_error(const F& f) {
  try {
    f();
    std::cout << "  no error\n";
  } catch (const lathe::Error& error) {
    const std::string text = error.what();
    std::cout << "  " << text.substr(0, text.find('\n')) << '\n';
  }
}

int main() {
  const Tensor x = lathe::arange(12, lathe::kF64).reshape({3, 4});
  const Tensor row = x[1], corner = x.slice(0, 1, 3).slice(1, 1, 3), copy = row.clone();
  for (const bool after : {false, true}) {
    if (after) row.mul_(10);
    std::cout << (after ? "after row.mul_(10)\n" : "before\n");
    print("  x       ", x);
    print("  row     ", row);
    print("  corner  ", corner);
    print("  copy    ", copy);
    std::cout << "  version  x " << x.version() << ", row " << row.version() << ", corner "
              << corner.version() << ", copy " << copy.version() << '\n';
  }

  std::cout << "a saved tensor: mul keeps h, at the version that it has then\n";
  const Tensor w = lathe::tensor({1.0, 2.0, 3.0}, lathe::kF64);
  w.requires_grad_();
  const Tensor h = w * 2, y = h * h;
  std::cout << "  version of h " << h.version();
  h.add_(1);
  std::cout << ", after h.add_(1) " << h.version() << '\n';
  print_error([&] { y.sum().backward(); });

  std::cout << "history: a write through a view becomes an op of the base\n";
  const Tensor g = w * 2, tail = g.slice(0, 1, 3);
  std::cout << "  g was made by " << g.grad_fn();
  tail.mul_(10);
  std::cout << ", after tail.mul_(10) by " << g.grad_fn() << '\n';
  g.sum().backward();
  print("  g    ", g.detach());
  print("  dw   ", w.grad());

  std::cout << "broadcasting: b is read with a stride of 0, so its gradient is a sum\n";
  const Tensor m = lathe::ones({2, 3}, lathe::kF64);
  const Tensor b = lathe::tensor({10.0, 20.0, 30.0}, lathe::kF64);
  b.requires_grad_();
  const Tensor dy = lathe::tensor({{1.0, 2.0, 3.0}, {4.0, 5.0, 6.0}}, lathe::kF64);
  (m + b).backward(dy);
  print("  m + b  ", (m + b).detach());
  print("  dy     ", dy);
  print("  db     ", b.grad());
  print_error([&] { b.detach().expand({2, 3}).add_(1); });
}
