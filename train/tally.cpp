// Tally: adding and reading the sums (ScoreTally of ops/, totals of metrics), and their state.
#include "lathe/train/tally.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "lathe/autograd/grad_mode.h"
#include "lathe/core/copy.h"
#include "lathe/core/error.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/views.h"

namespace lathe::train {
namespace {

// The sums of losses alone, where the outputs are no scores.
void add_loss(const ScoreTally& sums, const Tensor& loss, int64_t samples) {
  sums.loss_sum.add_(loss.detach().to(kF64) * static_cast<double>(samples));
  sums.counts.slice(0, 0, 1).add_(samples);
}

}  // namespace

Tally::Tally(TallyOptions options)
    : options_(std::move(options)),
      confusion_(static_cast<size_t>(options_.classes * options_.classes)) {}

void Tally::Numbers::add(const Numbers& more, const std::vector<Metric>& metrics) {
  for (size_t m = 0; m < std::min(totals.size(), more.totals.size()); ++m) {
    const size_t here = totals[m].size(), there = more.totals[m].size();
    LATHE_CHECK(ShapeError, here == there || here == 0 || there == 0, "tally: metric ",
                metrics[m].name(), " has ", there, " sums, but ", here, " before");
  }
  count += more.count;
  top1 += more.top1;
  top5 += more.top5;
  loss_sum += more.loss_sum;
  totals.resize(std::max(totals.size(), more.totals.size()));
  for (size_t m = 0; m < more.totals.size(); ++m) {
    totals[m].resize(std::max(totals[m].size(), more.totals[m].size()));
    for (size_t i = 0; i < more.totals[m].size(); ++i) totals[m][i] += more.totals[m][i];
  }
}

void Tally::add_to_sums(const Result& r) {
  const NoGrad off;
  if (options_.scores) {
    tally_scores_(*sums_, r.output.detach(), r.target, r.loss.detach());
  } else {
    add_loss(*sums_, r.loss, r.samples);
  }
  for (Metric& metric : options_.metrics) metric.add(r);
}

void Tally::add(const Result& r) {
  const Device device = r.loss.device();
  if (!sums_) sums_ = make_score_tally(device, options_.classes);
  add_to_sums(r);
  count_ += r.samples;
  if (device.is_cpu()) read_numbers();
}

void Tally::record(const Result& r) {
  LATHE_CHECK(StateError, sums_.has_value(),
              "Tally: a batch must be added before a CUDA graph is recorded");
  add_to_sums(r);
}

void Tally::clear() {
  std::optional<ScoreTally> kept;
  if (sums_ && sums_->counts.device().is_cuda()) kept = *sums_;
  TallyOptions options = std::move(options_);
  for (Metric& metric : options.metrics) metric.clear();
  *this = Tally(std::move(options));
  sums_ = std::move(kept);
  if (!sums_) return;
  for (const Tensor* t : {&sums_->loss_sum, &sums_->counts, &sums_->confusion}) {
    if (t->defined()) fill_values(*t, 0);
  }
}

void Tally::read_numbers() {
  const std::vector<int64_t> counts = sums_->counts.cpu().to_vector<int64_t>();
  Numbers added{.count = counts[0],
                .top1 = counts[1],
                .top5 = counts[2],
                .loss_sum = sums_->loss_sum.item<double>()};
  for (const Metric& metric : options_.metrics) {
    const Tensor& totals = metric.totals();
    added.totals.push_back(totals.defined() ? totals.cpu().to_vector<double>()
                                            : std::vector<double>());
  }
  read_ = joined_;
  read_.add(added, options_.metrics);
}

void Tally::read() {
  if (!sums_) return;
  read_numbers();
  if (options_.classes > 0) confusion_ = sums_->confusion.cpu().to_vector<int64_t>();
}

void Tally::join(const Tally& other) {
  const Numbers more = other.read_;
  read_.add(more, options_.metrics);
  joined_.add(more, options_.metrics);
  count_ += other.count_;
}

std::vector<double> Tally::numbers() const {
  std::vector<double> out{static_cast<double>(read_.count), static_cast<double>(read_.top1),
                          static_cast<double>(read_.top5), read_.loss_sum};
  for (const std::vector<double>& each : read_.totals)
    out.insert(out.end(), each.begin(), each.end());
  return out;
}

void Tally::set_numbers(const std::vector<double>& numbers) {
  read_.count = static_cast<int64_t>(numbers.at(0));
  read_.top1 = static_cast<int64_t>(numbers.at(1));
  read_.top5 = static_cast<int64_t>(numbers.at(2));
  read_.loss_sum = numbers.at(3);
  size_t at = 4;
  for (std::vector<double>& each : read_.totals) {
    for (double& total : each) total = numbers.at(at++);
  }
  joined_ = read_;
  count_ = read_.count;
  sums_.reset();
}

std::string Tally::layout() const {
  std::string out;
  for (const std::vector<double>& each : read_.totals) out += concat(each.size(), " ");
  return out;
}

void Tally::take_layout(const std::string& of_another) {
  std::istringstream sizes(of_another);
  std::vector<std::vector<double>> totals;
  for (size_t size = 0; sizes >> size;) totals.emplace_back(size);
  if (read_.count == 0) read_.totals = joined_.totals = std::move(totals);
}

Values Tally::values() const {
  Values out;
  if (options_.scores) out.emplace_back("accuracy", accuracy());
  for (size_t m = 0; m < options_.metrics.size(); ++m) {
    const bool there = m < read_.totals.size() && !read_.totals[m].empty();
    const Metric& metric = options_.metrics[m];
    out.emplace_back(metric.name(), there ? metric.value_of(read_.totals[m]) : 0.0);
  }
  return out;
}

StateDict Tally::state_dict() const {
  StateDict out;
  out.add_number("count", joined_.count);
  out.add_number("top1", joined_.top1);
  out.add_number("top5", joined_.top5);
  out.add_number("loss_sum", joined_.loss_sum);
  const ScoreTally added = sums_ ? *sums_ : make_score_tally(kCPU);
  out.add("added.loss_sum", added.loss_sum.cpu());
  out.add("added.counts", added.counts.cpu());
  for (size_t m = 0; m < options_.metrics.size(); ++m) {
    const Metric& metric = options_.metrics[m];
    if (m < joined_.totals.size() && !joined_.totals[m].empty())
      out.add(concat("metric_joined.", metric.name()), tensor(joined_.totals[m]));
    if (metric.totals().defined())
      out.add(concat("metric_added.", metric.name()), metric.totals().cpu());
  }
  return out.clone();
}

void Tally::load_state_dict(const StateDict& state, Device device) {
  Tally loaded(options_);
  loaded.joined_ = {.count = state.count("count"),
                    .top1 = state.count("top1"),
                    .top5 = state.count("top5"),
                    .loss_sum = state.number<double>("loss_sum")};
  loaded.sums_ = make_score_tally(device, options_.classes);
  for (const auto& [name, to] : {std::pair{"added.loss_sum", loaded.sums_->loss_sum},
                                 std::pair{"added.counts", loaded.sums_->counts}}) {
    const Tensor& from = state.at(name);
    LATHE_CHECK(ShapeError, from.shape() == to.shape(), "tally: ", state.full_name(name), " is ",
                from, " instead of ", to);
    LATHE_CHECK(DTypeError, from.dtype() == to.dtype(), "tally: ", state.full_name(name), " is ",
                from, " instead of ", to);
    copy_values(to, from);
  }
  for (const int64_t added : state.at("added.counts").cpu().to_vector<int64_t>()) {
    LATHE_CHECK(ValueError, added >= 0 && added <= kMostCounted,
                "tally: ", state.full_name("added.counts"), " holds ", added);
  }
  for (Metric& metric : loaded.options_.metrics) {
    const std::string joined_name = concat("metric_joined.", metric.name());
    const std::string added_name = concat("metric_added.", metric.name());
    const Tensor *const joined = state.find(joined_name), *const added = state.find(added_name);
    const bool had = joined != nullptr || added != nullptr;  // or the metric is new
    LATHE_CHECK(ValueError, !had || joined != nullptr || loaded.joined_.count == 0,
                "tally: the state does not fit: missing ", state.full_name(joined_name));
    LATHE_CHECK(ValueError,
                !had || added != nullptr || loaded.sums_->counts[0].item<int64_t>() == 0,
                "tally: the state does not fit: missing ", state.full_name(added_name));
    LATHE_CHECK(ShapeError,
                joined == nullptr || added == nullptr || joined->shape() == added->shape(),
                "tally: ", state.full_name(joined_name), " is ", *joined, " but ",
                state.full_name(added_name), " is ", *added);
    loaded.joined_.totals.push_back(joined == nullptr ? std::vector<double>()
                                                      : joined->cpu().to_vector<double>());
    StateDict totals;
    if (added != nullptr) totals.add("totals", *added);
    metric.load_state_dict(totals, device);
  }
  const StateDict own = loaded.state_dict();
  for (const auto& [name, tensor] : state) {
    LATHE_CHECK(ValueError, own.contains(name) || name.starts_with("metric_"),
                "tally: the state does not fit: unexpected ", state.full_name(name));
  }
  loaded.read_numbers();
  loaded.count_ = loaded.read_.count;
  *this = std::move(loaded);
}

}  // namespace lathe::train
