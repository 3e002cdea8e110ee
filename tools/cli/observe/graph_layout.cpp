// The steps of a layered layout: layers, places that long lines keep free in the layers between,
// the order within a layer, and columns.
#include "lathe/tools/cli/observe/graph_layout.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace lathe::cli {
namespace {

constexpr double kBetweenColumns = 24, kBetweenLayers = 30, kBetweenPorts = 16;
constexpr double kLineWidth = 10;  // what a line that passes keeps free
constexpr int kSweeps = 12;

/// A box, or the place of a line that passes through a layer.
struct Item {
  double width, height;
  int layer;
  bool is_box;
  bool on_spine = false;  // of the longest path
  double x = 0;           // its middle
  std::vector<int> above = {}, below = {};
};

/// How much a line wants to be straight.
double pull(const Item& a, const Item& b) {
  if (a.on_spine && b.on_spine) return 100;
  if (a.is_box && b.is_box) return 10;
  return a.is_box || b.is_box ? 1 : 8;
}

/// How much an item wants to stay where it wants to be.
double weight(const Item& item) { return item.on_spine ? 1e6 : item.is_box ? 1e3 : 1; }

class Layers {
 public:
  Layers(std::span<const Box> boxes, std::span<const Line> lines) {
    for (const Box& box : boxes) items_.push_back({box.width, box.height, 0, true});
    place_in_layers(lines);
    mark_spine(lines);
    for (const Line& line : lines) paths_.push_back(pass_through(line));
    fill_layers();
  }

  GraphLayout result(size_t boxes) {
    order();
    for (int i = 0; i < kSweeps; ++i) align(i % 2 == 0);
    return placed(boxes);
  }

 private:
  Item& item(int i) { return items_[static_cast<size_t>(i)]; }

  void place_in_layers(std::span<const Line> lines) {
    std::vector<int> first_use(items_.size(), -1);
    std::vector<bool> has_input(items_.size(), false);
    // Lines by their ends: all that lead to a box come before those that leave it.
    std::vector<Line> sorted(lines.begin(), lines.end());
    std::ranges::sort(sorted, {}, [](const Line& l) { return l.to; });
    for (const Line& l : sorted) {
      item(l.to).layer = std::max(item(l.to).layer, item(l.from).layer + 1);
      has_input[static_cast<size_t>(l.to)] = true;
    }
    for (const Line& l : sorted) {
      int& use = first_use[static_cast<size_t>(l.from)];
      use = use < 0 ? item(l.to).layer : std::min(use, item(l.to).layer);
    }
    for (size_t i = 0; i < items_.size(); ++i)  // what needs nothing stands just above its use
      if (!has_input[i] && first_use[i] > 0) items_[i].layer = first_use[i] - 1;
  }

  /// The path that passes the most layers box by box.
  void mark_spine(std::span<const Line> lines) {
    std::vector<int> length(items_.size(), 1), before(items_.size(), -1);
    std::vector<Line> sorted(lines.begin(), lines.end());
    std::ranges::stable_sort(sorted, {}, [](const Line& l) { return l.to; });
    for (const Line& l : sorted) {
      const auto from = static_cast<size_t>(l.from), to = static_cast<size_t>(l.to);
      if (length[from] + 1 <= length[to]) continue;
      length[to] = length[from] + 1;
      before[to] = l.from;
    }
    if (items_.empty()) return;
    auto at = static_cast<int>(std::ranges::max_element(length) - length.begin());
    for (; at >= 0; at = before[static_cast<size_t>(at)]) item(at).on_spine = true;
  }

  /// The items of a line: its two boxes, and a place in every layer between.
  std::vector<int> pass_through(const Line& line) {
    std::vector<int> path{line.from};
    for (int layer = item(line.from).layer + 1; layer < item(line.to).layer; ++layer) {
      path.push_back(static_cast<int>(items_.size()));
      items_.push_back({kLineWidth, 0, layer, false});
    }
    path.push_back(line.to);
    for (size_t i = 0; i + 1 < path.size(); ++i) {
      item(path[i]).below.push_back(path[i + 1]);
      item(path[i + 1]).above.push_back(path[i]);
    }
    return path;
  }

  void fill_layers() {
    int count = 0;
    for (const Item& i : items_) count = std::max(count, i.layer + 1);
    layers_.resize(static_cast<size_t>(count));
    for (size_t i = 0; i < items_.size(); ++i)
      layers_[static_cast<size_t>(items_[i].layer)].push_back(static_cast<int>(i));
    for (auto& layer : layers_)  // the spine on the left, lines that pass on the right
      std::ranges::stable_sort(layer, {}, [&](int i) {
        return item(i).on_spine ? 0 : item(i).is_box ? 1 : 2;
      });
    number();
  }

  void number() {
    place_in_layer_.resize(items_.size());
    for (const auto& layer : layers_)
      for (size_t i = 0; i < layer.size(); ++i)
        place_in_layer_[static_cast<size_t>(layer[i])] = static_cast<double>(i);
  }

  int64_t crossings() {
    int64_t count = 0;
    for (const auto& layer : layers_) {
      std::vector<std::pair<double, double>> lines;
      for (const int i : layer)
        for (const int b : item(i).below)
          lines.emplace_back(place_in_layer_[static_cast<size_t>(i)],
                             place_in_layer_[static_cast<size_t>(b)]);
      for (size_t i = 0; i < lines.size(); ++i)
        for (size_t k = i + 1; k < lines.size(); ++k)
          count += (lines[i].first - lines[k].first) * (lines[i].second - lines[k].second) < 0;
    }
    return count;
  }

  /// Puts each item near the middle of its neighbours, and keeps the best of all orders.
  void order() {
    auto best = layers_;
    int64_t fewest = crossings();
    for (int sweep = 0; sweep < kSweeps && fewest > 0; ++sweep) {
      const bool down = sweep % 2 == 0;
      for (size_t k = 0; k < layers_.size(); ++k) {
        auto& layer = layers_[down ? k : layers_.size() - 1 - k];
        std::ranges::stable_sort(layer, {}, [&](int i) { return middle_of_neighbours(i, down); });
        number();
      }
      if (const int64_t count = crossings(); count < fewest) {
        fewest = count;
        best = layers_;
      }
    }
    layers_ = best;
    number();
  }

  double middle_of_neighbours(int i, bool down) {
    const std::vector<int>& neighbours = down ? item(i).above : item(i).below;
    if (neighbours.empty()) return place_in_layer_[static_cast<size_t>(i)];
    double sum = 0;
    for (const int n : neighbours) sum += place_in_layer_[static_cast<size_t>(n)];
    return sum / static_cast<double>(neighbours.size());
  }

  /// Where an item would stand if it were alone: the weighted median of its neighbours.
  double wanted_x(int i, bool down) {
    const Item& own = item(i);
    const std::vector<int>& neighbours = down ? own.above : own.below;
    if (neighbours.empty()) return own.x;
    std::vector<std::pair<double, double>> pulls;
    double sum = 0, half = 0;
    for (const int n : neighbours) {
      pulls.emplace_back(item(n).x, pull(own, item(n)));
      sum += pulls.back().second;
    }
    std::ranges::sort(pulls);
    for (const auto& [x, p] : pulls)
      if ((half += p) >= sum / 2) return x;
    return own.x;
  }

  /// Moves the items of each layer as near to where they want to be as their order and widths
  /// allow, in the sense of weighted least squares (pool adjacent violators).
  void align(bool down) {
    struct Group {
      double sum, weight;
      size_t size;
      double mean() const { return sum / weight; }
    };
    for (size_t k = 0; k < layers_.size(); ++k) {
      const auto& layer = layers_[down ? k : layers_.size() - 1 - k];
      std::vector<Group> groups;
      std::vector<double> offsets;
      double offset = 0;
      for (size_t i = 0; i < layer.size(); ++i) {
        const Item& own = item(layer[i]);
        if (i > 0) offset += item(layer[i - 1]).width / 2 + kBetweenColumns + own.width / 2;
        offsets.push_back(offset);
        const double w = weight(own);
        groups.push_back({w * (wanted_x(layer[i], down) - offset), w, 1});
        while (groups.size() > 1 && groups[groups.size() - 2].mean() > groups.back().mean()) {
          const Group last = groups.back();
          groups.pop_back();
          groups.back() = {groups.back().sum + last.sum, groups.back().weight + last.weight,
                           groups.back().size + last.size};
        }
      }
      size_t i = 0;
      for (const Group& group : groups)
        for (size_t n = 0; n < group.size; ++n, ++i) item(layer[i]).x = group.mean() + offsets[i];
    }
  }

  GraphLayout placed(size_t boxes) {
    GraphLayout out;
    double left = 0, right = 0;
    for (const Item& i : items_) {
      left = std::min(left, i.x - i.width / 2);
      right = std::max(right, i.x + i.width / 2);
    }
    std::vector<double> top(layers_.size()), bottom(layers_.size());
    for (size_t k = 0; k < layers_.size(); ++k) {
      double height = 0;
      for (const int i : layers_[k]) height = std::max(height, item(i).height);
      top[k] = k == 0 ? 0 : bottom[k - 1] + kBetweenLayers;
      bottom[k] = top[k] + height;
    }
    for (Item& i : items_) i.x = std::round(i.x - left);
    for (size_t i = 0; i < boxes; ++i) {
      const Item& box = items_[i];
      out.boxes.push_back({box.x - box.width / 2, top[static_cast<size_t>(box.layer)]});
    }
    for (size_t i = 0; i < paths_.size(); ++i) out.lines.push_back(line_of(i, top, bottom));
    out.width = right - left;
    out.height = bottom.empty() ? 0 : bottom.back();
    return out;
  }

  /// The place of the line among those that reach its box, from left to right.
  double port(size_t path) {
    const int box = paths_[path].back(), last = paths_[path][paths_[path].size() - 2];
    const std::vector<int>& above = item(box).above;
    const auto is_left = [&](int n) {
      return item(n).x < item(last).x || (item(n).x == item(last).x && n < last);
    };
    const auto before = static_cast<double>(std::ranges::count_if(above, is_left));
    const double step =
        std::min(kBetweenPorts, item(box).width / static_cast<double>(above.size()));
    return step * (before - static_cast<double>(above.size() - 1) / 2);
  }

  std::vector<Place> line_of(size_t number, const std::vector<double>& top,
                             const std::vector<double>& bottom) {
    const std::vector<int>& path = paths_[number];
    const Item &from = item(path.front()), &to = item(path.back());
    const auto layer = static_cast<size_t>(from.layer);
    std::vector<Place> out{{from.x, top[layer] + from.height}};
    for (size_t i = 1; i + 1 < path.size(); ++i) {
      const Item& passing = item(path[i]);
      const auto at = static_cast<size_t>(passing.layer);
      out.push_back({passing.x, top[at]});
      out.push_back({passing.x, bottom[at]});
    }
    out.push_back({to.x + port(number), top[static_cast<size_t>(to.layer)]});
    return out;
  }

  std::vector<Item> items_;  // the boxes first
  std::vector<std::vector<int>> paths_;
  std::vector<std::vector<int>> layers_;
  std::vector<double> place_in_layer_;
};

}  // namespace

GraphLayout lay_out(std::span<const Box> boxes, std::span<const Line> lines) {
  return Layers(boxes, lines).result(boxes.size());
}

}  // namespace lathe::cli
