// What happens to a sample that cannot be read, cooked, encoded or packed.
//
// Each stage has a policy: fail (the stream ends with an Error), skip (the sample is left out,
// counted and reported), or a handler that decides. A user function throws SkipSample to leave a
// sample out on purpose, and FatalSampleError for a failure that must never be skipped. As in
// Energon, too many failures in a row are an error regardless of the policy.

#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "energon/sample/sample.h"
#include "io/bytes.h"
#include "io/error.h"

namespace energon {

/// Thrown by a user function to leave this sample out. The sample is counted but not reported.
class SkipSample : public std::exception {
 public:
  const char* what() const noexcept override { return "the sample was skipped on request"; }
};

/// Thrown by a user function to end the stream, regardless of the policy.
class FatalSampleError : public std::exception {
 public:
  /// `detail` becomes the Error::detail() of the resulting Error.
  explicit FatalSampleError(std::string message, std::string detail = {})
      : message_(std::move(message)), detail_(std::move(detail)) {}
  const char* what() const noexcept override { return message_.c_str(); }
  const std::string& detail() const { return detail_; }

 private:
  std::string message_;
  std::string detail_;
};

/// One of the samples that a stage was working on when it failed.
struct FailedSample {
  std::string key = {};  ///< empty if the failure occurred before the key was known
  std::string dataset_path = {};
  std::string shard_name = {};
  std::optional<std::int64_t> index_in_shard = std::nullopt;  ///< unset if not known
  ByteRange bytes = {};                                       ///< size 0 if not known
};

/// Describes a sample, or each sample of a batch.
std::vector<FailedSample> failed_samples(const Sample& sample);

/// One failure that a policy allowed the stage to skip.
struct FailureReport {
  std::string stage = {};
  ErrorCode code = ErrorCode::kInternal;
  std::string cause = {};
  std::vector<FailedSample> samples =
      {};  ///< left out; several if the stage processes several at once
  /// The shard itself cannot be read. All its samples are left out; `samples` has only the first.
  bool is_shard_broken = false;
  std::int64_t consecutive = 1;  ///< failures of this stage in a row, this one included
  /// Error::detail() of the failure; at most kMaxErrorDetailBytes.
  std::string detail = {};
};

/// "stage 'encode': cause [shard, sample, bytes]", one line.
std::string to_string(const FailureReport& report);

enum class FailureAction : std::uint8_t { kFail, kSkip };

/// Runs in the worker, in the thread of the pipeline.
using FailureHandler = std::function<FailureAction(const FailureReport& report)>;

struct ErrorPolicy {
  FailureAction action = FailureAction::kFail;
  /// If set, replaces `action`.
  FailureHandler handler = nullptr;
  /// Number of failures in a row that end the stream even if each could be skipped; 0 means no
  /// limit.
  std::int64_t tolerance = 100;
};

/// The policies of a pipeline, by the name of the stage (docs/pipelines.md lists them).
struct ErrorPolicies {
  ErrorPolicy standard = {};
  std::vector<std::pair<std::string, ErrorPolicy>> stages = {};

  const ErrorPolicy& of(std::string_view stage) const;
};

}  // namespace energon
