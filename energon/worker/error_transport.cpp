#include "energon/worker/error_transport.h"

#include <cstddef>
#include <cstdint>
#include <utility>

#include "energon/state/byte_codec.h"

namespace energon {

std::string encode_error(const Error& error) {
  // What a user's exception says may be megabytes; the ring has room for less.
  constexpr std::size_t kLongest = std::size_t{64} << 10;
  const ErrorContext& context = error.context();
  ByteWriter writer;
  writer.u8(static_cast<std::uint8_t>(error.code()));
  writer.text(std::string_view(error.message()).substr(0, kLongest));
  writer.u8(static_cast<std::uint8_t>(context.path.has_value() |
                                      context.byte_offset.has_value() << 1 |
                                      context.sample_key.has_value() << 2));
  writer.text(std::string_view(context.path.value_or("")).substr(0, kLongest));
  writer.u64(context.byte_offset.value_or(0));
  writer.text(std::string_view(context.sample_key.value_or("")).substr(0, kLongest));
  writer.text(error.detail());  // at most kMaxErrorDetailBytes
  return writer.take();
}

Error decode_error(std::string_view encoded) {
  ByteReader reader(encoded, "a failure from a worker");
  const auto code = static_cast<ErrorCode>(reader.u8());
  std::string message(reader.text());
  const unsigned present = reader.u8();
  ErrorContext context;
  std::string path(reader.text());
  const std::uint64_t byte_offset = reader.u64();
  std::string sample_key(reader.text());
  std::string detail(reader.text());
  reader.finish();
  if ((present & 1U) != 0) {
    context.path = std::move(path);
  }
  if ((present & 2U) != 0) {
    context.byte_offset = byte_offset;
  }
  if ((present & 4U) != 0) {
    context.sample_key = std::move(sample_key);
  }
  return Error(code, std::move(message), std::move(context)).with_detail(std::move(detail));
}

}  // namespace energon
