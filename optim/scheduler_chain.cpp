// SequentialLR, then ChainedLR: checks, rates, and the memory of their parts.
#include "lathe/optim/scheduler_chain.h"

#include <algorithm>
#include <cmath>

namespace lathe::optim {

namespace {

void check_parts(const char* chain, const Optimizer& optimizer,
                 const std::vector<LRScheduler*>& schedules) {
  for (const LRScheduler* part : schedules) {
    LATHE_CHECK(ValueError, part != nullptr && &part->optimizer() == &optimizer, chain,
                ": all schedules must be of this optimizer");
    LATHE_CHECK(ValueError, dynamic_cast<const ChainedLR*>(part) == nullptr, chain,
                ": a ChainedLR cannot be part of another schedule");
  }
}

std::string prefix_of(size_t part) { return concat("part.", part, "."); }

StateDict memory_of(const std::vector<LRScheduler*>& schedules) {
  StateDict out;
  for (size_t i = 0; i < schedules.size(); ++i) out.add_all(prefix_of(i), schedules[i]->memory());
  return out;
}

// All or nothing: if a part refuses its entries, the parts before it get theirs back.
void recall_all(const std::vector<LRScheduler*>& schedules, const StateDict& memory) {
  const StateDict before = memory_of(schedules);
  size_t done = 0;
  try {
    for (; done < schedules.size(); ++done)
      schedules[done]->recall(memory.section(prefix_of(done)));
  } catch (...) {
    for (size_t i = 0; i < done; ++i) schedules[i]->recall(before.section(prefix_of(i)));
    throw;
  }
}

}  // namespace

SequentialLR::SequentialLR(Optimizer& optimizer, std::vector<LRScheduler*> schedules,
                           std::vector<int64_t> milestones)
    : LRScheduler(optimizer), schedules_(std::move(schedules)), milestones_(std::move(milestones)) {
  LATHE_CHECK(ValueError, schedules_.size() == milestones_.size() + 1,
              "SequentialLR: ", schedules_.size(), " schedules need one milestone fewer, got ",
              milestones_.size());
  check_parts("SequentialLR", optimizer, schedules_);
  for (size_t i = 0; i < milestones_.size(); ++i) {
    const int64_t above = i == 0 ? 0 : milestones_[i - 1];
    LATHE_CHECK(ValueError, milestones_[i] > above, "SequentialLR: milestone ", milestones_[i],
                " must be above ", above);
  }
  start();
}

size_t SequentialLR::part_at(int64_t epoch) const {
  return static_cast<size_t>(std::ranges::upper_bound(milestones_, epoch) - milestones_.begin());
}

int64_t SequentialLR::begin_of(size_t part) const { return part == 0 ? 0 : milestones_[part - 1]; }

double SequentialLR::lr_at(int64_t epoch, double before, double initial) const {
  const size_t part = part_at(epoch);
  return schedules_[part]->lr_at(epoch - begin_of(part), before, initial);
}

void SequentialLR::adapt(double metric, int64_t epoch, std::vector<double>& rates) {
  const size_t part = part_at(epoch);
  schedules_[part]->adapt(metric, epoch - begin_of(part), rates);
}

StateDict SequentialLR::memory() const { return memory_of(schedules_); }

void SequentialLR::recall(const StateDict& memory) { recall_all(schedules_, memory); }

ChainedLR::ChainedLR(Optimizer& optimizer, std::vector<LRScheduler*> schedules)
    : LRScheduler(optimizer), schedules_(std::move(schedules)) {
  LATHE_CHECK(ValueError, !schedules_.empty(), "ChainedLR: there are no schedules");
  check_parts("ChainedLR", optimizer, schedules_);
  part_rates_.assign(schedules_.size(), Rates(optimizer.num_groups(), 0.0));
  start();
}

double ChainedLR::lr_at(int64_t, double, double) const {
  throw StateError("ChainedLR: has no formula of its own");
}

ChainedLR::Rates ChainedLR::product(const std::vector<Rates>& parts) const {
  Rates rates;
  for (size_t g = 0; g < optimizer().num_groups(); ++g) {
    const double initial = optimizer().initial_lr(g);
    double rate = initial;
    for (const Rates& part : parts) rate = initial > 0 ? rate * (part[g] / initial) : 0;
    rates.push_back(rate);
  }
  return rates;
}

void ChainedLR::set_rates(int64_t epoch) {
  std::vector<Rates> next = part_rates_;
  for (size_t i = 0; i < schedules_.size(); ++i) {
    for (size_t g = 0; g < next[i].size(); ++g)
      next[i][g] = schedules_[i]->lr_at(epoch, next[i][g], optimizer().initial_lr(g));
  }
  optimizer().set_lrs(product(next));
  part_rates_ = std::move(next);
}

void ChainedLR::adapt(double metric, int64_t epoch, std::vector<double>& rates) {
  for (size_t i = 0; i < schedules_.size(); ++i)
    schedules_[i]->adapt(metric, epoch, part_rates_[i]);
  rates = product(part_rates_);
}

StateDict ChainedLR::memory() const {
  StateDict out = memory_of(schedules_);
  for (size_t i = 0; i < schedules_.size(); ++i) {
    for (size_t g = 0; g < part_rates_[i].size(); ++g)
      out.add_number(concat(prefix_of(i), "group.", g, ".lr"), part_rates_[i][g]);
  }
  return out;
}

void ChainedLR::recall(const StateDict& memory) {
  std::vector<Rates> rates = part_rates_;
  for (size_t i = 0; i < schedules_.size(); ++i) {
    for (size_t g = 0; g < rates[i].size(); ++g) {
      const std::string name = concat(prefix_of(i), "group.", g, ".lr");
      rates[i][g] = memory.number<double>(name);
      LATHE_CHECK(ValueError, std::isfinite(rates[i][g]) && rates[i][g] >= 0, "ChainedLR: ", name,
                  " must be finite and not negative, got ", rates[i][g]);
    }
  }
  recall_all(schedules_, memory);
  part_rates_ = std::move(rates);
}

}  // namespace lathe::optim
