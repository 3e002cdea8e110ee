// ZeroRedundancyOptimizer: who keeps what, and the values and the state that ranks exchange.
#include "lathe/distributed/zero_redundancy.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "lathe/autograd/grad_mode.h"
#include "lathe/core/copy.h"
#include "lathe/core/cuda_backend.h"
#include "lathe/core/format.h"
#include "lathe/core/hooks/range.h"
#include "lathe/core/stream.h"
#include "lathe/distributed/buckets.h"
#include "lathe/distributed/control.h"
#include "lathe/distributed/replicate.h"
#include "lathe/distributed/tensor_list.h"

namespace lathe::distributed {

namespace {

/// Parameters smaller than this travel together, up to so many bytes.
constexpr int64_t kTogether = int64_t{1} << 20;

/// The owner of each parameter.
std::vector<int64_t> divide(const Tensors& params, int64_t world_size) {
  const auto size = [&](size_t i) { return params[i].requires_grad() ? params[i].bytes() : 0; };
  std::vector<size_t> order(params.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return size(a) > size(b); });
  std::vector<int64_t> bytes(static_cast<size_t>(world_size)), owners(params.size());
  for (const size_t i : order) {
    const auto least = std::ranges::min_element(bytes);
    owners[i] = least - bytes.begin();
    *least += size(i);
  }
  return owners;
}

/// What all ranks must have alike, a line each.
std::string text_of(const optim::Optimizer& optimizer) {
  std::string out = concat("the optimiser ", optimizer.name(), "\n");
  for (const auto& [name, value] : optimizer.state_dict()) {
    if (name.starts_with("group.")) out += concat(name, " ", value.item<double>(), "\n");
  }
  size_t number = 0;
  for (size_t g = 0; g < optimizer.num_groups(); ++g) {
    for (const Tensor& p : optimizer.params(g))
      out += concat("parameter ", number++, " ", p.dtype(), p.shape(),
                    p.requires_grad() ? "" : " (frozen)", "\n");
  }
  return out;
}

/// Parameters of one owner that travel as one tensor, or a large one by itself.
struct Parcel {
  int64_t owner;
  Tensors params;
  int64_t numel = 0;
};

std::vector<Parcel> parcels_of(const Tensors& params, const std::vector<int64_t>& owners) {
  std::vector<Parcel> out;
  for (size_t i = 0; i < params.size(); ++i) {
    const Tensor& p = params[i];
    const bool is_updated =
        p.requires_grad() || p.grad().defined();  // a frozen one with a gradient
    if (!is_updated || p.numel() == 0) continue;
    const auto fits = [&](const Parcel& parcel) {
      const Tensor& first = parcel.params.front();
      return parcel.owner == owners[i] && travel_together(first, p) &&
             parcel.numel * static_cast<int64_t>(size_of(p.dtype())) + p.bytes() <= kTogether;
    };
    auto parcel = std::ranges::find_if(out, fits);
    if (parcel == out.end()) parcel = out.insert(out.end(), {owners[i], {}});
    parcel->params.push_back(p);
    parcel->numel += p.numel();
  }
  return out;
}

/// f(parameter, its place in `all`) for each parameter.
template <class F>
void for_each_place(const Parcel& parcel, const Tensor& all, F&& f) {
  int64_t at = 0;
  for (const Tensor& p : parcel.params) {
    f(p, alias(all, p.shape(), contiguous_strides(p.shape()), at));
    at += p.numel();
  }
}

}  // namespace

class ZeroRedundancyOptimizer::Shares final : public optim::StateShares {
 public:
  Shares(ProcessGroup& group, const optim::Optimizer& optimizer)
      : group_(&group), params_(optimizer.params()), owners_(divide(params_, group.world_size())) {}

  /// The group may end now.
  void close() { group_ = nullptr; }
  int64_t owner(size_t number) const { return owners_.at(number); }

  bool is_own(size_t number) const override {
    open();  // so that a step fails before it has changed anything
    return owners_[number] == rank_;
  }

  void check_can_exchange() const override {
    if (open().world_size() == 1) return;
    Device asked = kCPU;
    for (const Tensor& p : params_) {
      if (p.device() == asked) continue;
      asked = p.device();
      LATHE_CHECK(StateError,
                  !asked.is_cuda() || !cuda::is_capturing(current_stream(asked)) ||
                      group_->queues_on(asked),
                  "ZeroRedundancyOptimizer: a step whose state is divided among ",
                  group_->world_size(), " ranks cannot be recorded into a graph on ", asked,
                  ", because tensors there travel through host memory; run the step without "
                  "capture");
    }
  }

  void exchange() override {
    ProcessGroup& group = open();
    if (group.world_size() == 1) return;
    const profile::Range range("exchange updated parameters");
    const NoGrad off;
    struct Travel {
      const Parcel* parcel;
      Tensor all;
      Work work;
    };
    const std::vector<Parcel> parcels = parcels_of(params_, owners_);
    std::vector<Travel> travels;
    for (const Parcel& parcel : parcels) {
      const Tensor& first = parcel.params.front();
      Tensor all = first;  // in place, where it travels alone
      if (parcel.params.size() > 1) {
        all = empty({parcel.numel}, {.dtype = first.dtype(), .device = first.device()});
        if (parcel.owner == rank_)
          for_each_place(parcel, all,
                         [](const Tensor& p, const Tensor& at) { copy_values(at, p); });
      }
      travels.push_back({&parcel, all, group.broadcast_(all, parcel.owner)});
    }
    for (Travel& travel : travels) {
      travel.work.wait();
      if (travel.parcel->params.size() == 1 || travel.parcel->owner == rank_) continue;
      for_each_place(*travel.parcel, travel.all, [](const Tensor& p, const Tensor& at) {
        copy_values(p, at);
        p.bump_version();
      });
    }
  }

  StateDict gather(const StateDict& own) const override {
    ProcessGroup& group = open();
    safetensors::Metadata on_gpus;  // the names of these entries; the others are on the CPU
    for (const auto& [name, tensor] : own) {
      if (tensor.device().is_cuda()) on_gpus.emplace(name, "");
    }
    constexpr const char* kWhat = "ZeroRedundancyOptimizer: the state";
    std::vector<safetensors::Header> lists;
    for (const std::string& text : group.all_gather_text(tensor_list(own, on_gpus)))
      lists.push_back(read_tensor_list(group, kWhat, static_cast<int64_t>(lists.size()), text));
    StateDict out;
    for (size_t number = 0; number < owners_.size(); ++number) {
      safetensors::Header& list = lists[static_cast<size_t>(owners_[number])];
      const std::string prefix = concat("state.", number, ".");
      for (; !list.entries.empty(); list.entries.pop_front()) {
        const safetensors::HeaderEntry& entry = list.entries.front();
        if (!entry.name.starts_with(prefix)) break;
        const bool on_gpu = list.metadata.contains(entry.name);
        const Tensor tensor =
            owners_[number] == rank_
                ? own.at(entry.name)
                : empty(entry.shape,
                        {.dtype = entry.dtype, .device = on_gpu ? params_[number].device() : kCPU});
        group.broadcast_(tensor, owners_[number]).wait();
        // One at a time: a GPU has no place for the state of all ranks.
        out.add(entry.name, owners_[number] == rank_ ? tensor : tensor.to(kCPU));
      }
    }
    for (const safetensors::Header& list : lists) {
      if (list.entries.empty()) continue;
      fail_tensor_list(
          group, kWhat, &list - lists.data(),
          concat("its entry \"", list.entries.front().name, "\" is not of its next parameter"));
    }
    return out;
  }

  void failed(const char* call, const char* reason) noexcept override {
    try {
      if (group_ != nullptr) group_->abort(concat("its optimiser's ", call, " failed: ", reason));
    } catch (const std::exception&) {  // out of memory: the others notice when this rank is silent
    }
  }

 private:
  ProcessGroup& open() const {
    LATHE_CHECK(StateError, group_ != nullptr,
                "ZeroRedundancyOptimizer: the optimizer no longer exists, so the state of the "
                "other ranks cannot be collected");
    return *group_;
  }

  ProcessGroup* group_;
  const int64_t rank_ = group_->rank();
  const Tensors params_;
  const std::vector<int64_t> owners_;
};

ZeroRedundancyOptimizer::ZeroRedundancyOptimizer(ProcessGroup& group, optim::Optimizer& optimizer) {
  check_same(group, "ZeroRedundancyOptimizer: the optimisers",
             group.all_gather_text(text_of(optimizer)));
  shares_ = std::make_shared<Shares>(group, optimizer);
  optimizer.share_state(shares_);
}

ZeroRedundancyOptimizer::~ZeroRedundancyOptimizer() { shares_->close(); }

int64_t ZeroRedundancyOptimizer::owner(size_t number) const { return shares_->owner(number); }

}  // namespace lathe::distributed
