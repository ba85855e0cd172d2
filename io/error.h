// The library's only exception type, and how a failure leaves a thread, a process or a rank.
//
// An Error says what failed and, where known, the place: shard or file, byte offset, sample key,
// worker. The message gives the actual value, the expected value, and what to do. Error::with()
// adds context during unwinding; what() shows the message followed by the context. At a thread,
// process or rank boundary, any exception is converted to an Error, the Error is encoded as bytes,
// and the receiver decodes the same Error from them.

#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace energon {

/// Kinds of failure. The numbers cross process boundaries and appear in logs: append new ones,
/// never renumber.
enum class ErrorCode : std::uint8_t {
  kInvalidArgument = 1,    ///< a call, option or configuration is wrong
  kNotFound = 2,           ///< a file, dataset, sample or key does not exist
  kCorruptData = 3,        ///< bytes that violate their format: truncated, flipped, inconsistent
  kIo = 4,                 ///< an operating system call failed; the message describes errno
  kWorkerDied = 5,         ///< a worker process or the fork server ended
  kTimeout = 6,            ///< a wait passed its deadline
  kCancelled = 7,          ///< closed or stopped by the caller, or used after fork
  kUnsupported = 8,        ///< valid, but not supported by this library
  kResourceExhausted = 9,  ///< a limit was reached; the message names the option to change
  kMismatch = 10,          ///< a state belongs to another configuration or dataset
  kInternal = 11,          ///< a bug in this library
  kUserFunction = 12,      ///< a function given to the pipeline threw something other than an Error
};

/// Stable lower-case name, such as "corrupt_data".
std::string_view to_string(ErrorCode code);

/// Where a failure happened. Unknown fields are absent.
struct ErrorContext {
  std::optional<std::string> path = std::nullopt;  ///< shard or other file
  /// Offset in `path`; in the decompressed stream if the file is compressed.
  std::optional<std::uint64_t> byte_offset = std::nullopt;
  std::optional<std::string> sample_key = std::nullopt;
  std::optional<int> worker = std::nullopt;  ///< worker id within its rank
};

/// Maximum size of Error::detail(), in bytes.
inline constexpr std::size_t kMaxErrorDetailBytes = std::size_t{256} << 10;

class Error : public std::exception {
 public:
  Error(ErrorCode code, std::string message, ErrorContext context = {});

  ErrorCode code() const { return code_; }
  const std::string& message() const { return message_; }
  const ErrorContext& context() const { return context_; }

  /// Opaque bytes attached by the host program, such as a serialized exception of its interpreter.
  /// They travel with the error from worker to trainer and in failure reports, but do not appear in
  /// any text. Empty if unset. Valid as long as the error.
  std::string_view detail() const {
    return detail_ ? std::string_view(*detail_) : std::string_view();
  }
  /// Replaces the detail. Drops a detail longer than kMaxErrorDetailBytes, because a truncated one
  /// could not be decoded.
  Error& with_detail(std::string detail);

  /// Fills in unknown fields. Keeps fields that are already set: they were set closer to the fault.
  Error& with(const ErrorContext& context);

  /// "message [path: …, byte: …, sample: …, worker: …]"
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  void compose();

  ErrorCode code_;
  std::string message_;
  ErrorContext context_;
  std::shared_ptr<const std::string> detail_;  // copies of an error share it
  std::string text_;
};

/// An Error (kIo, or kNotFound for ENOENT) with the message "operation: <text of error_number>".
Error io_error(std::string_view operation, int error_number, ErrorContext context = {});

/// `text` with control characters and invalid bytes escaped as \xNN, so that names from archives
/// are safe to print.
std::string printable(std::string_view text);

// --- Across threads, processes and ranks ---
//
// The bytes are not a stable format: both sides run the same build. They are still validated,
// because a failing process may have written anything.

/// The Error for `thrown`, which must not be null. Returns an Error unchanged. std::bad_alloc
/// becomes kResourceExhausted; any other exception becomes `code`. Their messages begin with
/// `source`, which names what failed: "the pipeline failed: out of memory". With an empty `source`,
/// the message is the cause alone.
Error to_error(const std::exception_ptr& thrown, std::string_view source,
               ErrorCode code = ErrorCode::kUserFunction);

/// The code with this number, or nullopt if it is unknown.
std::optional<ErrorCode> error_code(std::uint8_t number);

/// Maximum size of the result of encode_error(), in bytes.
inline constexpr std::size_t kMaxEncodedErrorBytes =
    (std::size_t{192} << 10) + kMaxErrorDetailBytes + 32;

/// Encodes `error` in at most `most_bytes`, which must be at least 256. Truncates a message that is
/// too long. Omits a path or sample key that is too long (truncated, it would name something else)
/// and a detail that is too long (truncated, it could not be decoded).
std::string encode_error(const Error& error, std::size_t most_bytes = kMaxEncodedErrorBytes);

/// Throws Error (kCorruptData) if `encoded` is not the result of encode_error().
Error decode_error(std::string_view encoded);

}  // namespace energon
