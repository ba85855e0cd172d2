#include "wrappers/stages/batched_map.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "energon/sample/buffer_allocator.h"
#include "io/error.h"
#include "tests/support/conformance.h"
#include "tests/support/error_of.h"
#include "tests/support/memory_leaf.h"
#include "tests/wrappers/stream_fixture.h"
#include "wrappers/recipe/order_pipeline.h"
#include "wrappers/recipe/pipeline.h"
#include "wrappers/stages/map.h"

using energon::BatchedMap;
using energon::BatchedMapFunction;
using energon::BatchedMapOptions;
using energon::CallContext;
using energon::Dataset;
using energon::Error;
using energon::ErrorCode;
using energon::Sample;
using energon::testing::FailingOnce;
using energon::testing::kSkipFailures;
using energon::testing::number;
using energon::testing::NumberedStream;
using energon::testing::RecordingMonitor;
using energon::testing::steps;
using Sizes = std::vector<std::size_t>;

namespace {

using Check = std::function<void(std::int64_t number)>;

void check_nothing(std::int64_t /*number*/) {}

// Fails for some samples, and leaves out others.
void be_picky(std::int64_t number) {
  if (number % 7 == 2) {
    throw std::runtime_error("bad number " + std::to_string(number));
  }
  if (number % 11 == 4) {
    throw energon::SkipSample();
  }
}

Sample doubled(Sample sample, const Check& check) {
  check(number(sample));
  sample.fields.emplace_back("double", 2 * number(sample));
  return sample;
}

energon::MapFunction one_by_one(Check check = check_nothing) {
  return [check = std::move(check)](Sample sample, CallContext&) {
    return doubled(std::move(sample), check);
  };
}

// Appends the size of each call to `sizes`, if given.
BatchedMapFunction together(Check check = check_nothing, Sizes* sizes = nullptr) {
  return [check = std::move(check), sizes](std::vector<Sample> samples, CallContext&) {
    if (sizes != nullptr) {
      sizes->push_back(samples.size());
    }
    for (Sample& sample : samples) {
      sample = doubled(std::move(sample), check);
    }
    return samples;
  };
}

std::unique_ptr<Dataset> batched(std::unique_ptr<Dataset> inner, BatchedMapOptions options) {
  return std::make_unique<BatchedMap>(std::move(inner), std::move(options));
}

std::unique_ptr<Dataset> mapped(std::unique_ptr<Dataset> inner, energon::MapFunction function,
                                const energon::StageOptions& options = {.name = "map"}) {
  return std::make_unique<energon::Map>(std::move(inner), std::move(function), options);
}

std::vector<std::int64_t> rest_of_epoch(Dataset& stream) {
  std::vector<std::int64_t> numbers;
  while (const auto sample = stream.next()) {
    numbers.push_back(number(*sample));
  }
  return numbers;
}

const std::string kNoneWaiting(4, '\0');

}  // namespace

TEST_CASE("batched maps conform", "[wrappers][batched_map][conformance]") {
  NumberedStream samples;
  const auto samples_per_call = GENERATE(std::int64_t{1}, std::int64_t{7}, std::int64_t{64});
  const auto max_held_bytes = GENERATE(std::uint64_t{0}, energon::kMaxHeldBytes);
  energon::testing::check_conformance<Dataset>(
      [&] {
        return batched(samples.shuffled(), {.function = together(),
                                            .samples_per_call = samples_per_call,
                                            .max_held_bytes = max_held_bytes});
      },
      120);
}

TEST_CASE("the items and their keys are those of a map", "[wrappers][batched_map]") {
  NumberedStream samples;
  const auto samples_per_call =
      GENERATE(std::int64_t{1}, std::int64_t{7}, std::int64_t{55}, std::int64_t{64});
  const auto stream =
      batched(samples.shuffled(), {.function = together(), .samples_per_call = samples_per_call});
  const auto map = mapped(samples.shuffled(), one_by_one());
  CHECK(stream->size() == map->size());
  CHECK(steps(*stream, 120) == steps(*map, 120));
  const auto item = stream->next();
  CHECK(energon::testing::label(map->restore_sample(item->restore_key)) ==
        energon::testing::label(*item));
  CHECK(energon::testing::label(stream->restore_sample(item->restore_key)) ==
        energon::testing::label(*item));

  std::vector<Sample> many;
  batched(samples.in_order(), {.function = together(), .samples_per_call = samples_per_call})
      ->next_many(60, many);
  REQUIRE(many.size() == 55);
  const auto in_order = mapped(samples.in_order(), one_by_one());
  for (const Sample& one : many) {
    CHECK(energon::testing::label(one) == energon::testing::label(*in_order->next()));
  }
}

TEST_CASE("an epoch that is left in the middle leaves nothing waiting", "[wrappers][batched_map]") {
  NumberedStream samples;
  const auto stream = batched(samples.in_order(), {.function = together(), .samples_per_call = 10});
  const auto map = mapped(samples.in_order(), one_by_one());
  CHECK(steps(*stream, 3) == steps(*map, 3));
  CHECK(stream->save_state().bytes("waiting").size() > 4);
  stream->next_epoch();
  map->next_epoch();
  CHECK(stream->save_state().bytes("waiting") == kNoneWaiting);
  CHECK(steps(*stream, 100) == steps(*map, 100));
}

TEST_CASE("calls are full until the end of the epoch", "[wrappers][batched_map]") {
  NumberedStream samples;
  Sizes sizes;
  const auto stream = batched(
      samples.in_order(), {.function = together(check_nothing, &sizes), .samples_per_call = 16});
  CHECK_FALSE(rest_of_epoch(*stream).empty());
  CHECK(sizes == Sizes{16, 16, 16, 7});
  stream->next_epoch();
  CHECK(stream->skip(20) == 20);
  CHECK(sizes.size() == 4);
  stream->next();
  CHECK(sizes == Sizes{16, 16, 16, 7, 16});
  CHECK(stream->skip(18) == 18);  // over the end of the call
  CHECK(sizes.size() == 5);
  CHECK(rest_of_epoch(*stream).size() == 16);
  CHECK(sizes == Sizes{16, 16, 16, 7, 16, 16});
}

TEST_CASE("samples that fail are left out as in a map", "[wrappers][batched_map]") {
  NumberedStream samples;
  const auto samples_per_call =
      GENERATE(std::int64_t{1}, std::int64_t{7}, std::int64_t{55}, std::int64_t{64});
  RecordingMonitor of_map;
  const auto map = mapped(samples.shuffled(), one_by_one(be_picky),
                          {.name = "map", .policy = kSkipFailures, .monitor = of_map});
  const auto reference = steps(*map, 100);
  const auto make = [&](RecordingMonitor& monitor) {
    return batched(samples.shuffled(),
                   {.function = together(be_picky),
                    .samples_per_call = samples_per_call,
                    .stage = {.name = "map", .policy = kSkipFailures, .monitor = monitor}});
  };
  RecordingMonitor monitor;
  CHECK(steps(*make(monitor), 100) == reference);
  CHECK(monitor.stage("map").failed == of_map.stage("map").failed);
  CHECK(monitor.stage("map").skipped == of_map.stage("map").skipped);
  REQUIRE(monitor.reports().size() == of_map.reports().size());
  for (std::size_t i = 0; i < monitor.reports().size(); ++i) {
    CHECK(monitor.reports()[i].cause == of_map.reports()[i].cause);
    REQUIRE(monitor.reports()[i].samples.size() == 1);
    CHECK(monitor.reports()[i].samples[0].key == of_map.reports()[i].samples.at(0).key);
  }
  for (std::size_t i = 0; i <= reference.size(); ++i) {
    CAPTURE(i);
    RecordingMonitor unused;
    const auto stream = make(unused);
    steps(*stream, i);
    const auto resumed = make(unused);
    resumed->restore_state(stream->save_state());
    CHECK(steps(*resumed, reference.size() - i) ==
          std::vector(reference.begin() + static_cast<std::ptrdiff_t>(i), reference.end()));
  }
}

TEST_CASE("after a failure the function gets each sample of the call alone",
          "[wrappers][batched_map]") {
  NumberedStream samples;
  Sizes sizes;
  const auto fail_at_20 = [](std::int64_t number) {
    return number == 20 ? throw std::runtime_error("no luck") : void();
  };
  auto inner = std::make_unique<FailingOnce>(samples.in_order(), -1);
  const FailingOnce& counter = *inner;
  const auto stream = batched(std::move(inner), {.function = together(fail_at_20, &sizes),
                                                 .samples_per_call = 16,
                                                 .stage = {.policy = kSkipFailures}});
  CHECK(rest_of_epoch(*stream).size() == 54);
  Sizes expected = {16, 16};
  expected.insert(expected.end(), 16, 1);
  expected.insert(expected.end(), {16, 7});
  CHECK(sizes == expected);
  CHECK(counter.restored() == 16);
}

TEST_CASE("without a policy a failure is an Error at its place, and the stream continues after it",
          "[wrappers][batched_map]") {
  NumberedStream samples;
  const auto samples_per_call = GENERATE(std::int64_t{1}, std::int64_t{10});
  const auto stream = batched(samples.in_order(), {.function = together(be_picky),
                                                   .samples_per_call = samples_per_call,
                                                   .stage = {.name = "tokens"}});
  CHECK(number(*stream->next()) == 0);
  CHECK(number(*stream->next()) == 1);
  try {
    stream->next();
    FAIL_CHECK("the failure was ignored");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kUserFunction);
    CHECK(error.context().sample_key.value_or("") == "000002");
    CHECK(error.message() == "stage 'tokens' failed: bad number 2");
  }
  CHECK(number(*stream->next()) == 3);
  CHECK(number(*stream->next()) == 5);  // 4 is skipped
}

TEST_CASE("errors that no sample caused are not tried again one by one",
          "[wrappers][batched_map]") {
  NumberedStream samples;
  int calls = 0;
  const bool is_fatal = GENERATE(false, true);
  const BatchedMapFunction failing = [&](std::vector<Sample> some,
                                         CallContext&) -> std::vector<Sample> {
    if (++calls > 1) {
      return some;
    }
    if (is_fatal) {
      throw energon::FatalSampleError("the end");
    }
    throw Error(ErrorCode::kIo, "the disk is gone");
  };
  const auto stream =
      batched(samples.in_order(),
              {.function = failing, .samples_per_call = 10, .stage = {.policy = kSkipFailures}});
  CHECK_THROWS_WITH(stream->next(), Catch::Contains(is_fatal ? "the end" : "the disk is gone"));
  CHECK(calls == 1);
  CHECK(rest_of_epoch(*stream).size() == 55);
}

TEST_CASE("another number of results is an Error that no policy skips", "[wrappers][batched_map]") {
  NumberedStream samples;
  const auto change = GENERATE(-1, 1);
  const auto stream = batched(samples.in_order(),
                              {.function =
                                   [change](std::vector<Sample> some, CallContext&) {
                                     some.resize(some.size() + static_cast<std::size_t>(change));
                                     return some;
                                   },
                               .samples_per_call = 10,
                               .stage = {.name = "tokens", .policy = kSkipFailures}});
  const std::string text =
      energon::testing::error_of([&] { stream->next(); }, ErrorCode::kInvalidArgument);
  CHECK_THAT(text, Catch::Contains("stage 'tokens' returned " + std::to_string(10 + change) +
                                   " results for 10 samples"));
  const auto key = energon::RestoreKey::around(energon::Stage::kMap, {0},
                                               samples.in_order()->next()->restore_key);
  CHECK_THAT(
      energon::testing::error_of([&] { stream->restore_sample(key); }, ErrorCode::kInvalidArgument),
      Catch::Contains(std::to_string(1 + change) + " results for 1 samples"));
}

TEST_CASE("samples in another order are an Error that no policy skips", "[wrappers][batched_map]") {
  NumberedStream samples;
  const auto stream =
      batched(samples.in_order(), {.function =
                                       [](std::vector<Sample> some, CallContext&) {
                                         std::ranges::reverse(some);
                                         return some;
                                       },
                                   .samples_per_call = 10,
                                   .stage = {.name = "tokens", .policy = kSkipFailures}});
  CHECK_THAT(energon::testing::error_of([&] { stream->next(); }, ErrorCode::kInvalidArgument),
             Catch::Contains("stage 'tokens' returned") &&
                 Catch::Contains("expected the results in the order of the samples"));
}

TEST_CASE("duplicate fields are a failure of their sample", "[wrappers][batched_map]") {
  NumberedStream samples;
  RecordingMonitor monitor;
  const auto stream =
      batched(samples.in_order(),
              {.function =
                   [](std::vector<Sample> some, CallContext&) {
                     for (Sample& sample : some) {
                       if (number(sample) == 3) {
                         sample.fields = {{"a", std::int64_t{1}}, {"a", std::int64_t{2}}};
                       }
                     }
                     return some;
                   },
               .samples_per_call = 10,
               .stage = {.name = "map", .policy = kSkipFailures, .monitor = monitor}});
  CHECK(rest_of_epoch(*stream).size() == 54);
  REQUIRE(monitor.reports().size() == 1);
  CHECK(monitor.reports()[0].samples.at(0).key == "000003");
}

TEST_CASE("a state in the middle of a call is restored, also into another size of calls",
          "[wrappers][batched_map]") {
  NumberedStream samples;
  const auto stream = batched(samples.in_order(), {.function = together(), .samples_per_call = 20});
  steps(*stream, 4);
  const auto other_size =
      GENERATE(std::int64_t{1}, std::int64_t{5}, std::int64_t{20}, std::int64_t{50});
  Sizes sizes;
  auto inner = std::make_unique<FailingOnce>(samples.in_order(), -1);
  const FailingOnce& counter = *inner;
  const auto resumed = batched(std::move(inner), {.function = together(check_nothing, &sizes),
                                                  .samples_per_call = other_size});
  resumed->restore_state(stream->save_state());
  CHECK(resumed->save_state() == stream->save_state());
  CHECK(counter.restored() == 0);
  CHECK(steps(*resumed, 1) == steps(*stream, 1));
  CHECK(sizes == Sizes{static_cast<std::size_t>(std::min(other_size, std::int64_t{16}))});
  CHECK(counter.restored() == std::min(other_size, std::int64_t{16}));
  CHECK(steps(*resumed, 100) == steps(*stream, 100));
  CHECK(counter.restored() == 16);
}

TEST_CASE("damaged states and impossible batched maps are refused", "[wrappers][batched_map]") {
  NumberedStream samples;
  const auto stream = batched(samples.in_order(), {.function = together(), .samples_per_call = 10});
  steps(*stream, 3);
  const energon::State good = stream->save_state();
  REQUIRE(good.fields.size() == 2);
  const std::string& waiting = good.bytes("waiting");
  for (std::size_t length = 0; length < waiting.size(); ++length) {
    CAPTURE(length);
    energon::State state = good;
    state.fields[1].second = waiting.substr(0, length);
    CHECK_THROWS_WITH(stream->restore_state(state), Catch::Contains("BatchedMap: "));
  }
  CHECK(stream->save_state() == good);
  CHECK_THROWS_WITH(batched(samples.in_order(), {.stage = {.name = "tokens"}}),
                    Catch::Contains("stage 'tokens' has no function"));
  for (const std::int64_t size : {INT64_MIN, std::int64_t{0}, (std::int64_t{1} << 16) + 1}) {
    CHECK_THROWS_WITH(
        batched(samples.in_order(), {.function = together(), .samples_per_call = size}),
        Catch::Contains("samples_per_call is " + std::to_string(size)));
  }
}

TEST_CASE("a pipeline has encode_samples instead of encode_sample",
          "[wrappers][batched_map][pipeline]") {
  const energon::PipelineData data{
      std::make_shared<const energon::testing::MemoryLeaf>("", std::vector<std::int64_t>{23})};
  energon::TrainOptions options = {.batch_size = 3, .shuffle_buffer_size = 5};
  options.task_encoder.encode_sample = one_by_one();
  energon::HeapBufferPool memory;
  const auto map = energon::train_pipeline(data, options)({.memory = memory});
  options.task_encoder.encode_sample = {};
  options.task_encoder.encode_samples = together();
  options.samples_per_call = 4;
  const auto stream = energon::train_pipeline(data, options)({.memory = memory});
  CHECK(steps(*stream, 50) == steps(*map, 50));

  const energon::Config config = {{"pipeline", stream->config()}};
  CHECK_THAT(energon::testing::error_of([&] { order_pipeline(data, options, config); },
                                        ErrorCode::kUnsupported),
             Catch::Contains("BatchedMap"));
  const auto replayed = replay_pipeline(data, options, config)({.memory = memory});
  CHECK(replayed->config() == stream->config());
  replayed->restore_state(stream->save_state());
  CHECK(replayed->next()->restore_key == stream->next()->restore_key);

  const auto refused = [&](const energon::TaskEncoder& encoder) {
    return energon::testing::error_of([&] { train_pipeline(data, {.task_encoder = encoder}); },
                                      ErrorCode::kInvalidArgument);
  };
  energon::TaskEncoder encoder = {.encode_samples = together()};
  CHECK(refused(encoder) == "no error");
  encoder.encode_sample = one_by_one();
  CHECK_THAT(refused(encoder), Catch::Contains("encode_samples excludes encode_sample"));
  encoder.encode_sample = {};
  encoder.preencode_sample = one_by_one();
  CHECK_THAT(refused(encoder), Catch::Contains("preencode_sample and postencode_sample"));
  encoder.preencode_sample = {};
  encoder.postencode_sample = one_by_one();
  CHECK_THAT(refused(encoder), Catch::Contains("preencode_sample and postencode_sample"));
}
