// What a program means, without views and in-place writes: every element of every tensor is a
// number of its own, and a write gives the places it covers other numbers.
#pragma once

#include <limits>
#include <memory>
#include <vector>

#include "program.h"
#include "scalars.h"

namespace lathe::programs {

/// Memory: one value for each place.
struct Places {
  std::vector<double> values;
  bool saved = false;  // an op may have kept these values for its gradient
};

/// The history of a tensor that is no view; its views share it.
struct History {
  std::shared_ptr<Places> places;
  Numbers numbers;    // of each place; -1 where the tensor does not look
  bool tracked;       // requires grad
  bool leaf = false;  // and is a leaf
  int writes = 0;     // recorded ones
  Numbers grad = {};  // of a leaf, in the tensor's order; empty: none yet
};

struct Variable {
  std::shared_ptr<History> history;
  Shape shape;
  std::vector<int> where;  // the place of each element
  bool is_view = false;
  Numbers numbers = {};  // of a view: what it was made of at `writes`
  bool tracked = false;
  int writes = 0;
  bool dense = true;     // do the places stand for the real memory?
  bool writable = true;  // no two elements share a place, however one looks
};

class Reference {
 public:
  /// Can this line stand here? False for what is an error, or depends on memory that the
  /// reference does not know.
  bool allows(const Statement& s);
  void run(const Statement& s);
  /// Adds what is true at the end.
  void finish();

  const std::vector<Variable>& variables() const { return variables_; }
  bool tracked(int variable);
  bool is_leaf(int variable) const;
  /// May it be written, where gradients are recorded or not?
  bool can_write(int variable, bool no_grad) const;
  bool would_write_saved(const Statement& s);
  const Log& log() const { return log_; }
  bool exact() const { return scalars_.exact(); }
  /// The first line that may have written over a saved value: later passes may refuse.
  size_t saved_written() const { return saved_written_; }
  /// Counts a variable's values as saved.
  void freeze(int n) { variable(n).history->places->saved = true; }

 private:
  void look(Variable& v);
  Numbers numbers_now(Variable& v);
  Variable fresh(const Shape& shape, const Numbers& numbers, bool tracked, bool leaf = false);
  void run_view(const Statement& s);
  void run_new(const Statement& s);
  void run_in_place(const Statement& s);
  void run_gradient(const Statement& s);
  Numbers computed(const Statement& s, Shape& shape);
  Numbers written(const Statement& s);
  void record_write(Variable& x, const Numbers& value, bool value_tracked);
  void mark_saved(const Statement& s);
  void log_values(const std::vector<double>& values);
  std::vector<double> values_of(const Variable& v) const;
  Variable& variable(int n) { return variables_[static_cast<size_t>(n)]; }
  const Variable& variable(int n) const { return variables_[static_cast<size_t>(n)]; }

  Scalars scalars_;
  std::vector<Variable> variables_;
  std::vector<int> leaves_;
  Log log_;
  size_t line_ = 0;
  size_t saved_written_ = std::numeric_limits<size_t>::max();
};

}  // namespace lathe::programs
