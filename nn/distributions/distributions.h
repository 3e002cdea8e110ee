// All probability distributions. lathe.h does not include them.
#pragma once

#include "lathe/nn/distributions/combined.h"
#include "lathe/nn/distributions/continuous.h"
#include "lathe/nn/distributions/discrete.h"
#include "lathe/nn/distributions/distribution.h"
#include "lathe/nn/distributions/kl.h"
#include "lathe/nn/distributions/multivariate.h"
