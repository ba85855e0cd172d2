// Without workers, any exception of a pipeline ends the loader, as with workers: no batch is lost
// silently, because no later call continues.

#include <memory>
#include <stdexcept>
#include <string>

#include <catch2/catch.hpp>

#include "energon/loader/savable_data_loader.h"
#include "io/error.h"
#include "tests/energon/loader/loader_fixture.h"
#include "tests/support/error_of.h"
#include "tests/support/scripted_dataset.h"

using energon::ErrorCode;
using energon::PipelineContext;
using energon::PipelineFactory;
using energon::SavableDataLoader;
using energon::testing::error_of;
using energon::testing::LoaderFixture;
using energon::testing::ScriptedDataset;

namespace {

// Throws once, before its item 3.
template <class Thrown>
PipelineFactory failing_once(Thrown thrown) {
  return [thrown, has_thrown = std::make_shared<bool>(false)](const PipelineContext&) {
    return std::make_unique<ScriptedDataset>([thrown, has_thrown](std::int64_t item) {
      if (item == 3 && !*has_thrown) {
        *has_thrown = true;
        throw thrown;
      }
    });
  };
}

std::string next_key(SavableDataLoader& loader) {
  return std::string(loader.next().value().keys.front());
}

void check_sticky(const PipelineFactory& pipeline, ErrorCode code, const std::string& text) {
  SavableDataLoader loader(pipeline);
  for (const char* key : {"0", "1", "2"}) {
    CHECK(next_key(loader) == key);
  }
  const std::string first = error_of([&] { loader.next(); }, code);
  CHECK_THAT(first, Catch::Contains(text));
  CHECK(error_of([&] { loader.next(); }, code) == first);
  CHECK(error_of([&] { loader.next(); }, code) == first);
}

}  // namespace

TEST_CASE("every next() repeats the exception of a user's dataset", "[loader]") {
  check_sticky(failing_once(std::runtime_error("the disk is gone")), ErrorCode::kUserFunction,
               "the pipeline failed: the disk is gone");
  check_sticky(failing_once(17), ErrorCode::kUserFunction, "not a std::exception");
  check_sticky(failing_once(std::bad_alloc()), ErrorCode::kResourceExhausted, "out of memory");
}

TEST_CASE("after an exception, the stream continues from a state with the failed batch",
          "[loader]") {
  SavableDataLoader loader(failing_once(std::logic_error("a bug")));
  CHECK(next_key(loader) == "0");
  CHECK(next_key(loader) == "1");
  const auto state = loader.save_state_rank();
  CHECK(next_key(loader) == "2");
  CHECK_THROWS_AS(loader.next(), energon::Error);
  loader.restore_state_rank(state);
  for (const char* key : {"2", "3", "4"}) {
    CAPTURE(key);
    CHECK(next_key(loader) == key);
  }
}

TEST_CASE("an exception while a sample is rebuilt by key is an error of a user function",
          "[loader]") {
  bool is_broken = false;
  energon::TrainOptions options;
  options.task_encoder.encode_sample =
      energon::MapFunction([&is_broken](energon::Sample sample, energon::CallContext&) {
        if (is_broken) {
          throw std::runtime_error("the model is gone");
        }
        return sample;
      });
  const LoaderFixture fixture(options);
  const auto loader = fixture.loader(0);
  const energon::RestoreKey key = loader->next().value().restore_key;
  CHECK(loader->restore_sample(key).restore_key == key);
  is_broken = true;
  CHECK_THAT(error_of([&] { loader->restore_sample(key); }, ErrorCode::kUserFunction),
             Catch::Contains("the pipeline failed: the model is gone"));
  is_broken = false;
  CHECK(loader->restore_sample(key).restore_key == key);
}

TEST_CASE("every next() repeats the exception of a failure handler", "[loader]") {
  energon::TrainOptions options;
  options.task_encoder.encode_sample =
      energon::MapFunction([](energon::Sample sample, energon::CallContext& context) {
        if (context.call() == 4) {
          throw std::runtime_error("bad sample");
        }
        return sample;
      });
  options.errors.standard.handler = [](const energon::FailureReport&) -> energon::FailureAction {
    throw std::runtime_error("the handler fails, too");
  };
  const LoaderFixture fixture(options);
  const auto loader = fixture.loader(0);
  for (int i = 0; i < 4; ++i) {
    CAPTURE(i);
    CHECK(loader->next());
  }
  const auto text = [&] {
    try {
      loader->next();
    } catch (const energon::Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  const std::string first = text();
  CHECK_THAT(first, Catch::Contains("the handler fails, too"));
  CHECK(text() == first);
}
