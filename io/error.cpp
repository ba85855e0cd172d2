#include "io/error.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "io/byte_cursor.h"

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

// --- Across threads, processes and ranks ---

namespace {

constexpr std::size_t kLongestText = std::size_t{64} << 10;

enum Present : std::uint8_t {
  kPath = 1,
  kByteOffset = 2,
  kSampleKey = 4,
  kWorker = 8,
  kAll = 15,
};

/// Followed by the message, path, sample key and detail.
struct EncodedHead {
  std::uint64_t byte_offset = 0;
  std::int32_t worker = 0;
  std::uint32_t message_bytes = 0;
  std::uint32_t path_bytes = 0;
  std::uint32_t sample_key_bytes = 0;
  std::uint32_t detail_bytes = 0;
  std::uint8_t code = 0;
  std::uint8_t present = 0;  // of Present
  std::uint16_t reserved = 0;
};
static_assert(sizeof(EncodedHead) == 32);
static_assert(kMaxEncodedErrorBytes ==
              3 * kLongestText + kMaxErrorDetailBytes + sizeof(EncodedHead));

/// The beginning of `text`, without a part of a UTF-8 sequence at its end.
std::string_view cut(std::string_view text, std::size_t most_bytes) {
  if (text.size() <= most_bytes) {
    return text;
  }
  constexpr int kLongestSequence = 4;
  for (int i = 1; i < kLongestSequence && most_bytes > 0; ++i) {
    if ((static_cast<unsigned char>(text[most_bytes]) & 0xC0) != 0x80) {
      break;
    }
    --most_bytes;
  }
  return text.substr(0, most_bytes);
}

[[noreturn]] void throw_damaged(std::string_view reason) {
  throw Error(ErrorCode::kCorruptData,
              fmt::format("the error received from another process is damaged: {}", reason));
}

EncodedHead checked_head(std::string_view encoded) {
  EncodedHead head;
  if (encoded.size() < sizeof(head)) {
    throw_damaged(
        fmt::format("expected at least {} bytes, found {}", sizeof(head), encoded.size()));
  }
  std::memcpy(&head, encoded.data(), sizeof(head));
  if (!error_code(head.code)) {
    throw_damaged(fmt::format("unknown error code {}", head.code));
  }
  if (head.present > kAll || head.reserved != 0) {
    throw_damaged(fmt::format("unexpected flags {} and {}", head.present, head.reserved));
  }
  const std::uint64_t announced = std::uint64_t{head.message_bytes} + head.path_bytes +
                                  head.sample_key_bytes + head.detail_bytes;
  if (announced != encoded.size() - sizeof(head)) {
    throw_damaged(fmt::format("expected {} bytes of text, found {}", announced,
                              encoded.size() - sizeof(head)));
  }
  return head;
}

}  // namespace

Error to_error(const std::exception_ptr& thrown, std::string_view source, ErrorCode code) {
  const auto message = [source](std::string_view cause) {
    return source.empty() ? std::string(cause) : fmt::format("{} failed: {}", source, cause);
  };
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& error) {
    return error;
  } catch (const std::bad_alloc&) {
    return Error(ErrorCode::kResourceExhausted, message("out of memory"));
  } catch (const std::exception& error) {
    return Error(code, message(error.what()));
  } catch (...) {
    return Error(code, fmt::format("{} threw something that is not a std::exception",
                                   source.empty() ? "a function" : source));
  }
}

std::optional<ErrorCode> error_code(std::uint8_t number) {
  const auto code = static_cast<ErrorCode>(number);
  return to_string(code) == "unknown" ? std::nullopt : std::optional(code);
}

std::string encode_error(const Error& error, std::size_t most_bytes) {
  const ErrorContext& context = error.context();
  EncodedHead head;
  std::size_t room = most_bytes - sizeof(head);
  const std::size_t longest_place = std::min(kLongestText, room / 4);
  const auto place = [&](const std::optional<std::string>& text, Present flag) {
    if (!text || text->size() > longest_place) {
      return std::string_view();
    }
    head.present |= flag;
    room -= text->size();
    return std::string_view(*text);
  };
  const std::string_view path = place(context.path, kPath);
  const std::string_view sample_key = place(context.sample_key, kSampleKey);
  const std::string_view message = cut(error.message(), std::min(kLongestText, room));
  room -= message.size();
  const std::string_view detail =
      error.detail().size() <= room ? error.detail() : std::string_view();
  head.byte_offset = context.byte_offset.value_or(0);
  head.worker = context.worker.value_or(0);
  head.message_bytes = static_cast<std::uint32_t>(message.size());
  head.path_bytes = static_cast<std::uint32_t>(path.size());
  head.sample_key_bytes = static_cast<std::uint32_t>(sample_key.size());
  head.detail_bytes = static_cast<std::uint32_t>(detail.size());
  head.code = static_cast<std::uint8_t>(error.code());
  if (context.byte_offset) {
    head.present |= kByteOffset;
  }
  if (context.worker) {
    head.present |= kWorker;
  }
  std::string encoded(reinterpret_cast<const char*>(&head), sizeof(head));
  for (const std::string_view text : {message, path, sample_key, detail}) {
    encoded += text;
  }
  return encoded;
}

Error decode_error(std::string_view encoded) {
  const EncodedHead head = checked_head(encoded);
  encoded.remove_prefix(sizeof(head));
  const auto take = [&encoded](std::size_t size) {
    std::string text(encoded.substr(0, size));
    encoded.remove_prefix(size);
    return text;
  };
  std::string message = take(head.message_bytes);
  std::string path = take(head.path_bytes);
  std::string sample_key = take(head.sample_key_bytes);
  ErrorContext context;
  if ((head.present & kPath) != 0) {
    context.path = std::move(path);
  }
  if ((head.present & kByteOffset) != 0) {
    context.byte_offset = head.byte_offset;
  }
  if ((head.present & kSampleKey) != 0) {
    context.sample_key = std::move(sample_key);
  }
  if ((head.present & kWorker) != 0) {
    context.worker = head.worker;
  }
  return Error(*error_code(head.code), std::move(message), std::move(context))
      .with_detail(take(head.detail_bytes));
}

}  // namespace energon
