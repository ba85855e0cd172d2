#include "wrappers/held/saved_samples.h"

#include <exception>
#include <string>

#include <fmt/format.h>

#include "energon/state/byte_codec.h"
#include "io/error.h"

namespace energon {

std::string encode_keys(std::span<const RestoreKey> keys) {
  ByteWriter writer;
  writer.u32(static_cast<std::uint32_t>(keys.size()));
  for (const RestoreKey& key : keys) {
    writer.text(key.bytes());
  }
  return writer.take();
}

std::vector<RestoreKey> decode_keys(std::string_view bytes) {
  ByteReader reader(bytes, "a list of saved keys");
  std::vector<RestoreKey> keys(reader.count(sizeof(std::uint32_t)));
  for (RestoreKey& key : keys) {
    try {
      key = RestoreKey::from_bytes(reader.text());
    } catch (const Error& error) {
      reader.fail(error.message());
    }
  }
  reader.finish();
  return keys;
}

std::vector<RestoreKey> decode_keys(std::string_view bytes, const Dataset& inner) {
  std::vector<RestoreKey> keys = decode_keys(bytes);
  for (const RestoreKey& key : keys) {
    inner.check_key(key);
  }
  return keys;
}

Sample rebuild_sample(Dataset& inner, const RestoreKey& key) {
  try {
    return inner.restore_sample(key);
  } catch (...) {
    fail_to_rebuild(key);
  }
}

void fail_to_rebuild(const RestoreKey& key) {
  const Error cause = to_error(std::current_exception(), "");
  throw Error(
      cause.code(),
      fmt::format("'{}' of the saved position cannot be rebuilt: {}", key.text(), cause.message()),
      cause.context())
      .with_detail(std::string(cause.detail()));
}

}  // namespace energon
