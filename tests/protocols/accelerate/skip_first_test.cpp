// ACC-11 and ACC-12: the first batches of one pass are skipped.

#include "protocols/accelerate/skip_first.h"

#include <algorithm>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "protocols/indexed_source.h"
#include "tests/protocols/accelerate/adapter_fixture.h"
#include "tests/protocols/numbered_batches.h"

using energon::IndexedOptions;
using energon::IndexedSource;
using energon::skip_first_batches;
using energon::testing::adapt;
using energon::testing::AdapterKind;
using energon::testing::kAdapterKinds;
using energon::testing::numbered_batch;
using energon::testing::numbered_source;
using energon::testing::take;

TEST_CASE("ACC-11 skipped batches are not read, and only this pass is shorter",
          "[distributed][acc]") {
  for (const AdapterKind kind : kAdapterKinds) {
    CAPTURE(kind);
    std::vector<std::int64_t> fetched;
    const auto source = std::make_shared<IndexedSource>(
        IndexedOptions{.samples = 16, .batch_size = 4}, [&](std::span<const std::int64_t> indexes) {
          fetched.insert(fetched.end(), indexes.begin(), indexes.end());
          return numbered_batch(indexes);
        });
    const auto original = adapt(kind, source);
    const auto skipping = skip_first_batches(original, 2);
    CHECK(skipping->size() == 2);
    CHECK(take(*skipping) == "[8,9,10,11] [12,13,14,15]");
    CHECK(*std::min_element(fetched.begin(), fetched.end()) == 8);
    CHECK(skipping->size() == 4);
    CHECK(take(*skipping) == "[0,1,2,3] [4,5,6,7] [8,9,10,11] [12,13,14,15]");
    CHECK(take(*original) == "[0,1,2,3] [4,5,6,7] [8,9,10,11] [12,13,14,15]");
  }
  const auto beyond = skip_first_batches(adapt(AdapterKind::kShard, numbered_source(16, 4)), 9);
  CHECK(beyond->size() == 0);
  CHECK(take(*beyond).empty());
  CHECK(take(*beyond, 1) == "[0,1,2,3]");
  CHECK_THROWS_WITH(skip_first_batches(beyond, -1), Catch::Contains("-1"));
}

TEST_CASE("ACC-12 skipping and resuming keep the number of the epoch", "[distributed][acc]") {
  const auto make = [] {
    return adapt(
        AdapterKind::kShard,
        std::make_shared<IndexedSource>(
            IndexedOptions{.samples = 16, .batch_size = 4, .shuffle_seed = 7}, numbered_batch));
  };
  std::vector<std::string> epochs;
  const auto reference = make();
  for (int epoch = 0; epoch < 5; ++epoch) {
    epochs.push_back(take(*reference));
  }
  CHECK(std::set<std::string>(epochs.begin(), epochs.end()).size() == 5);

  const auto chosen = make();
  chosen->set_epoch(1);
  const auto skipping = skip_first_batches(chosen, 2);
  CHECK(skipping->epoch() == 1);
  const std::string rest = take(*skipping);
  CHECK(epochs[1].substr(epochs[1].size() - rest.size()) == rest);
  CHECK(skipping->epoch() == 2);
  CHECK(take(*skipping) == epochs[2]);

  const auto running = make();
  running->set_epoch(3);
  take(*running, 2);
  CHECK_THROWS_WITH(running->set_epoch(0), Catch::Contains("within an epoch"));
  const auto resumed = make();
  resumed->restore_state_rank(running->save_state_rank());
  CHECK(resumed->epoch() == 3);
  CHECK(take(*resumed) == take(*running));
  CHECK(resumed->epoch() == 4);
  CHECK(take(*resumed) == epochs[4]);
}
