// Consecutive failures: what counts as one, and what ends a row of them.

#include "energon/stage/stage_guard.h"

#include <stdexcept>

#include <catch2/catch.hpp>

#include "io/error.h"
#include "tests/wrappers/stream_fixture.h"
#include "wrappers/stages/map.h"

using energon::CallContext;
using energon::Dataset;
using energon::Sample;
using energon::SampleGenerator;
using energon::StageOptions;
using energon::testing::number;
using energon::testing::NumberedStream;
using energon::testing::RecordingMonitor;

namespace {

StageOptions tolerate(std::int64_t tolerance, RecordingMonitor& monitor) {
  return {.name = "stage",
          .policy = {.action = energon::FailureAction::kSkip, .tolerance = tolerance},
          .monitor = monitor};
}

// Fails except for each `period`-th sample.
energon::MapFunction succeeds_each(std::int64_t period) {
  return [period](Sample sample, CallContext&) {
    return number(sample) % period == period - 1 ? sample : throw std::runtime_error("bad");
  };
}

std::size_t count_items(Dataset& stream) {
  std::size_t items = 0;
  while (stream.next()) {
    ++items;
  }
  return items;
}

}  // namespace

TEST_CASE("a success ends a row of failures, so short rows never end the stream",
          "[wrappers][stage_guard]") {
  NumberedStream samples;
  RecordingMonitor monitor;
  energon::Map stream(samples.in_order(), succeeds_each(3), tolerate(3, monitor));
  CHECK(count_items(stream) == 18);  // of 55, after 37 failures, two in a row
  REQUIRE(monitor.reports().size() == 37);
  for (std::size_t i = 0; i < monitor.reports().size(); ++i) {
    CAPTURE(i);
    CHECK(monitor.reports()[i].consecutive == static_cast<std::int64_t>(i % 2 + 1));
  }
  energon::Map longer(samples.in_order(), succeeds_each(4), tolerate(3, monitor));
  CHECK_THROWS_WITH(longer.next(), Catch::Contains("3 samples in a row failed") &&
                                       Catch::Contains("tolerance is 3"));
}

TEST_CASE("a used sample without output ends a row of failures, too", "[wrappers][stage_guard]") {
  NumberedStream samples;
  RecordingMonitor monitor;
  const auto gives_nothing = [](std::int64_t period) {
    return [period](Sample sample, CallContext&) -> SampleGenerator {
      if (number(sample) % period != period - 1) {
        throw std::runtime_error("bad");
      }
      return []() -> std::optional<Sample> { return std::nullopt; };
    };
  };
  energon::FlatMap stream(samples.in_order(), gives_nothing(3), tolerate(3, monitor));
  CHECK(count_items(stream) == 0);
  CHECK(monitor.reports().size() == 37);
  energon::FlatMap longer(samples.in_order(), gives_nothing(4), tolerate(3, monitor));
  CHECK_THROWS_WITH(longer.next(), Catch::Contains("3 samples in a row failed"));
}

TEST_CASE("system errors end the stream regardless of the policy", "[wrappers][stage_guard]") {
  NumberedStream samples;
  RecordingMonitor monitor;
  energon::Map stream(
      samples.in_order(),
      [](Sample, CallContext&) -> Sample {
        throw energon::Error(energon::ErrorCode::kIo, "cannot open a file: too many open files");
      },
      tolerate(0, monitor));
  CHECK_THROWS_WITH(stream.next(), Catch::Contains("too many open files"));
  CHECK(monitor.reports().empty());
}
