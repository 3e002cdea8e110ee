// onednn_layers [RUNS]: what f32 convolutions take in the oneDNN that this was compiled with, as a
// framework calls it: images NHWC, filters [K,C,R,S] row-major, reorders included, but of the
// forward pass those of the filters, which are constant there. One JSON line per layer, pass and
// way; `ms` is the least of RUNS (15) runs. Versions 2.6 to 3 compile it:
//   g++ -std=c++20 -O2 -I INCLUDE tools/bench/onednn_layers.cpp -L LIB -ldnnl -o onednn_layers
//   OMP_NUM_THREADS=2 ./onednn_layers
// Ways: in_place (direct, NHWC in and out), blocks (direct, layouts that oneDNN chooses), winograd.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <dnnl.hpp>
#include <string>
#include <unordered_map>
#include <vector>

namespace {

using dnnl::algorithm;
using dnnl::memory;
using Tag = memory::format_tag;
using Desc = memory::desc;

struct Layer {
  memory::dim batch, in, size, out, kernel, stride;

  memory::dim pad() const { return kernel / 2; }
  memory::dim out_size() const { return (size + 2 * pad() - kernel) / stride + 1; }
  std::string name() const {
    return std::to_string(in) + " -> " + std::to_string(out) + " @" + std::to_string(size) + ", " +
           std::to_string(kernel) + "x" + std::to_string(kernel) + " stride " +
           std::to_string(stride) + ", batch " + std::to_string(batch);
  }
};

/// ResNet-18 (batch 64) and ResNet-20 (batch 128) for 32x32, ResNet-50 for 224x224 (batch 8).
constexpr Layer kLayers[] = {
    {64, 3, 32, 64, 3, 1},    {64, 64, 32, 64, 3, 1},    {64, 64, 32, 128, 3, 2},
    {64, 128, 16, 128, 3, 1}, {64, 128, 16, 256, 3, 2},  {64, 256, 8, 256, 3, 1},
    {64, 256, 8, 512, 3, 2},  {64, 512, 4, 512, 3, 1},   {128, 16, 32, 16, 3, 1},
    {128, 32, 16, 32, 3, 1},  {128, 64, 8, 64, 3, 1},    {128, 16, 32, 32, 3, 2},
    {8, 256, 28, 256, 3, 2},  {8, 64, 56, 256, 1, 1},    {8, 256, 56, 64, 1, 1},
    {8, 512, 28, 128, 1, 1},  {8, 1024, 14, 256, 1, 1},  {8, 512, 7, 2048, 1, 1},
    {8, 3, 224, 64, 7, 2},    {8, 1024, 14, 2048, 1, 2},
};

/// oneDNN 2 describes an operation in an object of its own, `Pass::desc`.
template <class Pass>
concept HasOperationDesc = requires {
  typename Pass::desc;
};

template <class Pass, class... Parts>
typename Pass::primitive_desc forward_desc(const dnnl::engine& engine, const Parts&... parts) {
  if constexpr (HasOperationDesc<Pass>) {
    return {typename Pass::desc(parts...), engine};
  } else {
    return typename Pass::primitive_desc(engine, parts...);
  }
}

template <class Pass, class Hint, class... Parts>
typename Pass::primitive_desc backward_desc(const dnnl::engine& engine, const Hint& hint,
                                            const Parts&... parts) {
  if constexpr (HasOperationDesc<Pass>) {
    return {typename Pass::desc(parts...), engine, hint};
  } else {
    return typename Pass::primitive_desc(engine, parts..., hint);
  }
}

/// A tensor of the framework, and the primitive's own where its layout is another.
struct Port {
  memory user, wanted;

  Port(const dnnl::engine& engine, const Desc& mine, const Desc& theirs)
      : user(mine, engine), wanted(mine == theirs ? user : memory(theirs, engine)) {
    auto* const data = static_cast<float*>(user.get_data_handle());
    std::fill(data, data + mine.get_size() / sizeof(float), 0.015625f);
  }
  bool is_reordered() const { return user.get() != wanted.get(); }
};

class Trial {
 public:
  Trial(const Layer& l, bool blocks)
      : x_(tensor({l.batch, l.in, l.size, l.size}, Tag::nhwc, blocks)),
        w_(tensor({l.out, l.in, l.kernel, l.kernel}, Tag::oihw, true)),
        y_(tensor({l.batch, l.out, l.out_size(), l.out_size()}, Tag::nhwc, blocks)),
        stride_{l.stride, l.stride},
        pad_{l.pad(), l.pad()} {}

  double forward(algorithm how, int runs) {
    const auto d = description(how);
    Port x(engine_, x_.user, d.src_desc()), w(engine_, w_.user, d.weights_desc()),
        y(engine_, y_.user, d.dst_desc());
    if (w.is_reordered()) dnnl::reorder(w.user, w.wanted).execute(stream_, w.user, w.wanted);
    return least(dnnl::convolution_forward(d), {&x}, y,
                 {{DNNL_ARG_SRC, x.wanted}, {DNNL_ARG_WEIGHTS, w.wanted}, {DNNL_ARG_DST, y.wanted}},
                 runs);
  }

  double backward_input(algorithm how, int runs) {
    using Pass = dnnl::convolution_backward_data;
    const auto d = backward_desc<Pass>(engine_, description(how), how, x_.asked, w_.asked, y_.asked,
                                       stride_, pad_, pad_);
    Port dx(engine_, x_.user, d.diff_src_desc()), w(engine_, w_.user, d.weights_desc()),
        dy(engine_, y_.user, d.diff_dst_desc());
    return least(Pass(d), {&w, &dy}, dx,
                 {{DNNL_ARG_DIFF_SRC, dx.wanted},
                  {DNNL_ARG_WEIGHTS, w.wanted},
                  {DNNL_ARG_DIFF_DST, dy.wanted}},
                 runs);
  }

  double backward_weight(algorithm how, int runs) {
    using Pass = dnnl::convolution_backward_weights;
    const auto d = backward_desc<Pass>(engine_, description(how), how, x_.asked, w_.asked, y_.asked,
                                       stride_, pad_, pad_);
    Port x(engine_, x_.user, d.src_desc()), dw(engine_, w_.user, d.diff_weights_desc()),
        dy(engine_, y_.user, d.diff_dst_desc());
    return least(Pass(d), {&x, &dy}, dw,
                 {{DNNL_ARG_SRC, x.wanted},
                  {DNNL_ARG_DIFF_WEIGHTS, dw.wanted},
                  {DNNL_ARG_DIFF_DST, dy.wanted}},
                 runs);
  }

 private:
  /// As the framework has it, and as the primitive is asked for.
  struct Tensor {
    Desc user, asked;
  };

  static Tensor tensor(const memory::dims& dims, Tag tag, bool any) {
    const auto type = memory::data_type::f32;
    return {Desc(dims, type, tag), Desc(dims, type, any ? Tag::any : tag)};
  }

  dnnl::convolution_forward::primitive_desc description(algorithm how) {
    return forward_desc<dnnl::convolution_forward>(engine_, dnnl::prop_kind::forward_training, how,
                                                   x_.asked, w_.asked, y_.asked, stride_, pad_,
                                                   pad_);
  }

  double least(const dnnl::primitive& primitive, const std::vector<Port*>& in, Port& out,
               const std::unordered_map<int, memory>& args, int runs) {
    using Clock = std::chrono::steady_clock;
    std::vector<dnnl::reorder> before;
    for (Port* p : in) {
      before.emplace_back(p->is_reordered() ? dnnl::reorder(p->user, p->wanted) : dnnl::reorder());
    }
    auto after = out.is_reordered() ? dnnl::reorder(out.wanted, out.user) : dnnl::reorder();
    double best = 1e30;
    for (int i = 0; i <= runs; ++i) {
      const auto start = Clock::now();
      for (size_t k = 0; k < in.size(); ++k) {
        if (in[k]->is_reordered()) before[k].execute(stream_, in[k]->user, in[k]->wanted);
      }
      primitive.execute(stream_, args);
      if (out.is_reordered()) after.execute(stream_, out.wanted, out.user);
      stream_.wait();
      const double ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
      if (i > 0) best = std::min(best, ms);
    }
    return best;
  }

  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  Tensor x_, w_, y_;
  memory::dims stride_, pad_;
};

/// Prints one line, or nothing where this oneDNN has no such kernel.
template <class F>
void report(const Layer& layer, const char* pass, const char* way, F time) {
  try {
    std::printf("{\"layer\":\"%s\",\"pass\":\"%s\",\"way\":\"%s\",\"ms\":%.3f}\n",
                layer.name().c_str(), pass, way, time());
    std::fflush(stdout);
  } catch (const dnnl::error& e) {
    if (e.status != dnnl_unimplemented) throw;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int runs = argc > 1 ? std::max(1, std::atoi(argv[1])) : 15;
  const dnnl_version_t* const v = dnnl_version();
  std::printf("{\"onednn\":\"%d.%d.%d\"}\n", v->major, v->minor, v->patch);
  constexpr struct {
    const char* name;
    algorithm how;
    bool blocks;
  } kWays[] = {{"in_place", algorithm::convolution_direct, false},
               {"blocks", algorithm::convolution_direct, true},
               {"winograd", algorithm::convolution_winograd, true}};
  for (const Layer& layer : kLayers) {
    for (const auto& way : kWays) {
      Trial trial(layer, way.blocks);
      report(layer, "forward", way.name, [&] { return trial.forward(way.how, runs); });
      report(layer, "backward_input", way.name,
             [&] { return trial.backward_input(way.how, runs); });
      report(layer, "backward_weight", way.name,
             [&] { return trial.backward_weight(way.how, runs); });
    }
  }
}
