// A simulation that trains a network while it runs, from C.
//
// u(x, t) spreads and grows: du/dt = D u_xx + r(u), with r(u) = u (1 - u) (Fisher 1937). In the
// first half of the time loop a network learns r from the values at the grid's points. In the
// second half it stands for r, and is compared with it.
//
//   reaction reaction.pt2
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "lathe/lathe_c.h"

enum { kPoints = 64, kSteps = 4000 };

static void check(lathe_status status) {
  if (status == LATHE_OK) return;
  fprintf(stderr, "%s\n", lathe_last_error());
  exit(1);
}

// One step of Euler's method, with the values of r at each point.
static void advance(double* u, const double* r) {
  const double dt = 0.01, spread = 0.2;  // D dt / dx²
  double next[kPoints];
  for (int i = 0; i < kPoints; ++i) {
    const double left = u[i == 0 ? 0 : i - 1], right = u[i == kPoints - 1 ? i : i + 1];
    next[i] = u[i] + spread * ((left - u[i]) + (right - u[i])) + dt * r[i];
  }
  for (int i = 0; i < kPoints; ++i) u[i] = next[i];
}

int main(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: reaction reaction.pt2\n");
    return 2;
  }
  double u[kPoints], r[kPoints];
  for (int i = 0; i < kPoints; ++i) u[i] = i < 8 ? 0.5 : 0;

  // Tensors over the arrays: nothing is copied in the loop.
  const int64_t sizes[2] = {kPoints, 1};
  lathe_tensor *input = NULL, *target = NULL;
  check(lathe_tensor_wrap(u, LATHE_F64, 2, sizes, NULL, NULL, NULL, &input));
  check(lathe_tensor_wrap(r, LATHE_F64, 2, sizes, NULL, NULL, NULL, &target));

  lathe_model* model = NULL;
  lathe_optimizer* optimizer = NULL;
  check(lathe_model_load(argv[1], &model));
  check(lathe_optimizer_new(model, "adam", "lr=0.01", &optimizer));

  const lathe_tensor* inputs[1] = {input};
  for (int step = 0; step < kSteps; ++step) {
    for (int i = 0; i < kPoints; ++i) r[i] = u[i] * (1 - u[i]);
    double loss = 0;
    check(lathe_train_step(model, optimizer, "mse", 1, inputs, target, &loss));
    if (step % 1000 == 0) printf("step %4d  loss %.17g\n", step, loss);
    advance(u, r);
    if (step % 200 == 199) {  // the wave starts again, as only the beginning teaches all values
      for (int i = 0; i < kPoints; ++i) u[i] = i < 8 ? 0.5 : 0;
    }
  }

  check(lathe_model_set_training(model, 0));
  double exact[kPoints], worst = 0;
  for (int i = 0; i < kPoints; ++i) exact[i] = u[i];
  for (int step = 0; step < 200; ++step) {
    for (int i = 0; i < kPoints; ++i) r[i] = exact[i] * (1 - exact[i]);
    advance(exact, r);
    lathe_tensor* output = NULL;
    void* values = NULL;
    check(lathe_model_forward(model, 0, 1, inputs, 1, &output));
    check(lathe_tensor_data(output, &values));
    advance(u, values);
    check(lathe_tensor_free(output));
  }
  for (int i = 0; i < kPoints; ++i) {
    const double difference = u[i] < exact[i] ? exact[i] - u[i] : u[i] - exact[i];
    if (difference > worst) worst = difference;
  }
  printf("largest difference after 200 steps with the network: %.17g\n", worst);

  check(lathe_optimizer_free(optimizer));
  check(lathe_model_free(model));
  check(lathe_tensor_free(input));
  check(lathe_tensor_free(target));
  return worst < 0.01 ? 0 : 1;
}
