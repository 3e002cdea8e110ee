// The optimisers by the names of `lathe train --optimizer` and lathe_optimizer_new().
#pragma once

#include <string_view>

#include "lathe/optim/adadelta.h"
#include "lathe/optim/adafactor.h"
#include "lathe/optim/adagrad.h"
#include "lathe/optim/adam.h"
#include "lathe/optim/adamax.h"
#include "lathe/optim/lamb.h"
#include "lathe/optim/lars.h"
#include "lathe/optim/lion.h"
#include "lathe/optim/muon.h"
#include "lathe/optim/nadam.h"
#include "lathe/optim/novograd.h"
#include "lathe/optim/radam.h"
#include "lathe/optim/rmsprop.h"
#include "lathe/optim/sgd.h"

namespace lathe::optim {

inline constexpr std::string_view kOptimizerNames =
    "sgd, adam, adamw, rmsprop, lars, lamb, novograd, adagrad, adadelta, adamax, nadam, radam, "
    "lion, muon, adafactor";

/// Calls f.operator()<Optimizer, Options, Group>() with the types of the optimiser of that name:
/// SGD, SGDOptions and SGDGroup for "sgd".
/// → what f returns, of one type for all optimisers
/// throws: ValueError for a name that is not one of kOptimizerNames.
template <class F>
auto with_optimizer(std::string_view name, F f) {
  if (name == "sgd") return f.template operator()<SGD, SGDOptions, SGDGroup>();
  if (name == "adam") return f.template operator()<Adam, AdamOptions, AdamGroup>();
  if (name == "adamw") return f.template operator()<AdamW, AdamWOptions, AdamGroup>();
  if (name == "rmsprop") return f.template operator()<RMSprop, RMSpropOptions, RMSpropGroup>();
  if (name == "lars") return f.template operator()<LARS, LARSOptions, LARSGroup>();
  if (name == "lamb") return f.template operator()<LAMB, LAMBOptions, LAMBGroup>();
  if (name == "novograd") return f.template operator()<NovoGrad, NovoGradOptions, NovoGradGroup>();
  if (name == "adagrad") return f.template operator()<Adagrad, AdagradOptions, AdagradGroup>();
  if (name == "adadelta") return f.template operator()<Adadelta, AdadeltaOptions, AdadeltaGroup>();
  if (name == "adamax") return f.template operator()<Adamax, AdamaxOptions, AdamaxGroup>();
  if (name == "nadam") return f.template operator()<NAdam, NAdamOptions, NAdamGroup>();
  if (name == "radam") return f.template operator()<RAdam, RAdamOptions, RAdamGroup>();
  if (name == "lion") return f.template operator()<Lion, LionOptions, LionGroup>();
  if (name == "muon") return f.template operator()<Muon, MuonOptions, MuonGroup>();
  if (name == "adafactor")
    return f.template operator()<Adafactor, AdafactorOptions, AdafactorGroup>();
  LATHE_FAIL(ValueError, "the optimiser \"", name, "\" is not one of ", kOptimizerNames);
}

}  // namespace lathe::optim
