// check_bytes(): the check that all stages for whole images share.
#include "lathe/data/transforms/image_stage.h"

#include "lathe/core/error.h"

namespace lathe::data {

void check_bytes(const char* stage, const ImageSpec& in) {
  LATHE_CHECK(DTypeError, in.dtype == kU8, stage, ": the image is ", in.dtype, " already; ", stage,
              " comes before to_float and normalize");
}

}  // namespace lathe::data
