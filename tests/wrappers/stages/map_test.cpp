#include "wrappers/stages/map.h"

#include <stdexcept>

#include <catch2/catch.hpp>

#include "io/error.h"
#include "tests/support/conformance.h"
#include "tests/support/dataset_builder.h"
#include "wrappers/recipe/pipeline.h"

using energon::CallContext;
using energon::Dataset;
using energon::Error;
using energon::HeapBufferPool;
using energon::MapFunction;
using energon::Sample;
using energon::testing::numbered_dataset;
using energon::testing::TempDir;

namespace {

MapFunction augment() {
  return [](Sample sample, CallContext& context) {
    sample.fields.emplace_back("noise", static_cast<std::int64_t>(context.rng()()));
    return sample;
  };
}

MapFunction failing(std::function<void()> fail) {
  return [fail](Sample sample, CallContext& context) {
    if (context.call() == 3) {
      fail();
    }
    return sample;
  };
}

// A dataset of 55 samples, and pipelines over it with one map function.
class Fixture {
 public:
  std::unique_ptr<Dataset> pipeline(MapFunction map) {
    return energon::train_pipeline(dataset_, {.task_encoder = {.encode_sample = std::move(map)},
                                              .batch_size = 2,
                                              .shuffle_buffer_size = 9,
                                              .repeat = false})({.memory = memory_});
  }

 private:
  TempDir folder_;
  std::shared_ptr<const energon::Webdataset> dataset_ =
      numbered_dataset(folder_, energon::testing::kTens);
  HeapBufferPool memory_;
};

}  // namespace

TEST_CASE("maps with random augmentation conform", "[wrappers][map][conformance]") {
  Fixture fixture;
  energon::testing::check_conformance<Dataset>([&] { return fixture.pipeline(augment()); }, 60);
}

TEST_CASE("random numbers depend on seed and restore key, so a rebuilt sample has the same",
          "[wrappers][map]") {
  Fixture fixture;
  const auto stream = fixture.pipeline(augment());
  const auto first = stream->next();
  const auto second = stream->next();
  CHECK(digest(*first) != digest(*second));
  CHECK(digest(stream->restore_sample(second->restore_key)) == digest(*second));
  CHECK(digest(stream->restore_sample(first->restore_key)) == digest(*first));
}

TEST_CASE("an exception of a map function becomes an Error that names function and sample",
          "[wrappers][map]") {
  Fixture fixture;
  const auto message_of = [&](std::function<void()> fail) {
    const auto stream = fixture.pipeline(failing(std::move(fail)));
    stream->next();
    try {
      stream->next();
    } catch (const Error& error) {
      CHECK(error.context().sample_key.has_value());
      return error.message();
    }
    return std::string("no error");
  };
  CHECK(message_of([] { throw std::runtime_error("no such color"); }) ==
        "stage 'encode_sample' failed: no such color");
  CHECK(message_of([] { throw 7; }) ==
        "stage 'encode_sample' threw something that is not a std::exception");
  CHECK(message_of([] { throw Error(energon::ErrorCode::kUnsupported, "CMYK"); }) == "CMYK");
}

TEST_CASE("a map without a function is refused", "[wrappers][map]") {
  Fixture fixture;
  CHECK_THROWS_WITH(fixture.pipeline(nullptr), Catch::Contains("has no function"));
}
