#include "io/error.h"

#include <cerrno>
#include <system_error>
#include <utility>

#include <fmt/format.h>

namespace energon {

std::string_view to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return "invalid_argument";
    case ErrorCode::kNotFound:
      return "not_found";
    case ErrorCode::kCorruptData:
      return "corrupt_data";
    case ErrorCode::kIo:
      return "io";
    case ErrorCode::kWorkerDied:
      return "worker_died";
    case ErrorCode::kTimeout:
      return "timeout";
    case ErrorCode::kCancelled:
      return "cancelled";
    case ErrorCode::kUnsupported:
      return "unsupported";
    case ErrorCode::kResourceExhausted:
      return "resource_exhausted";
    case ErrorCode::kMismatch:
      return "mismatch";
    case ErrorCode::kInternal:
      return "internal";
  }
  return "unknown";
}

Error::Error(ErrorCode code, std::string message, ErrorContext context)
    : code_(code), message_(std::move(message)), context_(std::move(context)) {
  compose();
}

Error& Error::with(const ErrorContext& context) {
  if (!context_.path) {
    context_.path = context.path;
  }
  if (!context_.byte_offset) {
    context_.byte_offset = context.byte_offset;
  }
  if (!context_.sample_key) {
    context_.sample_key = context.sample_key;
  }
  if (!context_.worker) {
    context_.worker = context.worker;
  }
  compose();
  return *this;
}

void Error::compose() {
  std::string where;
  const auto add = [&where](std::string_view name, const std::string& value) {
    where += fmt::format("{}{}: {}", where.empty() ? "" : ", ", name, value);
  };
  if (context_.path) {
    add("path", printable(*context_.path));
  }
  if (context_.byte_offset) {
    add("byte", std::to_string(*context_.byte_offset));
  }
  if (context_.sample_key) {
    add("sample", printable(*context_.sample_key));
  }
  if (context_.worker) {
    add("worker", std::to_string(*context_.worker));
  }
  text_ = where.empty() ? message_ : fmt::format("{} [{}]", message_, where);
}

Error io_error(std::string_view operation, int error_number, ErrorContext context) {
  const ErrorCode code = error_number == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo;
  const std::string reason = std::system_category().message(error_number);
  return Error(code, fmt::format("{}: {}", operation, reason), std::move(context));
}

std::string printable(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const auto byte = static_cast<unsigned char>(text[i]);
    // Length of a well-formed UTF-8 sequence that starts here; 0 if there is none.
    std::size_t length = byte < 0x80                   ? 1
                         : byte >= 0xC2 && byte < 0xE0 ? 2
                         : byte < 0xC0                 ? 0
                         : byte < 0xF0                 ? 3
                         : byte < 0xF5                 ? 4
                                                       : 0;
    for (std::size_t k = 1; k < length; ++k) {
      if (i + k >= text.size() || (static_cast<unsigned char>(text[i + k]) & 0xC0) != 0x80) {
        length = 0;
      }
    }
    const bool control =
        byte < 0x20 || byte == 0x7F ||
        (length == 2 && byte == 0xC2 && static_cast<unsigned char>(text[i + 1]) < 0xA0);
    if (length == 0 || control) {
      result += fmt::format("\\x{:02x}", byte);
      ++i;
    } else {
      result.append(text.substr(i, length));
      i += length;
    }
  }
  return result;
}

}  // namespace energon
