#include "energon/stage/stage_guard.h"

#include <fmt/format.h>

#include "io/error.h"

namespace energon {
namespace {

// Errors that a sample may have caused. The others have causes in the machine, the caller or this
// library: while a disk fails or descriptors run out (kIo), every sample would look broken.
bool is_about_data(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kNotFound:
    case ErrorCode::kCorruptData:
    case ErrorCode::kUnsupported:
    case ErrorCode::kUserFunction:
      return true;
    case ErrorCode::kIo:
    case ErrorCode::kWorkerDied:
    case ErrorCode::kTimeout:
    case ErrorCode::kCancelled:
    case ErrorCode::kResourceExhausted:
    case ErrorCode::kMismatch:
    case ErrorCode::kInternal:
      return false;
  }
  return false;
}

struct Failure {
  Error error;
  bool may_be_skipped;
};

// Converts the exception into an Error of the stage.
Failure describe(const std::exception_ptr& thrown, const std::string& stage) {
  try {
    std::rethrow_exception(thrown);
  } catch (const FatalSampleError& error) {
    return {Error(ErrorCode::kUserFunction,
                  fmt::format("stage '{}' failed fatally: {}", stage, error.what()))
                .with_detail(error.detail()),
            false};
  } catch (...) {
    const Error error = to_error(thrown, fmt::format("stage '{}'", stage));
    return {error, is_about_data(error.code())};
  }
}

bool is_skip(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const SkipSample&) {
    return true;
  } catch (...) {
    return false;
  }
}

void add_place(Error& error, const std::vector<FailedSample>& samples) {
  if (samples.empty()) {
    return;
  }
  const FailedSample& first = samples.front();
  ErrorContext context;
  if (!first.key.empty()) {
    context.sample_key = first.key;
  }
  if (!first.shard_name.empty()) {
    context.path = first.dataset_path + "/" + first.shard_name;
  }
  if (first.bytes.size != 0 && !error.context().path) {
    context.byte_offset = first.bytes.offset;
  }
  error.with(context);
}

}  // namespace

bool StageGuard::may_be_of_sample(const std::exception_ptr& thrown) const {
  return !monitor_.get().is_interrupted() &&
         (is_skip(thrown) || describe(thrown, name_).may_be_skipped);
}

void StageGuard::handle(const std::exception_ptr& thrown, std::vector<FailedSample> samples,
                        bool is_shard_broken) {
  if (monitor_.get().is_interrupted()) {
    std::rethrow_exception(thrown);
  }
  const auto count = static_cast<std::uint64_t>(samples.size());
  if (is_skip(thrown)) {
    count_skipped(count);
    leave_out(count);
    return;
  }
  Failure failure = describe(thrown, name_);
  add_place(failure.error, samples);
  if (!failure.may_be_skipped) {
    throw failure.error;
  }
  ++consecutive_;
  const FailureReport report{.stage = name_,
                             .code = failure.error.code(),
                             .cause = failure.error.message(),
                             .samples = std::move(samples),
                             .is_shard_broken = is_shard_broken,
                             .consecutive = consecutive_,
                             .detail = std::string(failure.error.detail())};
  if ((policy_.handler ? policy_.handler(report) : policy_.action) == FailureAction::kFail) {
    throw failure.error;
  }
  if (policy_.tolerance > 0 && consecutive_ >= policy_.tolerance) {
    throw Error(failure.error.code(),
                fmt::format("{} samples in a row failed in stage '{}', the tolerance is {}; the "
                            "last one: {}",
                            consecutive_, name_, policy_.tolerance, failure.error.message()),
                failure.error.context())
        .with_detail(std::string(failure.error.detail()));
  }
  count_failed(count);
  monitor_.get().report(report);
  leave_out(count);
}

void StageGuard::leave_out(std::uint64_t samples) {
  left_out_ += static_cast<std::int64_t>(samples);
  if (most_left_out_ > 0 && left_out_ >= most_left_out_) {
    throw Error(
        ErrorCode::kCorruptData,
        fmt::format("stage '{}' left out {} samples in a row, repeatedly all samples of this "
                    "logical shard: none of its data can be used",
                    name_, left_out_));
  }
}

bool StageGuard::may_pass(const Error& error) const {
  return is_about_data(error.code()) && (policy_.handler || policy_.action == FailureAction::kSkip);
}

void StageGuard::count_skipped(std::uint64_t samples) {
  counters_.skipped.fetch_add(samples, std::memory_order_relaxed);
  monitor_.get().note_drop();
}

void StageGuard::count_failed(std::uint64_t samples) {
  counters_.failed.fetch_add(samples, std::memory_order_relaxed);
  monitor_.get().note_drop();
}

}  // namespace energon
