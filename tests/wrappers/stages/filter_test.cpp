#include <stdexcept>

#include <catch2/catch.hpp>

#include "io/error.h"
#include "tests/support/conformance.h"
#include "tests/wrappers/stream_fixture.h"
#include "wrappers/batching/batch.h"
#include "wrappers/stages/map.h"

using energon::CallContext;
using energon::Dataset;
using energon::Filter;
using energon::Sample;
using energon::testing::number;
using energon::testing::NumberedStream;

namespace {

bool is_even(const Sample& sample, CallContext& /*context*/) { return number(sample) % 2 == 0; }

}  // namespace

TEST_CASE("filters conform", "[wrappers][filter][conformance]") {
  NumberedStream samples;
  const bool is_random = GENERATE(false, true);
  const energon::FilterFunction keep =
      is_random ? [](const Sample&, CallContext& context) { return context.rng()() % 3 == 0; }
                : energon::FilterFunction(is_even);
  energon::testing::check_conformance<Dataset>(
      [&] { return std::make_unique<Filter>(samples.shuffled(), keep, energon::StageOptions{}); },
      60);
}

TEST_CASE("batches over a filter are full, and filtered samples are not failures",
          "[wrappers][filter]") {
  NumberedStream samples;
  energon::testing::RecordingMonitor monitor;
  energon::Batch stream(
      std::make_unique<Filter>(samples.in_order(), is_even,
                               energon::StageOptions{.name = "even", .monitor = monitor}),
      {.batch_size = 10});
  CHECK_FALSE(stream.size());
  const auto batches = energon::testing::epoch_numbers(stream);
  REQUIRE(batches.size() == 3);
  CHECK(batches[0] == std::vector<std::int64_t>{0, 2, 4, 6, 8, 10, 12, 14, 16, 18});
  CHECK(batches[2].size() == 8);
  CHECK(monitor.drops() == 0);
  CHECK(monitor.stage("even").failed == 0);
  CHECK(monitor.stage("even").skipped == 0);
}

TEST_CASE("a predicate that fails drops its sample by the policy", "[wrappers][filter]") {
  NumberedStream samples;
  energon::testing::RecordingMonitor monitor;
  const auto fail = [](const Sample& sample, CallContext& /*context*/) -> bool {
    return number(sample) == 3 ? throw std::runtime_error("no label") : true;
  };
  Filter stream(samples.in_order(), fail,
                {.name = "label", .policy = energon::testing::kSkipFailures, .monitor = monitor});
  CHECK(energon::testing::epoch_numbers(stream).size() == 54);
  REQUIRE(monitor.reports().size() == 1);
  CHECK(monitor.reports()[0].samples.at(0).key == "000003");
  Filter strict(samples.in_order(), fail, {.name = "label"});
  CHECK(strict.skip(3) == 3);
  CHECK_THROWS_WITH(strict.next(), Catch::Contains("'label' failed: no label"));
}

TEST_CASE("a filter without a function is refused", "[wrappers][filter]") {
  NumberedStream samples;
  CHECK_THROWS_AS(Filter(samples.in_order(), nullptr, {.name = "none"}), energon::Error);
}

TEST_CASE("a filter that keeps nothing ends after the allowed number of samples",
          "[wrappers][filter]") {
  NumberedStream samples;
  const auto keep_above = [](std::int64_t least) {
    return [least](const Sample& sample, CallContext&) { return number(sample) >= least; };
  };
  Filter nothing(samples.in_order(), keep_above(1000), {.name = "keep", .most_left_out = 20});
  CHECK_THROWS_WITH(nothing.next(), Catch::Contains("'keep' left out 20 samples in a row"));
  Filter some(samples.in_order(), keep_above(19), {.name = "keep", .most_left_out = 20});
  CHECK(number(some.next().value()) == 19);
}
