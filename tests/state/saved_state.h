// One property of everything that has a state_dict(): the state decides what comes next, and no other
// entries fit. The tests beside ask it of all folders' classes; check_lists.py finds a class that they
// lack.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "lathe/core/copy.h"
#include "lathe/core/error.h"
#include "lathe/core/state_dict.h"
#include "lathe/ops/creation.h"

namespace lathe::test {

/// An object with a state, and what takes its next step.
struct Saved {
  std::function<StateDict()> state;
  std::function<void(const StateDict&)> load;
  std::function<std::vector<double>(int n)> step;  // takes step n = 0, 1, … → all that it shows
  Tensors outside = {};  // what a step changes although the state does not have it: parameters
};

/// The functions of an object with state_dict() and load_state_dict(), which they keep alive.
template <class T>
Saved saved(std::shared_ptr<T> object, std::function<std::vector<double>(int n)> step,
            Tensors outside = {}) {
  return {[object] { return object->state_dict(); },
          [object](const StateDict& state) { object->load_state_dict(state); }, std::move(step),
          std::move(outside)};
}

struct SavedCase {
  std::string name;
  std::function<Saved()> make;  // every time the same object, before its first step
  // Entries by the ends of their names, or one element: "name[2]".
  std::vector<std::string> silent = {};    // their values show in none of the next steps
  std::vector<std::string> optional = {};  // they may be missing
  std::vector<std::string> late = {};      // the next step refuses another shape, not the loading
  std::vector<std::string> partly = {};    // some of the changes show in none of the next steps
  int before = 3, after = 3;  // steps before the state is saved, and those that must show it
  std::string only = {};      // other entries, without this at the front, belong to other cases
};

/// Numbers by their bits, so that NaN equals itself.
using Bits = std::vector<int64_t>;

inline void append(Bits& out, const std::vector<double>& values) {
  for (const double v : values) out.push_back(std::bit_cast<int64_t>(v));
}

inline Bits bits_of(const StateDict& state) {
  Bits out;
  for (const auto& [name, t] : state) {
    out.push_back(static_cast<int64_t>(std::hash<std::string>()(concat(name, t))));
    append(out, t.to_vector<double>());
  }
  return out;
}

inline bool ends_in(const std::string& name, const std::vector<std::string>& ends) {
  return std::ranges::any_of(
      ends, [&](const std::string& end) { return name == end || name.ends_with("." + end); });
}

/// A copy in which `entry` is `value`; missing if that is undefined.
inline StateDict with_entry(const StateDict& state, const std::string& entry, const Tensor& value) {
  StateDict out;
  for (const auto& [name, t] : state) {
    if (name != entry) out.add(name, t);
    if (name == entry && value.defined()) out.add(name, value);
  }
  return out;
}

/// Copies of `t` in which one element has another value.
inline Tensors changed(const Tensor& t, size_t element) {
  const double v = t.to_vector<double>()[element];
  std::vector<double> others = {v + 1, v - 1, -1, 1.5};
  if (t.dtype() == kBool) others = {1 - v};
  if (is_floating(t.dtype())) {
    others = {v * 17 / 16, v * 15 / 16, -4 * v, 0, 4096 * v, -4096 * v};
    if (v == 0 || !std::isfinite(v)) others = {0.25, -0.25, 1, std::nan("")};
  }
  Tensors out;
  for (const double other : others) {
    std::vector<double> values = t.to_vector<double>();
    values[element] = other;
    const bool whole = other == std::floor(other) || is_floating(t.dtype());
    out.push_back(tensor(values).to(whole ? t.dtype() : kF64).reshape(t.shape()));
  }
  return out;
}

/// Holds `c` to the property:
///   - an object that loads the state goes on with the same bits, whether it is new or used
///   - a missing, unexpected or misshapen entry is refused by its name in the file, and nothing
///     changes
///   - a changed value is refused or shows in the next steps
inline void check_saved(const SavedCase& c) {
  INFO("saved state of ", c.name);
  const auto steps = [](const Saved& s, int begin, int count) {
    Bits shown;
    for (int n = begin; n < begin + count; ++n) append(shown, s.step(n));
    return shown;
  };
  const Saved first = c.make();
  steps(first, 0, c.before);
  const StateDict state = first.state().clone();
  const Bits saved_bits = bits_of(state);
  Tensors outside;
  for (const Tensor& t : first.outside) outside.push_back(t.detach().clone());
  const auto next = [&](const Saved& s) { return steps(s, c.before, c.after); };
  const Bits want = next(first), end = bits_of(first.state());
  const auto shows = [&](const Saved& s) {
    try {
      return next(s) != want;
    } catch (const Error&) {  // as a loss that is no number
      return true;
    }
  };
  const auto make = [&](int used = 0) {
    Saved s = c.make();
    steps(s, 0, used);
    for (size_t i = 0; i < outside.size(); ++i) s.outside[i].set_data(outside[i].clone());
    return s;
  };

  for (const int used : {0, 2}) {
    CAPTURE(used);
    const Saved s = make(used);
    s.load(state);
    CHECK(bits_of(s.state()) == saved_bits);
    CHECK(next(s) == want);
    CHECK(bits_of(s.state()) == end);
    CHECK(bits_of(state) == saved_bits);  // what was loaded is a copy
  }

  const auto refusal = [&](const Saved& s, const StateDict& bad) -> std::string {
    const Bits before = bits_of(s.state());
    try {
      s.load(bad);
    } catch (const Error& e) {
      CHECK(bits_of(s.state()) == before);
      return e.message();
    }
    return "";
  };
  const auto refused = [&](const StateDict& bad, const std::string& name, bool late = false) {
    const Saved s = make(late ? 0 : 2);
    // As a checkpoint has it: the message must say the name in the file.
    const std::string prefix = c.only.empty() ? "part." : "";
    StateDict file;
    file.add_all(prefix, bad);
    std::string text = refusal(s, prefix.empty() ? bad : file.section(prefix));
    if (late && text.empty()) {
      try {
        next(s);
      } catch (const Error& e) {
        text = e.message();
      }
    }
    const std::string part = late ? name : prefix + name;
    CHECK_MESSAGE(text.find(part) != std::string::npos, part, ": ", text);
  };
  StateDict more = state;
  more.add_number(c.only + "more", 1);
  refused(more, c.only + "more");
  for (const StateDict::Entry& entry : state) {
    const std::string& name = entry.first;
    const Tensor& t = entry.second;
    if (!name.starts_with(c.only)) continue;
    CAPTURE(name);
    const std::string last = name.substr(name.rfind('.') + 1);
    if (!ends_in(name, c.optional)) refused(with_entry(state, name, {}), name);
    refused(with_entry(state, name, zeros({t.numel() + 2}, {.dtype = t.dtype()})),
            ends_in(name, c.late) ? last : name, ends_in(name, c.late));
    const auto elements = static_cast<size_t>(t.numel());
    for (const size_t element : std::set{size_t{0}, elements / 2, elements - 1}) {
      const std::string place = concat(name, "[", element, "]");
      const auto is_in = [&](const std::vector<std::string>& ends) {
        return ends_in(name, ends) || ends_in(place, ends);
      };
      int shown = 0, loaded = 0;
      std::string hidden;
      for (const Tensor& other : changed(t, element)) {
        const StateDict bad = with_entry(state, name, other);
        const Saved s = make();
        const std::string text = refusal(s, bad);
        const bool named = text.empty() || text.find(last.substr(0, 5)) != std::string::npos ||
                           text.find("missing") != std::string::npos;
        CHECK_MESSAGE(named, name, ": ", text);
        if (!text.empty()) continue;
        ++loaded;
        CHECK(bits_of(s.state()) == bits_of(bad));
        if (shows(s)) {
          ++shown;
        } else {
          hidden += concat(" ", other.to_vector<double>()[element]);
        }
      }
      const int least = is_in(c.silent) ? 0 : is_in(c.partly) ? std::min(loaded, 1) : loaded;
      const int most = is_in(c.silent) ? 0 : loaded;
      CHECK_MESSAGE((least <= shown && shown <= most), place, " in ", c.name, ": ",
                    t.to_vector<double>()[element], " hides", hidden);
    }
  }
}

}  // namespace lathe::test
