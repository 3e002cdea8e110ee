// From the profiler's ranges to ops beside launches. Contract: measured_step.h.
#include "lathe/train/plan/measured_step.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string_view>
#include <utility>

#include "lathe/core/cuda.h"
#include "lathe/core/seconds_since.h"
#include "lathe/profile/profiler.h"

namespace lathe::plan {
namespace {

using profile::Kind;
using profile::Record;

constexpr int kWarmUps = 2, kMeasured = 5;      // steps
constexpr int kWindows = 5, kWindowSteps = 32;  // of the time from step to step
constexpr double kWindowSeconds = 0.1;

/// What the GPU did for each range itself, in nanoseconds; -1: nothing, or it was not measured.
std::vector<int64_t> own_times(const std::vector<Record>& records,
                               const std::vector<int64_t>& parents, bool has_activities) {
  std::vector<int64_t> own;
  for (const Record& record : records) own.push_back(record.device_ns);
  if (has_activities) return own;
  for (size_t i = 0; i < records.size(); ++i) {
    if (records[i].device_ns < 0) continue;
    int64_t p = parents[i];
    while (p >= 0 && records[static_cast<size_t>(p)].device_ns < 0)
      p = parents[static_cast<size_t>(p)];
    if (p < 0) continue;
    int64_t& outer = own[static_cast<size_t>(p)];
    outer = std::max<int64_t>(outer - records[i].device_ns, 0);
  }
  return own;
}

/// The record that each one's time counts for: itself, or one around it that is a single op in a
/// plan (launch_list.cpp). Those are an update with all that it calls, and an op that wraps another
/// of its name.
std::vector<size_t> owners_of(const std::vector<Record>& records,
                              const std::vector<int64_t>& parents) {
  std::vector<size_t> owners(records.size());
  for (size_t i = records.size(); i-- > 0;) {  // outer ranges first
    owners[i] = i;
    if (parents[i] < 0) continue;
    const size_t outer = owners[static_cast<size_t>(parents[i])];
    const Record &record = records[i], &around = records[outer];
    const std::string_view name = around.name;
    if (around.kind == Kind::kOptimizer || name == "GradScaler.update" ||
        (around.kind == Kind::kOp && record.kind == Kind::kOp && name == record.name))
      owners[i] = outer;
  }
  return owners;
}

bool is_op(const Record& record) {
  return record.kind == Kind::kOp || record.kind == Kind::kBackward ||
         record.kind == Kind::kOptimizer;
}

double median_of(std::vector<double> numbers) {
  const auto middle = numbers.begin() + static_cast<std::ptrdiff_t>(numbers.size() / 2);
  std::ranges::nth_element(numbers, middle);
  return *middle;
}

/// The median of each op's times; of the first step's, if the steps differ in their ops.
std::vector<MeasuredOp> medians(std::vector<std::vector<MeasuredOp>> steps) {
  std::vector<MeasuredOp> result = std::move(steps.front());
  const auto differs = [&](const std::vector<MeasuredOp>& step) {
    return !std::ranges::equal(step, result, {}, &MeasuredOp::op, &MeasuredOp::op);
  };
  if (std::any_of(steps.begin() + 1, steps.end(), differs)) return result;
  for (size_t i = 0; i < result.size(); ++i) {
    std::vector<double> times = {result[i].seconds};
    for (size_t s = 1; s < steps.size(); ++s) times.push_back(steps[s][i].seconds);
    result[i].seconds = median_of(std::move(times));
  }
  return result;
}

/// Seconds from step to step: the host queues some before it waits for the GPU.
double seconds_per_step(const std::function<void()>& step, Device gpu) {
  std::vector<double> times;
  for (int window = 0; window < kWindows; ++window) {
    const auto begin = std::chrono::steady_clock::now();
    int steps = 0;
    do {
      step();
      ++steps;
    } while (steps < kWindowSteps && seconds_since(begin) < kWindowSeconds);
    cuda::synchronize(gpu);
    times.push_back(seconds_since(begin) / steps);
  }
  return median_of(std::move(times));
}

}  // namespace

std::vector<MeasuredOp> measured_ops(const profile::Recording& recording) {
  std::vector<std::pair<int64_t, MeasuredOp>> found;  // by their begins
  for (const profile::ThreadRecords& thread : recording.threads) {
    const std::vector<Record>& records = thread.records;
    const std::vector<int64_t> parents = profile::parents_of(records);
    const std::vector<int64_t> own = own_times(records, parents, recording.has_activities);
    const std::vector<size_t> owners = owners_of(records, parents);
    std::vector<int64_t> times(records.size(), -1);
    for (size_t i = 0; i < records.size(); ++i) {
      int64_t& time = times[owners[i]];
      if (own[i] >= 0) time = std::max<int64_t>(time, 0) + own[i];
    }
    for (size_t i = 0; i < records.size(); ++i) {
      if (times[i] < 0 || !is_op(records[i])) continue;
      std::string name = records[i].name;
      if (records[i].kind == Kind::kBackward) name += " backward";
      found.emplace_back(records[i].begin_ns,
                         MeasuredOp{std::move(name), 1e-9 * static_cast<double>(times[i])});
    }
  }
  std::ranges::stable_sort(found, {}, [](const auto& entry) { return entry.first; });
  std::vector<MeasuredOp> ops;
  for (auto& [begin, op] : found) ops.push_back(std::move(op));
  return ops;
}

MeasuredStep measure_step(const train::StepSetup& setup, Device gpu, int64_t batch) {
  const std::unique_ptr<nn::Module> model = setup.model();
  model->to(gpu).to(setup.channels_last ? kChannelsLast : kContiguous);
  model->train();
  const std::unique_ptr<optim::Optimizer> optimizer = setup.optimizer(*model);
  const Tensors made = setup.batch(batch, gpu);
  train::StepOptions options = setup.options;
  options.accumulate = 1;
  options.capture = false;
  train::Step train_step(*model, *optimizer, setup.loss(*model), options);
  const std::function<void()> step = [&] { train_step(made); };
  for (int i = 0; i < kWarmUps; ++i) step();
  cuda::synchronize(gpu);
  std::vector<std::vector<MeasuredOp>> steps;
  for (int i = 0; i < kMeasured; ++i) {
    profile::Profiler profiler;
    step();
    profiler.stop();
    steps.push_back(measured_ops(profiler.recording()));
  }
  const double seconds = seconds_per_step(step, gpu);
  return {.ops = medians(std::move(steps)), .seconds = seconds};
}

std::vector<std::optional<double>> times_beside(const std::vector<Launch>& launches,
                                                const std::vector<MeasuredOp>& ops) {
  std::map<std::string, std::vector<double>> times;
  for (const MeasuredOp& op : ops) times[op.op].push_back(op.seconds);
  std::map<std::string, std::vector<size_t>> firsts;  // the first launch of each op
  for (size_t i = 0; i < launches.size(); ++i) {
    if (i == 0 || launches[i].number != launches[i - 1].number) firsts[launches[i].op].push_back(i);
  }
  std::vector<std::optional<double>> result(launches.size());
  for (const auto& [op, at] : firsts) {
    const auto measured = times.find(op);
    if (measured == times.end() || measured->second.size() != at.size()) continue;
    for (size_t k = 0; k < at.size(); ++k) result[at[k]] = measured->second[k];
  }
  return result;
}

}  // namespace lathe::plan
