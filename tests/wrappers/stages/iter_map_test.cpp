#include "wrappers/stages/iter_map.h"

#include <stdexcept>

#include <catch2/catch.hpp>

#include "io/error.h"
#include "tests/support/conformance.h"
#include "tests/wrappers/stream_fixture.h"
#include "wrappers/buffers/combine.h"

using energon::CallContext;
using energon::Dataset;
using energon::IterMap;
using energon::IterMapOptions;
using energon::Pull;
using energon::Sample;
using energon::SampleGenerator;
using energon::testing::FailingOnce;
using energon::testing::number;
using energon::testing::NumberedStream;

namespace {

Sample with_number(Sample sample, const char* name, std::int64_t value) {
  sample.fields.emplace_back(name, value);
  return sample;
}

// Pulls samples up to the next multiple of 5 and returns an output for every two of them. The
// random number of the first output is drawn before anything is pulled, those of the others after.
SampleGenerator sentences(Pull pull, CallContext& context) {
  return [pull = std::move(pull), &context, is_end = false,
          early = std::optional<std::int64_t>()]() mutable -> std::optional<Sample> {
    if (context.call() % 2 == 1 && !early) {
      early = static_cast<std::int64_t>(context.rng()());
    }
    Sample output;
    int count = 0;
    while (!is_end && count < 2) {
      const auto sample = pull();
      is_end = !sample || number(*sample) % 5 == 4;
      if (sample) {
        output.fields.emplace_back("part" + std::to_string(count++), sample->at("txt"));
      }
    }
    if (count == 0) {
      return std::nullopt;
    }
    return with_number(std::move(output), "noise", static_cast<std::int64_t>(context.rng()()));
  };
}

// Returns each sample twice, the second time after pulling the next one.
SampleGenerator echoes(Pull pull, CallContext& /*context*/) {
  return [pull = std::move(pull), last = std::optional<Sample>(),
          owed = false]() mutable -> std::optional<Sample> {
    if (!std::exchange(owed, !owed)) {
      if (!last) {
        last = pull();
      }
      return last;
    }
    const auto echo = std::exchange(last, pull());
    return with_number(*echo, "echo", last ? number(*last) : -1);
  };
}

std::unique_ptr<Dataset> iter_map(std::unique_ptr<Dataset> inner, energon::IterMapFunction function,
                                  energon::StageOptions options = {.name = "iter"}) {
  return std::make_unique<IterMap>(
      std::move(inner), IterMapOptions{.function = std::move(function), .stage = options});
}

}  // namespace

TEST_CASE("iter maps conform", "[wrappers][iter_map][conformance]") {
  NumberedStream samples;
  SECTION("calls that end") {
    energon::testing::check_conformance<Dataset>(
        [&] { return iter_map(samples.in_order(), sentences); }, 80);
  }
  SECTION("calls that end anywhere") {
    energon::testing::check_conformance<Dataset>(
        [&] { return iter_map(samples.shuffled(), sentences); }, 90);
  }
}

TEST_CASE("one call over a whole epoch conforms", "[wrappers][iter_map][conformance]") {
  NumberedStream samples;
  energon::testing::check_conformance<Dataset>(
      [&] {
        return iter_map(iter_map(samples.in_order(), sentences),
                        [](Pull pull, CallContext&) { return [pull]() { return pull(); }; });
      },
      70);
}

TEST_CASE("a call returns outputs after the end of the inner epoch", "[wrappers][iter_map]") {
  NumberedStream samples;
  const auto stream = iter_map(samples.in_order(), echoes);
  std::vector<Sample> outputs;
  while (auto output = stream->next()) {
    outputs.push_back(std::move(*output));
  }
  REQUIRE(outputs.size() == 110);
  CHECK(number(outputs[109]) == 54);
  CHECK(std::get<std::int64_t>(outputs[109].at("echo").base()) == -1);
  CHECK_FALSE(stream->next());
  stream->next_epoch();
  CHECK(stream->next()->restore_key.text() == "IterMap(1,0)[Webdataset(0,0)]");
}

TEST_CASE("outputs have the keys of the samples that the call pulled", "[wrappers][iter_map]") {
  NumberedStream samples;
  const auto stream = iter_map(samples.in_order(), sentences);
  const auto first = stream->next();
  CHECK(first->restore_key.text() == "IterMap(0,0)[Webdataset(0,0),Webdataset(0,1)]");
  CHECK(first->keys == std::vector<std::string>{"000000", "000001"});
  CHECK(first->sources.at(1).sample == 1);
  stream->next();
  CHECK(stream->next()->keys.size() == 5);
  CHECK(stream->next()->restore_key.text() == "IterMap(1,0)[Webdataset(0,5),Webdataset(0,6)]");
}

TEST_CASE("random numbers differ between calls with the same number over other samples",
          "[wrappers][iter_map]") {
  NumberedStream samples;
  const auto noise = [](Dataset& stream) { return digest(*stream.next()); };
  const auto draw = [](Pull pull, CallContext& context) -> SampleGenerator {
    return [pull, &context]() -> std::optional<Sample> {
      pull();
      return with_number({}, "noise", static_cast<std::int64_t>(context.rng()()));
    };
  };
  CHECK(noise(*iter_map(samples.in_order(), draw)) != noise(*iter_map(samples.shuffled(), draw)));
  CHECK(noise(*iter_map(samples.in_order(), draw)) == noise(*iter_map(samples.in_order(), draw)));
}

TEST_CASE("calls that would never end are Errors that name the remedy", "[wrappers][iter_map]") {
  NumberedStream samples;
  const auto idle =
      iter_map(samples.in_order(), [](Pull, CallContext&) -> SampleGenerator { return nullptr; },
               {.name = "idle", .policy = energon::testing::kSkipFailures});
  CHECK_THROWS_WITH(idle->next(), Catch::Contains("called forever"));
  const auto greedy = [](Pull pull, CallContext&) -> SampleGenerator {
    try {
      while (pull()) {
      }
    } catch (...) {  // the function cannot hide the stage's error
    }
    return nullptr;
  };
  IterMap bounded(samples.in_order(),
                  {.function = greedy,
                   .max_samples_per_call = 20,
                   .stage = {.name = "greedy", .policy = energon::testing::kSkipFailures}});
  CHECK_THROWS_WITH(bounded.next(), Catch::Contains("pulled 20 samples") &&
                                        Catch::Contains("raise max_samples_per_call"));
  const auto broken = iter_map(
      samples.in_order(),
      [](Pull, CallContext&) -> SampleGenerator { throw std::runtime_error("no model"); },
      {.name = "broken", .policy = {.action = energon::FailureAction::kSkip, .tolerance = 0}});
  CHECK_THROWS_WITH(broken->next(), Catch::Contains("before it pulled a sample"));
}

TEST_CASE("a failing call is dropped with the samples it pulled", "[wrappers][iter_map]") {
  NumberedStream samples;
  energon::testing::RecordingMonitor monitor;
  const auto pairs = [](Pull pull, CallContext& context) -> SampleGenerator {
    return [pull, &context, done = false]() mutable -> std::optional<Sample> {
      if (std::exchange(done, true)) {
        return std::nullopt;
      }
      auto sample = pull();
      pull();
      if (context.call() == 1) {
        throw std::runtime_error("odd pair");
      }
      return sample;
    };
  };
  const auto stream =
      iter_map(samples.in_order(), pairs,
               {.name = "pairs", .policy = energon::testing::kSkipFailures, .monitor = monitor});
  CHECK(number(*stream->next()) == 0);
  CHECK(number(*stream->next()) == 4);
  CHECK(monitor.stage("pairs").failed == 2);
  REQUIRE(monitor.reports().size() == 1);
  CHECK(monitor.reports()[0].samples.at(1).key == "000003");
}

TEST_CASE("an error of the inner stage is not a failure of the function, and loses nothing",
          "[wrappers][iter_map]") {
  NumberedStream samples;
  const auto expected = [&] {
    const auto stream = iter_map(samples.in_order(), sentences);
    return energon::testing::steps(*stream, 20);
  }();
  for (const int before : {0, 1, 2, 3, 4, 5, 7}) {
    CAPTURE(before);
    const auto stream =
        iter_map(std::make_unique<FailingOnce>(samples.in_order(), before), sentences,
                 {.name = "iter", .policy = energon::testing::kSkipFailures});
    std::vector<std::string> labels;
    int errors = 0;
    while (labels.size() < 20) {
      try {
        labels.push_back(energon::testing::step(*stream));
      } catch (const energon::Error& error) {
        CHECK(error.message() == "the disk is gone");
        ++errors;
      }
    }
    CHECK(labels == expected);
    CHECK(errors == 1);
  }
}

TEST_CASE("after a restore the samples of the call are read when its next output is requested",
          "[wrappers][iter_map]") {
  NumberedStream samples;
  const auto stream = iter_map(samples.in_order(), sentences);
  stream->skip(2);
  auto inner = std::make_unique<FailingOnce>(samples.in_order(), -1);
  const FailingOnce& counter = *inner;
  const auto resumed = iter_map(std::move(inner), sentences);
  resumed->restore_state(stream->save_state());
  CHECK(counter.restored() == 0);
  CHECK(energon::testing::label(*resumed->next()) == energon::testing::label(*stream->next()));
  CHECK(counter.restored() == 4);

  const auto other = iter_map(samples.in_order(), echoes);
  stream->restore_state(iter_map(samples.in_order(), sentences)->save_state());
  stream->skip(3);
  other->restore_state(stream->save_state());
  CHECK_NOTHROW(other->next());
  const auto greedy = iter_map(samples.in_order(), [](Pull pull, CallContext&) -> SampleGenerator {
    while (pull()) {
    }
    return nullptr;
  });
  greedy->restore_state(stream->save_state());
  CHECK_THROWS_WITH(greedy->next(), Catch::Contains("pulls more than the 5 samples"));
}

TEST_CASE("an epoch that ends in the middle of a call has no effect on the next",
          "[wrappers][iter_map]") {
  NumberedStream samples;
  const auto stream = iter_map(samples.in_order(), sentences);
  stream->skip(2);
  stream->next_epoch();
  CHECK(stream->next()->keys == iter_map(samples.in_order(), sentences)->next()->keys);
}

TEST_CASE("damaged states and foreign keys of an iter map are refused", "[wrappers][iter_map]") {
  NumberedStream samples;
  const auto stream = iter_map(samples.in_order(), sentences);
  stream->skip(2);
  for (const auto& [field, value] : std::vector<std::pair<std::size_t, energon::StateValue>>{
           {0, std::int64_t{-1}}, {1, "damaged"}, {2, std::int64_t{-1}}, {3, std::int64_t{2}}}) {
    CAPTURE(field);
    energon::State state = stream->save_state();
    state.fields[field].second = value;
    CHECK_THROWS_WITH(stream->restore_state(state), Catch::Contains("IterMap: "));
  }
  for (const char* key : {"IterMap(0,9)[Webdataset(0,0)]", "IterMap(0,0)[Webdataset(0,0)]x",
                          "IterMap(0,0)[Webdataset(0,0),Webdataset(0,1),Webdataset(0,2)]"}) {
    CAPTURE(key);
    CHECK_THROWS_AS(stream->restore_sample(energon::RestoreKey::from_text(key)), energon::Error);
  }
}
