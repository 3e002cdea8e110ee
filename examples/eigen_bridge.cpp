// Least squares twice over the same memory: gradient descent by Lathe, the solution by Eigen.
#include <lathe/bridge/eigen.h>
#include <lathe/lathe.h>

#include <Eigen/QR>
#include <iostream>

namespace bridge = lathe::bridge;

int main() {
  Eigen::MatrixXf a = Eigen::MatrixXf::Random(200, 3);
  Eigen::VectorXf b = a * Eigen::Vector3f(1, -2, 3);
  lathe::Tensor x = bridge::as_tensor(a);  // [200,3], a's memory
  lathe::Tensor y = bridge::as_tensor(b);  // [200]

  lathe::nn::Linear model(3, 1);
  lathe::optim::Adam opt(model.parameters(), {.lr = 0.1});
  for (int i = 0; i < 300; ++i) {
    opt.zero_grad();
    lathe::mse_loss(model(x).squeeze(1), y).backward();
    opt.step();
  }

  // The weight's memory, [1,3]. A parameter requires grad; detach() shares its memory.
  auto w = bridge::as_eigen<const Eigen::RowVectorXf>(model.weight.detach());
  Eigen::RowVectorXf exact = a.colPivHouseholderQr().solve(b).transpose();
  std::cout << "Lathe " << w << "\nEigen " << exact << '\n'
            << ((w - exact).norm() < 0.01f ? "equal" : "different") << '\n';
}
