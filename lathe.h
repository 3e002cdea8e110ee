// The umbrella: everything a program that uses Lathe needs. In the order of the layers.
#pragma once

#include "lathe/core/version.h"
