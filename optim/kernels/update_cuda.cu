// The optimisers' updates on the GPU: many parameters in one launch. The arithmetic is
// update_math.h, as in the CPU loops. Contract: optim/update.h.
#include "lathe/optim/kernels/element_rules.h"
#include "lathe/optim/kernels/update_frame.cuh"
#include "lathe/optim/kernels/update_math.h"

namespace lathe::optim::cuda {

namespace {

// The rules as functions of one element and its kBuffers buffers. b[] holds the buffers that are
// used, in the order of update.h.
template <class C>
struct SgdPlain {
  static constexpr int kBuffers = 0;
  SgdMath<C> math;
  LATHE_HD C operator()(C p, C g, C*) const { return math.plain(p, g); }
};
template <class C>
struct SgdMomentum {
  static constexpr int kBuffers = 1;
  SgdMath<C> math;
  bool first;
  LATHE_HD C operator()(C p, C g, C* b) const {
    return first ? math.first(p, g, b[0]) : math.later(p, g, b[0]);
  }
};
template <class C>
struct Adam {
  static constexpr int kBuffers = 2;
  AdamMath<C> math;
  LATHE_HD C operator()(C p, C g, C* b) const { return math.adam(p, g, b[0], b[1]); }
};
template <class C>
struct AmsGrad {
  static constexpr int kBuffers = 3;
  AdamMath<C> math;
  LATHE_HD C operator()(C p, C g, C* b) const { return math.amsgrad(p, g, b[0], b[1], b[2]); }
};
template <class C, bool kMomentum, bool kCentered>
struct Rmsprop {
  static constexpr int kBuffers = 1 + kMomentum + kCentered;
  RmspropMath<C> math;
  LATHE_HD C operator()(C p, C g, C* b) const {
    g = math.decayed(p, g);
    const C square = math.mean_square(g, b[0]);
    C d;
    if constexpr (kCentered) {
      d = math.centred_divisor(g, square, b[kBuffers - 1]);
    } else {
      d = math.divisor(square);
    }
    if constexpr (kMomentum) return math.stepped(p, g, d, b[1]);
    return math.stepped(p, g, d);
  }
};

template <class C>
struct Ema {
  static constexpr int kBuffers = 1;
  EmaMath<C> math;
  LATHE_HD C operator()(C p, C x, C* b) const {
    b[0] = math.average(b[0], x);
    return p;
  }
};

// What makes the rule of step t, on the host or on the device.
template <class R>
struct Always {
  using Rule = R;
  Rule rule;
  LATHE_HD Rule at(int64_t) const { return rule; }
  LATHE_HD void set_lr(double lr) { rule.math.lr = static_cast<decltype(rule.math.lr)>(lr); }
};
template <class C>
struct MakeSgd {
  using Rule = SgdMomentum<C>;
  SgdMath<C> math;
  LATHE_HD Rule at(int64_t t) const { return {math, t == 1}; }
  LATHE_HD void set_lr(double lr) { math.lr = C(lr); }
};
template <class C>
struct MakeEma {
  using Rule = Ema<C>;
  EmaNumbers o;
  LATHE_HD Rule at(int64_t n) const { return {EmaMath<C>::at_update(n, o)}; }
  LATHE_HD void set_lr(double) {}  // an average has none
};
template <class T, class Make>
struct MakeWithMaster {
  using Rule = WithMaster<T, typename Make::Rule>;
  Make make;
  LATHE_HD Rule at(int64_t t) const { return {make.at(t)}; }
  LATHE_HD void set_lr(double lr) { make.set_lr(lr); }
};
/// Of a rule of element_rules.h.
template <class C, template <class> class R, class Options>
struct MakeRule {
  using Rule = R<C>;
  Options o;
  LATHE_HD Rule at(int64_t t) const { return Rule::at(t, o); }
  LATHE_HD void set_lr(double lr) {
    if constexpr (requires { o.lr; }) o.lr = lr;
  }
};
template <class C, template <class> class R>
struct MakeAdam {
  using Rule = R<C>;
  AdamOptions o;
  bool decoupled;
  LATHE_HD Rule at(int64_t t) const { return {AdamMath<C>::at_step(t, o, decoupled)}; }
  LATHE_HD void set_lr(double lr) { o.lr = lr; }
};

}  // namespace

template <class C>
struct Touches<Ema<C>> {
  static constexpr bool kParam = false, kGradient = true, kBuffersChange = true;
};
template <class C>
struct Touches<LookaheadRule<C>> {
  static constexpr bool kParam = true, kGradient = false, kBuffersChange = true;
};
template <class C>
struct Touches<MuonDirection<C>> {
  static constexpr bool kParam = false, kGradient = true, kBuffersChange = true;
};

namespace {

/// False if the rule of this step changes nothing.
template <class Rule>
__device__ bool is_due(const Rule& rule) {
  if constexpr (requires { rule.due; }) {
    return rule.due;
  } else {
    return true;
  }
}

// An item's arrays are: parameter, gradient, buffers, half copy or null, and the parameter's count
// of updates, this one included, or null.
//
// One block per chunk of 4096 elements of one parameter; the table in the kernel's parameters says
// which. Memory bound: 2 sizeof(T) + sizeof(gradient) + 2 kBuffers sizeof(C) bytes per element, and
// 2 for a half copy (Adam in f32: 28, also with half gradient and copy; in f16 with masters: 30;
// SGD with momentum, half gradient and copy: 20), meant to reach 90 % of the copy bandwidth for a
// network of more than 10^7 parameters: every byte is touched once, in whole 16-byte words. Small
// networks are bound by the launch.
//
// The host makes the rule of a step whose number it knows. Where there is a count, only the device
// knows the number, and perhaps the learning rate: one thread makes the rule for its block (Adam:
// two powers in double, about a microsecond, while other blocks move memory).
template <class T, class Make, class Rule = typename Make::Rule>
__global__ void __launch_bounds__(kChunkThreads)
    update_kernel(ArrayTable<4 + Rule::kBuffers> table, Make make, Rule known, Gate gate,
                  const double* grad_factors, const double* lr, HalfSide half) {
  after_previous_kernel();
  LATHE_SHARED(Rule, rule);
  if (!gate.open_for_block()) return;
  const Chunk chunk = chunk_of_block(table);
  const auto& item = table.item[chunk.item];
  if (threadIdx.x == 0) {
    const auto* const count = static_cast<const int64_t*>(item.array[3 + Rule::kBuffers]);
    if (lr != nullptr) make.set_lr(*lr);  // there is a count then (update.h)
    rule = count != nullptr ? make.at(*count) : known;
  }
  __syncthreads();
  const Rule own = rule;  // in registers: ptxas spills while it reloads a rule of this size
  if (!is_due(own)) return;
  half.copy = item.array[2 + Rule::kBuffers];
  update_chunk<T>(item, chunk, own, GradFactor<ComputeType<T>>::of(grad_factors), half);
}

/// The arrays of an item, as update_kernel wants them.
template <int kBuffers>
ArrayItem<4 + kBuffers> arrays_of(const UpdateItem& item) {
  ArrayItem<4 + kBuffers> entry{item.n, {item.param, const_cast<void*>(item.grad)}};
  int at = 2;
  for (void* buffer : item.buffers) {
    if (buffer != nullptr && at < 2 + kBuffers) entry.array[at++] = buffer;
  }
  if (item.master != nullptr) entry.array[at] = item.master;
  entry.array[2 + kBuffers] = item.copy;
  entry.array[3 + kBuffers] = item.count;
  return entry;
}

template <class T, class Make>
void run_rule(std::span<const UpdateItem> items, const Make& make) {
  constexpr int kBuffers = Make::Rule::kBuffers;
  static_assert(sizeof(ArrayTable<4 + kBuffers>) + sizeof(Make) + sizeof(typename Make::Rule) +
                        sizeof(Gate) + 2 * sizeof(double*) + sizeof(HalfSide) <=
                    4096,
                "the kernel's parameters (limit: 4 KiB)");
  const UpdateItem& front = items.front();
  const HalfSide half{.grad = front.half_grad, .copy_type = front.half_copy};
  for_each_table<4 + kBuffers>(
      items.size(), [&](size_t i) { return arrays_of<kBuffers>(items[i]); },
      [&](const auto& table) {
        launch_dependent(update_kernel<T, Make>, dim3(table.blocks), dim3(kChunkThreads), 0,
                         current_stream(front.device), table, make, make.at(front.step),
                         gate_of(front), front.grad_factors, front.lr, half);
        LATHE_CUDA_CHECK(cudaGetLastError());
      });
}

/// Updates items of one kind. `make.at(t)` is the rule of step t.
template <class T, class Make>
void run(std::span<const UpdateItem> items, const Make& make) {
  if constexpr (is_half(dtype_of<T>)) {
    if (items.front().master != nullptr) return run_rule<T>(items, MakeWithMaster<T, Make>{make});
  }
  run_rule<T>(items, make);
}

/// Updates items of any kinds by a rule of element_rules.h.
template <template <class> class R, class Options>
void update(std::span<const UpdateItem> items, const Options& o) {
  for_each_kind(items, Options::kName, [&](std::span<const UpdateItem> kind, auto tag) {
    using T = typename decltype(tag)::type;
    run<T>(kind, MakeRule<ComputeType<T>, R, Options>{o});
  });
}

}  // namespace

void sgd_update(std::span<const UpdateItem> items, const SGDOptions& o) {
  for_each_kind(items, "SGD", [&](std::span<const UpdateItem> kind, auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    const auto math = SgdMath<C>::of(o);
    if (kind.front().buffers[0] == nullptr) return run<T>(kind, Always<SgdPlain<C>>{{math}});
    run<T>(kind, MakeSgd<C>{math});
  });
}

void adam_update(std::span<const UpdateItem> items, const AdamOptions& o, bool decoupled) {
  for_each_kind(items, "Adam", [&](std::span<const UpdateItem> kind, auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    if (o.amsgrad) return run<T>(kind, MakeAdam<C, AmsGrad>{o, decoupled});
    run<T>(kind, MakeAdam<C, Adam>{o, decoupled});
  });
}

void rmsprop_update(std::span<const UpdateItem> items, const RMSpropOptions& o) {
  for_each_kind(items, "RMSprop", [&](std::span<const UpdateItem> kind, auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    const auto math = RmspropMath<C>::of(o);
    const bool momentum = kind.front().buffers[1] != nullptr;
    if (o.centered && momentum) return run<T>(kind, Always<Rmsprop<C, true, true>>{{math}});
    if (o.centered) return run<T>(kind, Always<Rmsprop<C, false, true>>{{math}});
    if (momentum) return run<T>(kind, Always<Rmsprop<C, true, false>>{{math}});
    run<T>(kind, Always<Rmsprop<C, false, false>>{{math}});
  });
}

void rule_update(std::span<const UpdateItem> items, const AdagradOptions& o) {
  update<AdagradRule>(items, o);
}
void rule_update(std::span<const UpdateItem> items, const AdadeltaOptions& o) {
  update<AdadeltaRule>(items, o);
}
void rule_update(std::span<const UpdateItem> items, const AdamaxOptions& o) {
  update<AdamaxRule>(items, o);
}
void rule_update(std::span<const UpdateItem> items, const NAdamOptions& o) {
  update<NAdamRule>(items, o);
}
void rule_update(std::span<const UpdateItem> items, const RAdamOptions& o) {
  update<RAdamRule>(items, o);
}
void rule_update(std::span<const UpdateItem> items, const LionOptions& o) {
  update<LionRule>(items, o);
}
void rule_update(std::span<const UpdateItem> items, const MuonOptions& o) {
  update<MuonRule>(items, o);
}
void muon_directions(std::span<const UpdateItem> items, const MuonOptions& o) {
  update<MuonDirection>(items, o);
}
void rule_update(std::span<const UpdateItem> items, const LookaheadOptions& o) {
  update<LookaheadRule>(items, o);
}

void ema_update(std::span<const UpdateItem> items, const EmaNumbers& o) {
  for_each_kind(items, "EMA", [&](std::span<const UpdateItem> kind, auto tag) {
    using T = typename decltype(tag)::type;
    run<T>(kind, MakeEma<ComputeType<T>>{o});
  });
}

}  // namespace lathe::optim::cuda
