#include "io/error.h"

#include <cerrno>
#include <system_error>
#include <utility>

#include <fmt/format.h>

namespace energon {
namespace {

// Bytes of the well-formed UTF-8 sequence that `text` starts with, 0 if there is none: the table of
// the Unicode standard (3-7), without overlong forms and surrogates. Requires: not empty.
std::size_t utf8_length(std::string_view text) {
  const auto at = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = at(0);
  if (first < 0x80) {
    return 1;
  }
  if (first < 0xC2 || first > 0xF4) {
    return 0;
  }
  const std::size_t length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  if (text.size() < length) {
    return 0;
  }
  const unsigned char least = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const unsigned char most = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  if (at(1) < least || at(1) > most) {
    return 0;
  }
  for (std::size_t i = 2; i < length; ++i) {
    if ((at(i) & 0xC0) != 0x80) {
      return 0;
    }
  }
  return length;
}

}  // namespace

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
    case ErrorCode::kUserFunction:
      return "user_function";
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

Error& Error::with_detail(std::string detail) {
  const bool is_kept = !detail.empty() && detail.size() <= kMaxErrorDetailBytes;
  detail_ = is_kept ? std::make_shared<const std::string>(std::move(detail)) : nullptr;
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
  while (!text.empty()) {
    const auto byte = static_cast<unsigned char>(text[0]);
    const std::size_t length = utf8_length(text);
    const bool control =
        byte < 0x20 || byte == 0x7F ||
        (byte == 0xC2 && length == 2 && static_cast<unsigned char>(text[1]) < 0xA0);
    if (length == 0 || control) {
      result += fmt::format("\\x{:02x}", byte);
      text.remove_prefix(1);
    } else {
      result.append(text.substr(0, length));
      text.remove_prefix(length);
    }
  }
  return result;
}

}  // namespace energon
