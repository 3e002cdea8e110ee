// Assignment 8: the loader.
#include "tiny/loader.h"

#include <set>

#include "numbers.h"
#include "ordered_queue.h"

using namespace course;
using namespace tiny;

using Indices = std::vector<int64_t>;

static Dataset images(int64_t size) {
  Dataset set{.height = 1, .width = 1};
  for (int64_t i = 0; i < size; ++i) set.pixels.push_back(i), set.labels.push_back(i % 10);
  return set;
}

/// The indices of the batches of an epoch.
static std::vector<Indices> batches(const Dataset& set, const LoaderOptions& options,
                                    uint64_t number) {
  Epoch epoch(set, options, number);
  std::vector<Indices> out;
  while (const std::optional<Batch> batch = epoch.next()) out.push_back(batch->indices);
  return out;
}

static void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

int main() {
  Report report;
  report.test(2, "an order has every index once", [] {
    for (const int64_t n : {0, 1, 2, 100}) {
      Indices order = random_order(n, 3, 1), expected(n);
      std::iota(expected.begin(), expected.end(), 0);
      std::sort(order.begin(), order.end());
      expect_equal("sorted", order, expected);
    }
  });
  report.test(2, "an order is a function of seed and epoch", [] {
    expect_equal("the same twice", random_order(50, 3, 1), random_order(50, 3, 1));
    expect(random_order(50, 3, 1) != random_order(50, 4, 1), "another seed gives the same order");
    expect(random_order(50, 3, 1) != random_order(50, 3, 2), "another epoch gives the same order");
  });
  report.test(2, "every order is equally likely", [] {
    std::map<Indices, int> seen;
    for (int epoch = 0; epoch < 6000; ++epoch) ++seen[random_order(3, 1, epoch)];
    expect_equal("how many of the six orders of three occur", seen.size(), size_t{6});
    for (const auto& [order, count] : seen) {  // 1000 ± 29; 150 is five of these
      std::ostringstream text;
      write(text, order);
      expect(std::abs(count - 1000) < 150,
             text.str() + " came " + std::to_string(count) + " times of 6000, not about 1000");
    }
  });
  report.test(2, "batches are in order, and the last may be smaller", [] {
    const Dataset set = images(7);
    expect_equal("how many", batches(set, {.batch_size = 3}, 0).size(), size_t{3});
    expect_equal("the first", batches(set, {.batch_size = 3}, 0)[0], {0, 1, 2});
    expect_equal("the second", batches(set, {.batch_size = 3}, 0)[1], {3, 4, 5});
    expect_equal("the last", batches(set, {.batch_size = 3}, 0)[2], {6});
    expect_equal("no image, no batch", batches(images(0), {.batch_size = 3}, 0).size(), size_t{0});
  });
  report.test(1, "a shuffled epoch has the order of its number", [] {
    const Dataset set = images(20);
    for (const uint64_t number : {0, 4})
      expect_equal("all in one batch",
                   batches(set, {.batch_size = 20, .shuffle = true, .seed = 7}, number)[0],
                   random_order(20, 7, number));
  });
  report.test(2, "what comes first goes first", [] {
    BoundedQueue<int> queue(3);
    for (int i = 0; i < 3; ++i) queue.push(i);
    for (int i = 0; i < 3; ++i) expect_equal("pop", queue.pop().value_or(-1), i);
  });
  report.test(2, "a full queue makes push wait until there is a place", [] {
    BoundedQueue<int> queue(2);
    std::atomic<int> pushed{0};
    std::jthread thread([&] {
      for (int i = 0; i < 4; ++i) queue.push(i), ++pushed;
    });
    sleep_ms(60);
    const int at_first = pushed;
    queue.pop();
    sleep_ms(60);
    const int later = pushed;
    queue.pop();
    thread.join();
    expect_equal("elements in a queue for 2", at_first, 2);
    expect_equal("elements after one left", later, 3);
  });
  report.test(1, "four threads push, four pop, and nothing is lost", [] {
    BoundedQueue<int> queue(2);
    std::mutex mutex;
    std::multiset<int> seen;
    {
      std::vector<std::jthread> takers, makers;
      for (int t = 0; t < 4; ++t)
        takers.emplace_back([&] {
          while (const std::optional<int> element = queue.pop()) {
            const std::lock_guard lock(mutex);
            seen.insert(*element);
          }
        });
      for (int t = 0; t < 4; ++t)
        makers.emplace_back([&, t] {
          for (int i = 0; i < 250; ++i) queue.push(t * 250 + i);
        });
      makers.clear();  // waits for them
      queue.close();
    }
    expect_equal("elements that arrived", seen.size(), size_t{1000});
    expect_equal("different ones", std::set<int>(seen.begin(), seen.end()).size(), size_t{1000});
  });
  report.test(2, "a closed queue takes nothing and gives what is left", [] {
    BoundedQueue<int> queue(3);
    queue.push(1);
    queue.push(2);
    queue.close();
    expect(!queue.push(3), "push() of a closed queue says true");
    expect_equal("the first", queue.pop().value_or(-1), 1);
    expect_equal("the second", queue.pop().value_or(-1), 2);
    expect(!queue.pop().has_value(), "an element came out of an empty, closed queue");
  });
  report.test(1, "close wakes those that wait, and an epoch may be left early", [] {
    BoundedQueue<int> queue(1);
    std::jthread taker([&] { queue.pop(); });
    sleep_ms(20);
    queue.close();
    taker.join();
    const Dataset set = images(100);
    Epoch epoch(set, {.batch_size = 1}, 0);
    epoch.next();
  });
  report.test(1, "numbered elements come out in their order, also after close", [] {
    OrderedQueue<int> queue(4);
    for (const int number : {2, 0, 3, 1}) queue.push(number, 10 * number);
    for (int number = 0; number < 4; ++number)
      expect_equal("pop", queue.pop().value_or(-1), 10 * number);
    queue.push(4, 40);
    queue.push(6, 60);
    queue.close();
    expect(!queue.push(5, 50), "push() of a closed queue says true");
    expect_equal("what was left", queue.pop().value_or(-1), 40);
    expect(!queue.pop().has_value(), "an element came out although the next one, 5, is missing");
  });
  report.test(1, "a queue of later elements has a place for the next one", [] {
    OrderedQueue<int> queue(2);
    std::jthread later([&] { queue.push(2, 2); });  // has to wait: 2 is not below 0 + 2
    sleep_ms(20);
    queue.push(1, 1);
    queue.push(0, 0);
    std::vector<int> got;
    for (int i = 0; i < 3; ++i) got.push_back(queue.pop().value_or(-1));
    expect_equal("what came out", got, {0, 1, 2});
  });
  report.test(1, "four workers make batches, and one caller has them in order", [] {
    OrderedQueue<size_t> queue(3);
    std::atomic<size_t> job{0};
    std::vector<std::jthread> workers;
    for (int t = 0; t < 4; ++t)
      workers.emplace_back([&] {
        for (size_t number; (number = job++) < 400;) queue.push(number, number);
      });
    std::vector<size_t> got, expected(400);
    std::iota(expected.begin(), expected.end(), 0);
    for (size_t i = 0; i < 400; ++i) got.push_back(queue.pop().value_or(999));
    queue.close();  // lets the workers go if an element is not where it should be
    workers.clear();
    expect(got == expected, "the batches came in another order");
  });
  return report.done();
}
