// Bucket: which gradients lie where.
#include "lathe/distributed/buckets.h"

#include <algorithm>
#include <utility>

#include "lathe/core/ceil_div.h"
#include "lathe/core/copy.h"
#include "lathe/core/dense.h"
#include "lathe/distributed/backend.h"

namespace lathe::distributed {

namespace {

constexpr int64_t kAligned = 64;  // elements between the beginnings of gradients: cache lines

}  // namespace

bool travel_together(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.device() == b.device();
}

Bucket::Bucket(const Tensors& parameters, std::vector<size_t> members)
    : members_(std::move(members)) {
  int64_t at = 0;
  for (const size_t member : members_) {
    parameters_.push_back(parameters[member]);
    offsets_.push_back(at);
    at += round_up(parameters[member].numel(), kAligned);
  }
  offsets_.push_back(at);
}

int64_t Bucket::bytes() const {
  int64_t sum = 0;
  for (const Tensor& p : parameters_) sum += static_cast<int64_t>(bytes_of(p));
  return sum;
}

void Bucket::take_memory(bool fresh) {
  if (!fresh && memory_.defined() && memory_.impl().storage->use_count() == 1) return;
  const Tensor& like = parameters_.front();
  memory_ = empty({offsets_.back() + static_cast<int64_t>(members_.size())},
                  {.dtype = like.dtype(), .device = like.device()});
  fill_values(memory_, 0.0);  // the gaps too, which are added up with the rest
}

Tensor Bucket::gradient(size_t k) const {
  const Tensor& p = parameters_[k];
  return alias(memory_, p.shape(), is_dense(p) ? p.strides() : contiguous_strides(p.shape()),
               offsets_[k]);
}

Tensor Bucket::marks() const {
  const Shape shape({static_cast<int64_t>(members_.size())});
  return alias(memory_, shape, contiguous_strides(shape), offsets_.back());
}

std::vector<Bucket> make_buckets(const Tensors& parameters, const std::vector<size_t>& order,
                                 int64_t first_bytes, int64_t bytes) {
  struct Open {
    std::vector<size_t> members;
    int64_t bytes = 0;
    size_t last = 0;
  };
  std::vector<Open> open, closed;
  for (size_t at = 0; at < order.size(); ++at) {
    const Tensor& p = parameters[order[at]];
    auto mine = std::ranges::find_if(
        open, [&](const Open& o) { return travel_together(parameters[o.members.front()], p); });
    if (mine == open.end()) mine = open.insert(open.end(), Open{});
    mine->members.push_back(order[at]);
    mine->bytes += static_cast<int64_t>(bytes_of(p));
    mine->last = at;
    if (mine->bytes < (closed.empty() ? first_bytes : bytes)) continue;
    closed.push_back(std::move(*mine));
    open.erase(mine);
  }
  std::ranges::move(open, std::back_inserter(closed));
  std::ranges::sort(closed, {}, &Open::last);
  std::vector<Bucket> buckets;
  for (Open& o : closed) buckets.emplace_back(parameters, std::move(o.members));
  return buckets;
}

}  // namespace lathe::distributed
