#include <stdexcept>

#include <catch2/catch.hpp>

#include "io/error.h"
#include "tests/support/conformance.h"
#include "tests/wrappers/stream_fixture.h"
#include "wrappers/stages/map.h"

using energon::CallContext;
using energon::Dataset;
using energon::FlatMap;
using energon::Sample;
using energon::SampleGenerator;
using energon::testing::FailingOnce;
using energon::testing::number;
using energon::testing::NumberedStream;

namespace {

// number % 4 outputs, each with a fresh random number; no generator for every seventh sample.
SampleGenerator split(Sample sample, CallContext& context) {
  if (number(sample) % 7 == 0) {
    return nullptr;
  }
  return [sample = std::move(sample), &context, i = 0]() mutable -> std::optional<Sample> {
    if (i >= number(sample) % 4) {
      return std::nullopt;
    }
    Sample output;
    if (i % 2 == 0) {
      output.keys = sample.keys;
      output.sources = sample.sources;
    }
    output.fields = sample.fields;
    const std::string depth = std::to_string(sample.fields.size());
    output.fields.emplace_back("piece" + depth, std::int64_t{i++});
    output.fields.emplace_back("noise" + depth, static_cast<std::int64_t>(context.rng()()));
    return output;
  };
}

std::unique_ptr<Dataset> flat_map(std::unique_ptr<Dataset> inner, energon::FlatMapFunction function,
                                  energon::StageOptions options = {.name = "split"}) {
  return std::make_unique<FlatMap>(std::move(inner), std::move(function), options);
}

}  // namespace

TEST_CASE("flat maps conform, also nested", "[wrappers][flat_map][conformance]") {
  NumberedStream samples;
  const int depth = GENERATE(1, 2);
  energon::testing::check_conformance<Dataset>(
      [&] {
        auto stream = flat_map(samples.shuffled(), split);
        return depth == 1 ? std::move(stream) : flat_map(std::move(stream), split);
      },
      depth == 1 ? 170 : 100);
}

TEST_CASE("outputs come in order, with the keys of their sample", "[wrappers][flat_map]") {
  NumberedStream samples;
  const auto stream = flat_map(samples.in_order(), split);
  std::vector<std::string> keys;
  while (const auto output = stream->next()) {
    CHECK(output->keys.size() == 1);
    CHECK(output->sources.size() == 1);
    keys.push_back(output->restore_key.text());
  }
  REQUIRE(keys.size() > 6);
  CHECK(std::vector(keys.begin(), keys.begin() + 6) ==
        std::vector<std::string>{"FlatMap(1,0)/Webdataset(0,1)", "FlatMap(2,0)/Webdataset(0,2)",
                                 "FlatMap(2,1)/Webdataset(0,2)", "FlatMap(3,0)/Webdataset(0,3)",
                                 "FlatMap(3,1)/Webdataset(0,3)", "FlatMap(3,2)/Webdataset(0,3)"});
}

TEST_CASE("outputs that are not requested are not produced", "[wrappers][flat_map]") {
  NumberedStream samples;
  int made = 0;
  const auto stream =
      flat_map(samples.in_order(), [&made](Sample sample, CallContext&) -> SampleGenerator {
        return [&made, sample]() -> std::optional<Sample> {
          ++made;
          return sample;
        };
      });
  for (int i = 0; i < 5; ++i) {
    CAPTURE(i);
    CHECK(number(*stream->next()) == 0);
  }
  CHECK(made == 5);
}

TEST_CASE("a failure in the middle drops the rest of the sample", "[wrappers][flat_map]") {
  NumberedStream samples;
  energon::testing::RecordingMonitor monitor;
  const auto fail = [](Sample sample, CallContext&) -> SampleGenerator {
    return [sample, i = 0]() mutable -> std::optional<Sample> {
      if (number(sample) == 1 && i == 1) {
        throw std::runtime_error("torn");
      }
      return i++ < 2 ? std::optional(sample) : std::nullopt;
    };
  };
  const auto numbers = [](Dataset& stream) {
    std::vector<std::int64_t> result;
    for (int i = 0; i < 6; ++i) {
      result.push_back(number(*stream.next()));
    }
    return result;
  };
  const auto stream =
      flat_map(samples.in_order(), fail,
               {.name = "split", .policy = energon::testing::kSkipFailures, .monitor = monitor});
  CHECK(numbers(*stream) == std::vector<std::int64_t>{0, 0, 1, 2, 2, 3});
  CHECK(monitor.stage("split").failed == 1);
  CHECK(monitor.reports().at(0).samples.at(0).key == "000001");
  const auto strict = flat_map(samples.in_order(), fail);
  CHECK(strict->skip(3) == 3);
  CHECK_THROWS_WITH(strict->next(), Catch::Contains("torn"));
  CHECK(number(*strict->next()) == 2);
}

TEST_CASE("after a restore the sample is read when its next output is requested",
          "[wrappers][flat_map]") {
  NumberedStream samples;
  const auto stream = flat_map(samples.in_order(), split);
  stream->skip(5);
  auto inner = std::make_unique<FailingOnce>(samples.in_order(), -1);
  const FailingOnce& counter = *inner;
  const auto resumed = flat_map(std::move(inner), split);
  resumed->restore_state(stream->save_state());
  CHECK(counter.restored() == 0);
  CHECK(energon::testing::label(*resumed->next()) == energon::testing::label(*stream->next()));
  CHECK(counter.restored() == 1);
}

TEST_CASE("a function with fewer outputs than before is an Error, not a shorter stream",
          "[wrappers][flat_map]") {
  NumberedStream samples;
  const auto stream = flat_map(samples.in_order(), split);
  stream->skip(5);
  for (const char* how : {"nothing", "throws", "skips"}) {
    CAPTURE(how);
    const auto resumed =
        flat_map(samples.in_order(),
                 [how = std::string(how)](Sample, CallContext&) -> SampleGenerator {
                   if (how == "throws") {
                     throw std::runtime_error("another day");
                   }
                   return how == "skips" ? throw energon::SkipSample() : nullptr;
                 },
                 {.name = "split", .policy = energon::testing::kSkipFailures});
    resumed->restore_state(stream->save_state());
    CHECK_THROWS_WITH(resumed->next(), Catch::Contains("'Webdataset(0,3)' of the saved position"));
  }
}

TEST_CASE("an epoch that ends in the middle of a sample has no effect on the next",
          "[wrappers][flat_map]") {
  NumberedStream samples;
  const auto stream = flat_map(samples.in_order(), split);
  stream->skip(5);
  stream->next_epoch();
  CHECK(stream->next()->keys == flat_map(samples.in_order(), split)->next()->keys);
}

TEST_CASE("damaged states of a flat map are refused", "[wrappers][flat_map]") {
  NumberedStream samples;
  const auto stream = flat_map(samples.in_order(), split);
  stream->skip(5);
  int number = 0;
  for (const auto& [field, value] : std::vector<std::pair<std::size_t, energon::StateValue>>{
           {0, std::int64_t{-1}}, {1, "damaged"}, {1, ""}, {2, std::int64_t{-1}}}) {
    INFO("value " << number++ << " of field " << field);
    energon::State state = stream->save_state();
    state.fields[field].second = value;
    CHECK_THROWS_WITH(flat_map(samples.in_order(), split)->restore_state(state),
                      Catch::Contains("FlatMap: "));
  }
}
