// One of each RuleOptimizer, for the tests that ask the same of every optimiser.
#pragma once

#include <vector>

#include "lathe/optim/adadelta.h"
#include "lathe/optim/adagrad.h"
#include "lathe/optim/adamax.h"
#include "lathe/optim/lion.h"
#include "lathe/optim/nadam.h"
#include "lathe/optim/radam.h"
#include "make_optimizer.h"

namespace lathe::test {

inline std::vector<MakeOptimizer> rule_optimizers(bool master_weights = false) {
  const auto one = [&]<class O, class Options>(Options options) {
    options.weight_decay = 0.1;
    options.master_weights = master_weights;
    return make<O>(options);
  };
  using namespace optim;
  return {one.operator()<Adagrad>(AdagradOptions{.lr_decay = 0.1, .initial_accumulator_value = 1}),
          one.operator()<Adadelta>(AdadeltaOptions{}),
          one.operator()<Adamax>(AdamaxOptions{}),
          one.operator()<NAdam>(NAdamOptions{}),
          one.operator()<RAdam>(RAdamOptions{.betas = {0.9, 0.75}}),  // divides from step 6 on
          one.operator()<Lion>(LionOptions{})};
}

/// `others`, then these.
inline std::vector<MakeOptimizer> with_rule_optimizers(std::vector<MakeOptimizer> others,
                                                       bool master_weights = false) {
  for (MakeOptimizer& o : rule_optimizers(master_weights)) others.push_back(std::move(o));
  return others;
}

}  // namespace lathe::test
