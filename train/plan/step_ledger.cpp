// Lines through two small steps. Contract: step_ledger.h.
#include "lathe/train/plan/step_ledger.h"

#include "lathe/core/error.h"

namespace lathe::plan {

std::vector<Launch> launches_at(int64_t batch, const SmallStep& a, const SmallStep& b) {
  LATHE_CHECK(StateError, a.batch != b.batch && a.launches.size() == b.launches.size(),
              "plan: a step of ", a.batch, " images makes ", a.launches.size(),
              " launches, but a step of ", b.batch, " images makes ", b.launches.size());
  const double t = static_cast<double>(batch - a.batch) / static_cast<double>(b.batch - a.batch);
  std::vector<Launch> result = a.launches;
  for (size_t i = 0; i < result.size(); ++i) {
    Launch& launch = result[i];
    const Launch& other = b.launches[i];
    LATHE_CHECK(StateError, launch.op == other.op && launch.kernel == other.kernel, "plan: launch ",
                i, " is ", launch.op, " (", launch.kernel, ") in a step of ", a.batch,
                " images, but ", other.op, " (", other.kernel, ") in a step of ", b.batch);
    for (double Launch::*const number :
         {&Launch::read_bytes, &Launch::written_bytes, &Launch::flops, &Launch::again_bytes,
          &Launch::extra_bytes, &Launch::masked_bytes})
      launch.*number += t * (other.*number - launch.*number);
  }
  return result;
}

KindSum sum_of(const std::vector<Launch>& launches, LaunchKind kind) {
  KindSum sum;
  for (const Launch& launch : launches) {
    if (launch.kind != kind) continue;
    ++sum.launches;
    sum.bytes += launch.bytes();
    sum.extra_bytes += launch.extra_bytes;
    sum.flops += launch.flops;
  }
  return sum;
}

}  // namespace lathe::plan
