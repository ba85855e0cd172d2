// The detail that a function attaches to its error reaches the trainer.

#include <cstdint>
#include <stdexcept>
#include <string>

#include <catch2/catch.hpp>

#include "energon/stage/failure.h"
#include "io/error.h"
#include "tests/energon/loader/loader_fixture.h"

namespace {

using energon::CallContext;
using energon::Error;
using energon::ErrorCode;
using energon::Sample;
using energon::TrainOptions;
using energon::testing::LoaderFixture;

const std::string kDetail("pickled\0exception", 17);

template <class Thrown>
TrainOptions failing_at(std::int64_t call, Thrown thrown) {
  TrainOptions options;
  options.batch_size = 2;
  options.task_encoder.encode_sample =
      energon::MapFunction([call, thrown](Sample sample, CallContext& context) {
        if (context.call() == call) {
          throw thrown;
        }
        return sample;
      });
  return options;
}

Error with_detail() { return Error(ErrorCode::kUserFunction, "no such word").with_detail(kDetail); }

Error error_of_loader(const TrainOptions& options, int workers) {
  const LoaderFixture fixture(options);
  const auto loader = fixture.loader(workers);
  try {
    for (int i = 0; i < 20; ++i) {
      loader->next();
    }
  } catch (const Error& error) {
    return error;
  }
  return Error(ErrorCode::kInternal, "nothing was thrown");
}

}  // namespace

TEST_CASE("the detail of an error of a function reaches the trainer", "[loader][detail][fork]") {
  for (const int workers : {0, 1}) {
    CAPTURE(workers);
    const Error error = error_of_loader(failing_at(3, with_detail()), workers);
    CHECK_THAT(error.what(), Catch::Contains("no such word") && !Catch::Contains("pickled"));
    CHECK(error.detail() == kDetail);
    const Error fatal =
        error_of_loader(failing_at(3, energon::FatalSampleError("fatal", kDetail)), workers);
    CHECK_THAT(fatal.what(), Catch::Contains("failed fatally: fatal"));
    CHECK(fatal.detail() == kDetail);
    const Error plain = error_of_loader(failing_at(3, std::runtime_error("plain")), workers);
    CHECK_THAT(plain.what(), Catch::Contains("plain"));
    CHECK(plain.detail().empty());
  }
}

TEST_CASE("the detail of a failure that a policy skips is in its report",
          "[loader][detail][fork]") {
  for (const int workers : {0, 1}) {
    CAPTURE(workers);
    TrainOptions options = failing_at(3, with_detail());
    options.errors.standard.action = energon::FailureAction::kSkip;
    const LoaderFixture fixture(options);
    const auto loader = fixture.loader(workers);
    energon::testing::take(*loader, 5);
    const auto reports = loader->stats().newest_reports;
    REQUIRE(reports.size() == 1);
    CHECK(reports[0].detail == kDetail);
    CHECK(reports[0].cause.find("pickled") == std::string::npos);
    options.errors.standard.tolerance = 1;
    CHECK(error_of_loader(options, workers).detail() == kDetail);
  }
}
