// The machine and the build as one row: what `lathe info --json` prints and env.json keeps.
#pragma once

#include "lathe/tools/cli/row.h"

namespace lathe::cli {

Row environment_row();

}  // namespace lathe::cli
