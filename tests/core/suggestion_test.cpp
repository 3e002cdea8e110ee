// The nearest candidate for a mistyped word.
#include "lathe/core/text/suggestion.h"

#include <doctest/doctest.h>

using namespace lathe;

TEST_CASE("nearest: the fewest edits win, and what is far away is not offered") {
  CHECK(nearest("epoch", {"epochs", "lr", "batch-size"}) == "epochs");
  CHECK(nearest("batchsize", {"epochs", "lr", "batch-size"}) == "batch-size");
  CHECK(nearest("rl", {"epochs", "lr"}) == "lr");  // two neighbours swapped: one edit
  CHECK(nearest("zzzzzz", {"epochs", "lr"}).empty());
  CHECK(suggestion("epoch", {"epochs"}, "--") == "; did you mean --epochs?");
  CHECK(suggestion("zzzzzz", {"epochs"}).empty());
}
