// How passages over the data follow each other with `repeat`.

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include <catch2/catch.hpp>

#include "energon/loader/savable_data_loader.h"
#include "tests/energon/loader/loader_fixture.h"

using energon::SavableDataLoader;
using energon::testing::LoaderFixture;
using energon::testing::numbers;

namespace {

// The stream of one logical shard, whose samples it does not know beforehand.
class Passages {
 public:
  void add(std::int64_t sample) {
    order_.push_back(sample);
    ++times_[sample];
  }

  std::int64_t samples() const { return static_cast<std::int64_t>(times_.size()); }

  /// The most samples of a passage that were not delivered when one of the next one came.
  std::int64_t largest_overlap() const {
    std::map<std::int64_t, std::int64_t> times;      // of each sample so far
    std::map<std::int64_t, std::int64_t> delivered;  // of each passage so far
    std::int64_t largest = 0;
    for (const std::int64_t sample : order_) {
      const std::int64_t passage = times[sample]++;
      ++delivered[passage];
      std::int64_t missing = 0;
      for (std::int64_t before = 0; before < passage; ++before) {
        missing += samples() - delivered[before];
      }
      largest = std::max(largest, missing);
    }
    return largest;
  }

 private:
  std::vector<std::int64_t> order_;
  std::map<std::int64_t, std::int64_t> times_;
};

}  // namespace

TEST_CASE("passages of a logical shard overlap by less than its shuffle buffer, and by no less",
          "[loader][passages]") {
  const std::int64_t buffer = GENERATE(1, 2, 7, 40);  // 40: more than two passages
  const LoaderFixture fixture({.batch_size = 1, .shuffle_buffer_size = buffer});
  SavableDataLoader loader(fixture.pipeline(), {.worker_config = {.logical_shards = 3}});
  std::map<int, Passages> shards;
  for (int batch = 0; batch < 55 * 60; ++batch) {
    const auto sample = loader.next();
    shards[sample->place->logical_shard].add(numbers(*sample).front());
  }
  CAPTURE(buffer);
  REQUIRE(shards.size() == 3);
  std::int64_t largest = 0;
  for (const auto& [number, passages] : shards) {
    CHECK((passages.samples() == 18 || passages.samples() == 19));
    CHECK(passages.largest_overlap() < buffer);
    largest = std::max(largest, passages.largest_overlap());
  }
  if (buffer <= 7) {
    CHECK(largest == buffer - 1);
  }
}
