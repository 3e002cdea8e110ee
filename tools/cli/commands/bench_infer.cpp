// lathe bench infer: a model's latency for one input and its throughput for many, called layer by
// layer and as an optimised graph. The two take turns, so that a machine whose speed drifts slows
// both. With --clients also several threads that call one graph, in f32 or in 8-bit integers.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <latch>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "lathe/autograd/grad_mode.h"
#include "lathe/core/compute_alone.h"
#include "lathe/core/cuda.h"
#include "lathe/core/format.h"
#include "lathe/core/memory/host_allocator.h"
#include "lathe/core/printable.h"
#include "lathe/core/random/generator.h"
#include "lathe/core/seconds_since.h"
#include "lathe/core/start_thread.h"
#include "lathe/core/text/count_text.h"
#include "lathe/core/text/formatted.h"
#include "lathe/core/thread_pool.h"
#include "lathe/graph/passes.h"
#include "lathe/graph/quantize/quantize.h"
#include "lathe/nn/module.h"
#include "lathe/ops/random.h"
#include "lathe/tools/cli/commands/bench.h"
#include "lathe/tools/cli/exit_codes.h"
#include "lathe/tools/cli/output.h"
#include "lathe/tools/cli/settings/command.h"
#include "lathe/tools/cli/training/compute.h"
#include "lathe/tools/cli/training/graph_file.h"
#include "lathe/tools/cli/training/inference_graph.h"
#include "lathe/tools/cli/training/model_file.h"
#include "lathe/tools/cli/training/reading_data.h"
#include "lathe/train/row.h"

namespace lathe::cli {
namespace {

using Clock = std::chrono::steady_clock;

/// One way to compute the model.
struct Form {
  const char* name;
  std::function<void(const Tensor& x)> call;
};

struct Latencies {
  std::vector<double> seconds;      // of each call
  uint64_t system_allocations = 0;  // memory taken from the system meanwhile

  double at(double part) const {
    return seconds[static_cast<size_t>(part * static_cast<double>(seconds.size() - 1) + 0.5)];
  }
};

/// Calls f for `seconds`, at least once.
void window(const std::function<void()>& f, double seconds, Device device, Latencies& to) {
  const uint64_t before = host_allocator().stats().system_allocations;
  const auto begin = Clock::now();
  do {
    const auto start = Clock::now();
    f();
    cuda::synchronize(device);
    to.seconds.push_back(seconds_since(start));
  } while (seconds_since(begin) < seconds);
  to.system_allocations += host_allocator().stats().system_allocations - before;
}

/// The forms in turns, after a warm-up of each. Sorted.
std::vector<Latencies> measure_forms(const std::vector<Form>& forms, const Tensor& x,
                                     const TimingOptions& options) {
  std::vector<Latencies> all(forms.size());
  for (const Form& form : forms) {
    Latencies ignored;
    const auto call = [&] { form.call(x); };
    call();
    window(call, options.warm_up_seconds, options.device, ignored);
  }
  for (int64_t i = 0; i < options.windows; ++i) {
    for (size_t f = 0; f < forms.size(); ++f) {
      window([&] { forms[f].call(x); }, options.window_seconds, options.device, all[f]);
    }
  }
  for (Latencies& one : all) std::sort(one.seconds.begin(), one.seconds.end());
  return all;
}

/// What several threads get out of one form that all of them call.
struct Served {
  Latencies times;
  double calls_per_second = 0;
};

/// `clients` threads that call the form again and again, each computing alone, after a warm-up.
Served measure_clients(const Form& form, const Tensor& x, int64_t clients,
                       const TimingOptions& options) {
  std::vector<Latencies> of_each(static_cast<size_t>(clients));
  std::vector<std::exception_ptr> errors(of_each.size());
  std::latch ready(clients + 1);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < of_each.size(); ++i) {
    const auto serve = [&, i] {
      bool waited = false;
      try {
        const NoGrad off;
        const ComputeAlone alone;
        const auto call = [&] { form.call(x); };
        Latencies ignored;
        window(call, options.warm_up_seconds, options.device, ignored);
        waited = true;
        ready.arrive_and_wait();
        window(call, static_cast<double>(options.windows) * options.window_seconds, options.device,
               of_each[i]);
      } catch (...) {
        errors[i] = std::current_exception();
        if (!waited) ready.count_down();
      }
    };
    try {
      threads.push_back(start_thread(formatted("client {} of {}", i, clients), serve));
    } catch (...) {  // the system has no more threads: the others are joined first
      errors[i] = std::current_exception();
      ready.count_down();
    }
  }
  ready.arrive_and_wait();
  const auto begin = Clock::now();
  for (std::thread& thread : threads) thread.join();
  const double seconds = seconds_since(begin);
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  Served served;
  for (const Latencies& one : of_each) {
    served.times.seconds.insert(served.times.seconds.end(), one.seconds.begin(), one.seconds.end());
    // Each has counted what all took.
    served.times.system_allocations =
        std::max(served.times.system_allocations, one.system_allocations);
  }
  std::sort(served.times.seconds.begin(), served.times.seconds.end());
  served.calls_per_second = static_cast<double>(served.times.seconds.size()) / seconds;
  return served;
}

/// What is measured, and the shape of its inputs without the batch.
struct Subject {
  std::string name;
  std::unique_ptr<nn::Module> model;  // null for a graph from a file
  jit::Graph graph;
  Shape input;
};

/// A model that --model names, with random weights, and its graph.
Subject made(Settings& settings, Device device) {
  if (!settings.model) settings.model = "resnet18";
  take_model_file(settings);
  const ModelShape shape{.classes = settings.classes, .in_channels = settings.in_channels};
  Subject s{
      .name = *settings.model, .model = make_model(settings, shape), .graph = {}, .input = {}};
  place_model(*s.model, device, settings);
  s.model->eval();
  const int64_t side = settings.image_size.value_or(32);
  s.input = {shape.in_channels, side, side};
  s.graph = inference_graph(*s.model, s.input, device, settings);
  return s;
}

/// The graph in the file that --weights names.
Subject loaded(const Settings& settings, Device device) {
  const std::string& file = settings.weights;
  Subject s{.name = file, .model = {}, .graph = {}, .input = {}};
  const auto refuse = [&](const std::string& why) {
    throw CommandError(ExitCode::kData, concat(file, ": ", why));
  };
  if (!reading_data([&] { return is_graph_file(file); })) {
    refuse(
        "this file holds weights alone, and bench infer --weights takes a graph (.lathe or .onnx). "
        "To measure a model, name it with --model: its speed does not depend on the weights");
  }
  s.graph = read_graph_file(file).graph;
  if (s.graph.inputs.size() != 1) {
    refuse(concat("bench infer needs a graph with one input; the inputs of this one: ",
                  s.graph.inputs.size()));
  }
  const jit::Type& type = s.graph.values[static_cast<size_t>(s.graph.inputs[0])].type;
  const bool batched = !type.shape.empty() && type.shape[0] == jit::Size{1, 0};
  const bool fixed =
      batched && std::all_of(type.shape.begin() + 1, type.shape.end(),
                             [](const jit::Size& size) { return size.of_batch == 0; });
  if (!fixed || !is_floating(type.dtype)) {
    refuse(
        concat("bench infer needs a floating-point input [N,...] whose other sizes are fixed; the "
               "input of this graph is ",
               to_text(type)));
  }
  double numbers = 1;  // the sizes may be any that the file says
  for (size_t d = 1; d < type.shape.size(); ++d) {
    s.input.push_back(type.shape[d].fixed);
    numbers *= static_cast<double>(type.shape[d].fixed);
  }
  constexpr double kMostNumbers = 3.0 * kMostSide * kMostSide;
  if (numbers > kMostNumbers) {
    refuse(concat("the input of the graph is ", to_text(type), ": more than ", kMostNumbers,
                  " numbers for each image"));
  }
  s.graph.to(device);
  running_graph(file, [&] { jit::optimize_for_inference(s.graph); });
  return s;
}

/// Random inputs show how large numbers get, which is all that speed asks for.
constexpr int64_t kCalibrationInputs = 8;

Tensor input_of(const Subject& s, int64_t batch, Device device, const Settings& settings) {
  Shape shape{batch};
  for (const int64_t size : s.input) shape.push_back(size);
  const jit::Type& type = s.graph.values[static_cast<size_t>(s.graph.inputs[0])].type;
  const Tensor x = randn(shape, {.device = device}).to(type.dtype);
  return x.ndim() == 4 ? in_layout(x, settings) : x;
}

/// The graph in 8-bit integers, for random inputs. With --amp it is made of the model in f32.
jit::Graph in_int8(const Subject& s, Device device, Settings settings) {
  const bool in_half = settings.amp != "off";
  settings.amp = "off";
  jit::Graph graph = in_half ? inference_graph(*s.model, s.input, device, settings) : s.graph;
  running_graph(s.name, [&] {
    const Tensor x = input_of(s, kCalibrationInputs, device, settings);
    if (jit::quantize(graph, {{x}}).layers.empty())
      LATHE_FAIL(ValueError, "--int8: the model has no convolution or linear layer in f32");
  });
  return graph;
}

void check_flags_of_graph(const Invocation& call) {
  for (const char* key : {"model", "stem", "classes", "in-channels", "image-size", "amp"}) {
    if (is_flag_given(call.sources, key))
      throw UsageError(
          formatted("--{}: leave it out, because the graph in --weights determines it", key));
  }
}

/// What a row is about.
struct Measured {
  std::string model, form, amp;
  int64_t batch, clients;
  std::string device, layout;
};

void report(const Output& out, const Measured& m, const Latencies& of, double rate) {
  out.row(Row()
              .add("bench", "infer")
              .add("model", m.model)
              .add("form", m.form)
              .add("amp", m.amp)
              .add("batch_size", m.batch)
              .add("clients", m.clients)
              .add("threads", m.clients > 1 ? 1 : num_threads())
              .add("device", m.device)
              .add("layout", m.layout)
              .add("calls", static_cast<int64_t>(of.seconds.size()))
              .add("seconds_p50", of.at(0.5))
              .add("seconds_p99", of.at(0.99))
              .add("inputs_per_second", rate)
              .add("system_allocations", static_cast<int64_t>(of.system_allocations)));
  const std::string who = m.clients > 1 ? formatted("{}, {} clients", m.form, m.clients) : m.form;
  out.text(formatted("{:>6}  {:<18} {:9.3f} ms {:9.3f} ms {:12.1f}", m.batch, who, 1e3 * of.at(0.5),
                     1e3 * of.at(0.99), rate));
}

}  // namespace

ExitCode run_bench_infer(const Invocation& call) {
  Settings settings = call.settings;
  if (!settings.weights.empty()) check_flags_of_graph(call);
  const Output out(settings.json);
  const Device device = prepare_compute(settings);
  manual_seed(static_cast<uint64_t>(settings.seed));
  Subject s = settings.weights.empty() ? made(settings, device) : loaded(settings, device);
  const NoGrad off;
  std::vector<Form> forms;
  if (s.model)
    forms.push_back({"eager", [&](const Tensor& x) { scores_of(*s.model, x, settings); }});
  forms.push_back({"graph", [&](const Tensor& x) { s.graph.run({x}); }});
  jit::Graph int8;
  if (settings.int8) {
    if (!device.is_cpu()) throw UsageError("--int8 computes on a CPU: add --device cpu");
    int8 = in_int8(s, device, settings);
    forms.push_back({"int8", [&](const Tensor& x) { int8.run({x}); }});
  }

  out.text(formatted("{}, inputs {}, {}{}", printable(s.name), concat(s.input),
                     settings.amp == "off" ? "" : formatted("{}, ", settings.amp),
                     count_text(num_threads(), "thread")));
  out.text(formatted("{:>6}  {:<18} {:>12} {:>12} {:>12}", "batch", "", "p50", "p99", "inputs/s"));
  std::vector<int64_t> batches = {1, settings.batch_size.value_or(32)};
  if (batches[1] == 1) batches.pop_back();
  for (const int64_t batch : batches) {
    const Tensor x = input_of(s, batch, device, settings);
    const TimingOptions timing = lasting(
        settings.seconds, {.warm_up_seconds = 0.5, .window_seconds = 0.2, .device = device});
    const std::vector<Latencies> times =
        running_graph(s.name, [&] { return measure_forms(forms, x, timing); });
    const auto show = [&](const Form& form, const Latencies& of, int64_t clients, double rate) {
      const std::string amp = form.name == std::string_view("int8") ? "off" : settings.amp;
      report(out, {s.name, form.name, amp, batch, clients, concat(device), settings.layout}, of,
             rate);
    };
    for (size_t f = 0; f < forms.size(); ++f) {
      show(forms[f], times[f], 1, static_cast<double>(batch) / times[f].at(0.5));
    }
    if (settings.clients < 2) continue;
    for (size_t f = s.model ? 1 : 0; f < forms.size(); ++f) {  // threads share graphs, not models
      const Form& form = forms[f];
      const Served served =
          running_graph(s.name, [&] { return measure_clients(form, x, settings.clients, timing); });
      show(form, served.times, settings.clients,
           static_cast<double>(batch) * served.calls_per_second);
    }
  }
  return ExitCode::kDone;
}

}  // namespace lathe::cli
