// SDL-03: functions without a state, as the source of a stateful loader.

#include "protocols/torchdata/stateless_source.h"

#include <memory>

#include <catch2/catch.hpp>

#include "io/error.h"
#include "tests/protocols/torchdata/stateful_fixture.h"

using energon::Error;
using energon::ErrorCode;
using energon::Sample;
using energon::StatefulDataLoader;
using energon::StatelessSource;
using energon::testing::after;
using energon::testing::Batches;
using energon::testing::Dict;
using energon::testing::pass;
using energon::testing::take;
using energon::testing::through_text;

namespace {

// Epochs of `size` batches. Counts the batches made.
std::shared_ptr<StatelessSource> counted_source(std::int64_t size,
                                                std::shared_ptr<std::int64_t> made) {
  return std::make_shared<StatelessSource>([size, made] {
    return [size, made, next = std::int64_t{0}]() mutable -> std::optional<Sample> {
      if (next == size) {
        return std::nullopt;
      }
      ++*made;
      Sample batch;
      batch.keys = {std::to_string(next++)};
      return batch;
    };
  });
}

}  // namespace

TEST_CASE("SDL-03 a source without a state is replayed up to its position, with one warning",
          "[protocols][sdl]") {
  const auto made = std::make_shared<std::int64_t>(0);
  StatefulDataLoader uninterrupted(counted_source(20, made));
  const Batches reference = pass(uninterrupted);
  REQUIRE(reference.size() == 20);
  for (const std::size_t interrupt : {0, 1, 10, 20}) {
    CAPTURE(interrupt);
    StatefulDataLoader saved(counted_source(20, made));
    saved.iterate();
    take(saved, interrupt);
    const Dict dict = through_text(saved.state_dict());
    CHECK(saved.warnings().empty());

    StatefulDataLoader loader(counted_source(20, made));
    *made = 0;
    loader.load_state_dict(dict);
    loader.iterate();
    CHECK(loader.state_dict() == dict);
    CHECK(*made == 0);
    CHECK(take(loader) == after(reference, interrupt));
    CHECK(*made == 20);
    CHECK(pass(loader) == reference);
    loader.load_state_dict(dict);
    CHECK((loader.iterate(), take(loader)) == after(reference, interrupt));
    CHECK(loader.warnings().size() == (interrupt == 0 ? 0 : 1));
  }
}

TEST_CASE("a source without a state that yields fewer batches than before is a mismatch",
          "[protocols][sdl]") {
  const auto made = std::make_shared<std::int64_t>(0);
  StatefulDataLoader saved(counted_source(20, made));
  saved.iterate();
  take(saved, 11);
  StatefulDataLoader loader(counted_source(10, made));
  loader.load_state_dict(saved.state_dict());
  loader.iterate();
  try {
    loader.next();
    FAIL("a batch came");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kMismatch);
    CHECK_THAT(error.what(), Catch::Contains("yields only 10"));
  }
}
