// environment_row(): the machine and the build, for `lathe info --json` and env.json.
#pragma once

#include "lathe/train/row.h"

namespace lathe::cli {

train::Row environment_row();

}  // namespace lathe::cli
