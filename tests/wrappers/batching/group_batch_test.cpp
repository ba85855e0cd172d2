#include "wrappers/batching/group_batch.h"

#include <cstdint>
#include <set>
#include <stdexcept>
#include <string>

#include <catch2/catch.hpp>

#include "io/error.h"
#include "tests/support/call_function.h"
#include "tests/support/conformance.h"
#include "tests/wrappers/stream_fixture.h"

using energon::BatchGroup;
using energon::Dataset;
using energon::GroupBatch;
using energon::GroupBatchOptions;
using energon::Sample;
using energon::testing::epoch_numbers;
using energon::testing::FailingOnce;
using energon::testing::number;
using energon::testing::NumberedStream;
using Remainder = energon::BatchOptions::Remainder;
using Batches = std::vector<std::vector<std::int64_t>>;

namespace {

// Three groups by the last digit: 0 to 2 in threes, 3 to 6 in fives, the others in the default.
BatchGroup by_digit(const Sample& sample) {
  const std::int64_t digit = number(sample) % 10;
  if (digit < 3) {
    return {"low", 3};
  }
  return digit < 7 ? BatchGroup{"middle", 5} : BatchGroup{"high"};
}

std::unique_ptr<Dataset> groups(std::unique_ptr<Dataset> inner, GroupBatchOptions options = {}) {
  if (!options.criterion) {
    options.criterion = by_digit;
  }
  options.batch_size = 4;
  return std::make_unique<GroupBatch>(std::move(inner), std::move(options));
}

std::int64_t text_length(const Sample& sample) {
  return static_cast<std::int64_t>(sample.bytes("txt").size());
}

}  // namespace

TEST_CASE("group batches conform", "[wrappers][group_batch][conformance]") {
  NumberedStream samples;
  const auto remainder = GENERATE(Remainder::kSmallerBatch, Remainder::kDrop);
  const auto max_held_bytes =
      GENERATE(std::uint64_t{0}, std::uint64_t{300}, energon::kMaxHeldBytes);
  energon::testing::check_conformance<Dataset>(
      [&] {
        return groups(samples.shuffled(),
                      {.remainder = remainder, .max_held_bytes = max_held_bytes});
      },
      40);
}

TEST_CASE("full buckets become batches, the rest in the order in which they were opened",
          "[wrappers][group_batch]") {
  NumberedStream samples;
  const auto stream = groups(samples.in_order());
  CHECK_FALSE(stream->size());
  const Batches batches = epoch_numbers(*stream);
  REQUIRE(batches.size() == 6 + 4 + 3 + 2);
  CHECK(batches[0] == std::vector<std::int64_t>{0, 1, 2});
  CHECK(batches[2] == std::vector<std::int64_t>{3, 4, 5, 6, 13});
  CHECK(batches[3] == std::vector<std::int64_t>{7, 8, 9, 17});
  CHECK(batches[13] == std::vector<std::int64_t>{53, 54});
  CHECK(batches[14] == std::vector<std::int64_t>{47, 48, 49});
  stream->next_epoch();
  CHECK(epoch_numbers(*stream) == batches);
  CHECK(epoch_numbers(*groups(samples.in_order(), {.remainder = Remainder::kDrop})) ==
        Batches(batches.begin(), batches.begin() + 13));
}

TEST_CASE("an epoch that ends in the middle leaves nothing in the buckets",
          "[wrappers][group_batch]") {
  NumberedStream samples;
  const auto stream = groups(samples.in_order());
  stream->skip(2);
  stream->next_epoch();
  CHECK(stream->save_state().bytes("buckets") == std::string(4, '\0'));
}

TEST_CASE("a group that changes its batch size is an Error", "[wrappers][group_batch]") {
  NumberedStream samples;
  const auto stream =
      groups(samples.in_order(), {.criterion = [](const Sample& sample) -> BatchGroup {
               return {"all", 10 + number(sample) / 3};
             }});
  CHECK_THROWS_WITH(stream->next(), Catch::Contains("'all'") && Catch::Contains("from 10 to 11"));
  const auto none = groups(samples.in_order(), {.criterion = [](const Sample&) {
                             return BatchGroup{"none", 0};
                           }});
  CHECK_THROWS_WITH(none->next(), Catch::Contains("batch size of group 'none' is 0"));
}

TEST_CASE("criterion and batch function have their own policies", "[wrappers][group_batch]") {
  NumberedStream samples;
  energon::testing::RecordingMonitor monitor;
  const energon::ErrorPolicy skip = energon::testing::kSkipFailures;
  const auto stream = groups(
      samples.in_order(), {.criterion = [](const Sample& sample) -> BatchGroup {
                             return number(sample) == 1 ? throw std::runtime_error("no label")
                                                        : by_digit(sample);
                           },
                           .function = [](std::span<Sample> batch) -> energon::Mapping {
                             return number(batch[0]) == 0 ? throw std::runtime_error("no room")
                                                          : energon::list_fields(batch);
                           },
                           .group_stage = {.name = "group", .policy = skip, .monitor = monitor},
                           .batch_stage = {.name = "batch", .policy = skip, .monitor = monitor}});
  const auto first = stream->next();
  CHECK(first->restore_key.text().starts_with("GroupBatch(1)["));
  CHECK(monitor.stage("group").failed == 1);
  CHECK(monitor.stage("batch").failed == 3);
}

TEST_CASE("a sample that cannot be rebuilt or read does not lose others",
          "[wrappers][group_batch]") {
  NumberedStream samples;
  const Batches expected = epoch_numbers(*groups(samples.in_order()));
  const auto stream = groups(std::make_unique<FailingOnce>(samples.in_order(), 7));
  CHECK(stream->skip(1) == 1);
  CHECK_THROWS_WITH(stream->next(), Catch::Contains("the disk is gone"));
  CHECK(epoch_numbers(*stream) == Batches(expected.begin() + 1, expected.end()));
}

TEST_CASE("a criterion draws the same random numbers again",
          "[wrappers][group_batch][conformance]") {
  NumberedStream samples;
  energon::testing::check_conformance<Dataset>(
      [&] {
        return groups(samples.shuffled(),
                      {.criterion = [](const Sample&, energon::CallContext& context) {
                        return BatchGroup{std::to_string(context.rng().integer(3))};
                      }});
      },
      40);
  std::set<std::int64_t> drawn;
  const auto stream = groups(samples.in_order(),
                             {.criterion = [&drawn](const Sample&, energon::CallContext& context) {
                               drawn.insert(context.rng().integer(1'000'000'000));
                               return BatchGroup{"all"};
                             }});
  epoch_numbers(*stream);
  CHECK(drawn.size() == 55);  // each sample has its own number
  stream->next_epoch();
  epoch_numbers(*stream);
  CHECK(drawn.size() == 110);  // and others in the next epoch
}

TEST_CASE("samples are grouped by length, as many as the token limit allows",
          "[wrappers][group_batch]") {
  NumberedStream samples;
  const auto stream = std::make_unique<GroupBatch>(
      samples.in_order(),
      GroupBatchOptions{.criterion = energon::by_length(text_length, {1, 3}, 12)});
  const Batches batches = epoch_numbers(*stream);
  CHECK(batches.front() == std::vector<std::int64_t>{10, 11, 12, 13});
  CHECK(batches[batches.size() - 2] == std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  const auto criterion = [](const char* key) {
    Sample sample;
    sample.keys = {key};
    return energon::testing::call_function(
        energon::by_length([](const Sample& s) { return number(s); }, {2, 5}), sample);
  };
  CHECK(criterion("0").group == "up to 2");
  CHECK(criterion("2").group == "up to 2");
  CHECK(criterion("3").group == "up to 5");
  CHECK_FALSE(criterion("3").batch_size);
  CHECK_THROWS_WITH(criterion("6"), Catch::Contains("length 6"));
  CHECK_THROWS_WITH(criterion("-1"), Catch::Contains("length -1"));
  CHECK_THROWS_AS(energon::by_length(text_length, {}), energon::Error);
  CHECK_THROWS_AS(energon::by_length(text_length, {3, 3}), energon::Error);
  CHECK_THROWS_AS(energon::by_length(text_length, {0, 3}), energon::Error);
  CHECK_THROWS_WITH(energon::by_length(text_length, {3, 30}, 29), Catch::Contains("is 29"));
}

TEST_CASE("damaged states and impossible group batches are refused", "[wrappers][group_batch]") {
  NumberedStream samples;
  const auto stream = groups(samples.in_order());
  stream->skip(2);
  const energon::State good = stream->save_state();
  const std::string& buckets = good.bytes("buckets");
  for (std::size_t length = 0; length < buckets.size(); ++length) {
    CAPTURE(length);
    energon::State state = good;
    state.fields[1].second = buckets.substr(0, length);
    CHECK_THROWS_WITH(stream->restore_state(state), Catch::Contains("GroupBatch: "));
  }
  CHECK(stream->save_state() == good);
  CHECK_THROWS_AS(GroupBatch(samples.in_order(), {}), energon::Error);
  CHECK_THROWS_AS(GroupBatch(samples.in_order(), {.criterion = by_digit, .batch_size = 0}),
                  energon::Error);
}
