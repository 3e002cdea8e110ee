// environment_row(): the machine and the build, for `lathe info --json` and env.json.
#pragma once

#include "lathe/tools/cli/row.h"

namespace lathe::cli {

Row environment_row();

}  // namespace lathe::cli
