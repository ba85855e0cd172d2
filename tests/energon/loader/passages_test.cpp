// How passes over the data follow each other with `repeat`.

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include <catch2/catch.hpp>

#include "energon/loader/basic_data_loader.h"
#include "energon/loader/savable_data_loader.h"
#include "tests/energon/loader/loader_fixture.h"

using energon::SavableDataLoader;
using energon::testing::LoaderFixture;
using energon::testing::numbers;

namespace {

// The stream of one logical shard, whose samples are not known in advance.
class Passages {
 public:
  void add(std::int64_t sample) {
    order_.push_back(sample);
    ++times_[sample];
  }

  std::int64_t samples() const { return static_cast<std::int64_t>(times_.size()); }

  /// The largest number of samples of a pass that were not delivered when a sample of the next pass
  /// was.
  std::int64_t largest_overlap() const {
    std::map<std::int64_t, std::int64_t> times;      // of each sample so far
    std::map<std::int64_t, std::int64_t> delivered;  // of each pass so far
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

TEST_CASE("counting batches makes no pipelines after the first call", "[loader][sizes][fork]") {
  int made = 0;
  const LoaderFixture fixture({.batch_size = 2, .shuffle_buffer_size = 7, .repeat = false});
  const energon::PipelineFactory pipeline = [&](const energon::PipelineContext& context) {
    ++made;
    return fixture.pipeline()(context);
  };
  for (const int workers : {0, 2}) {
    CAPTURE(workers);
    const energon::LoaderOptions options{
        .worker_config = {.num_workers = workers, .logical_shards = 6}};
    const auto left_in = [&](SavableDataLoader& loader) {
      std::int64_t left = 0;
      const auto copy = fixture.loader(0, {.worker_config = {.logical_shards = 6}});
      copy->restore_state_rank(loader.save_state_rank());
      while (copy->next()) {
        ++left;
      }
      return left;
    };
    SavableDataLoader loader(pipeline, options);
    const std::int64_t size = loader.size().value();
    for (int step = 0; step < 80; ++step) {
      CAPTURE(step);
      const std::int64_t left = left_in(loader);
      loader.batches_left();
      const int before = made;
      REQUIRE(loader.batches_left() == left);
      CHECK(loader.size() == size);
      CHECK(made == before);
      if (step == 17 || step == 50) {
        const auto state = loader.save_state_rank();
        loader.stop();
        loader.restore_state_rank(state);
      } else {
        loader.next();
      }
      if (step == 25) {
        loader.stop();
      }
    }
    const energon::BasicDataLoader basic(pipeline, options);
    CHECK(basic.size() == size);
    const int before = made;
    CHECK(basic.size() == size);
    CHECK(made == before);
  }
}
