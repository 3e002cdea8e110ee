// The tests of an assignment. Each runs in a process of its own, so one that crashes or hangs costs
// its own points and no others.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace course {

template <class T>
void write(std::ostream& out, const T& value) {
  out << value;
}
template <class T>
void write(std::ostream& out, const std::vector<T>& values) {
  out << '[';
  for (size_t i = 0; i < values.size() && i < 12; ++i) out << (i > 0 ? " " : "") << values[i];
  out << (values.size() > 12 ? " …]" : "]");
}

/// Ends the test unless `ok`, with `what` as its message.
inline void expect(bool ok, const std::string& what) {
  if (!ok) throw std::runtime_error(what);
}

/// Ends the test unless both are the same, with both in the message.
template <class T>
void expect_equal(const std::string& what, const T& got, const std::type_identity_t<T>& expected) {
  if (got == expected) return;
  std::ostringstream text;
  text.precision(10);
  text << what << ": got ";
  write(text, got);
  text << ", expected ";
  write(text, expected);
  throw std::runtime_error(text.str());
}

/// Ends the test unless all numbers agree to `tolerance`, in units of the largest one expected, or
/// of 1 if that is larger.
inline void expect_close(const std::string& what, const std::vector<double>& got,
                         const std::vector<double>& expected, double tolerance = 1e-9) {
  expect_equal(what + ", how many numbers", got.size(), expected.size());
  double largest = 1;
  for (const double value : expected) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::abs(got[i] - expected[i]) <= tolerance * largest) continue;
    expect_equal(what + ", number " + std::to_string(i), got[i], expected[i]);
  }
}

/// Ends the test unless f throws an E.
template <class E, class F>
void expect_throws(const std::string& what, F&& f) {
  try {
    f();
  } catch (const E&) {
    return;
  } catch (const std::exception& error) {
    throw std::runtime_error(what + ": another error than expected: " + error.what());
  }
  throw std::runtime_error(what + ": no error");
}

class Report {
 public:
  /// That a test may take; COURSE_SECONDS sets another limit.
  static unsigned seconds() {
    const char* text = std::getenv("COURSE_SECONDS");
    return text ? std::atoi(text) : 20;
  }

  /// Runs a test, prints a line, and adds up its points. After two that hung, others have 2 s.
  /// COURSE_ONLY leaves out the tests whose names do not have its text.
  void test(int points, const std::string& name, const std::function<void()>& f) {
    const char* only = std::getenv("COURSE_ONLY");
    if (only && name.find(only) == std::string::npos) return;
    of_ += points;
    std::fflush(stdout);
    const std::string passed = "ok " + random_word();  // the code under test may say "ok", too
    const unsigned limit = hung_ < 2 ? seconds() : std::min(seconds(), 2u);
    int pipe_ends[2];
    if (pipe(pipe_ends) != 0) throw std::runtime_error("pipe failed");
    const pid_t child = fork();
    if (child < 0) throw std::runtime_error("fork failed");
    if (child == 0) run(f, pipe_ends[1], passed, limit);
    close(pipe_ends[1]);
    std::string said;
    char part[512];
    for (ssize_t n; (n = read(pipe_ends[0], part, sizeof part)) > 0;) said.append(part, n);
    close(pipe_ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    if (said == passed) {
      points_ += points;
      std::printf("  %d/%d  %s\n", points, points, name.c_str());
      return;
    }
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) {
      said = "was not done after " + std::to_string(limit) + " s";
      ++hung_;
    } else if (WIFSIGNALED(status)) {
      said = std::string("crashed: ") + strsignal(WTERMSIG(status));
    } else if (said.empty() || said.starts_with("ok")) {
      said = "ended the program before the end of the test";
    }
    std::printf("  0/%d  %s\n         %s\n", points, name.c_str(), said.c_str());
  }

  /// Prints the sum, and behind it the word of grade.sh, if there is one. Returns what main()
  /// should: 0 if all points were reached.
  int done() const {
    std::printf("points %d of %d%s\n", points_, of_, word_.c_str());
    return points_ == of_ ? 0 : 1;
  }

 private:
  [[noreturn]] static void run(const std::function<void()>& f, int out, std::string said,
                               unsigned limit) {
    alarm(limit);
    try {
      f();
    } catch (const std::exception& error) {
      said = error.what();
    }
    if (::write(out, said.data(), said.size()) < 0) _exit(1);
    _exit(0);  // no destructors: a thread may still be stuck
  }

  /// Another one in each call.
  static std::string random_word() {
    unsigned long long number = 0;
    if (getentropy(&number, sizeof number) != 0) throw std::runtime_error("getentropy failed");
    return std::to_string(number);
  }

  /// " WORD", from COURSE_WORD, which is wiped so that the code under test does not find it there.
  static std::string take_word() {
    char* text = std::getenv("COURSE_WORD");
    if (!text) return "";
    const std::string word = std::string(" ") + text;
    std::memset(text, 'x', std::strlen(text));
    unsetenv("COURSE_WORD");
    return word;
  }

  // grade.sh includes this header first, so the word is taken before any other variable begins.
  static inline const std::string word_ = take_word();
  int points_ = 0, of_ = 0, hung_ = 0;
};

}  // namespace course
