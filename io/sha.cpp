#include "io/sha.h"

#include <nettle/sha1.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace energon {
namespace {

const std::uint8_t* words_of(ByteView bytes) {
  return reinterpret_cast<const std::uint8_t*>(bytes.data());
}

}  // namespace

std::array<std::uint8_t, 20> sha1(ByteView bytes) {
  sha1_ctx context;
  sha1_init(&context);
  sha1_update(&context, bytes.size(), words_of(bytes));
  std::array<std::uint8_t, SHA1_DIGEST_SIZE> digest{};
  sha1_digest(&context, digest.size(), digest.data());
  return digest;
}

Sha256::Sha256() { sha256_init(&context_); }

void Sha256::update(ByteView bytes) { sha256_update(&context_, bytes.size(), words_of(bytes)); }

std::string Sha256::finish() {
  std::array<std::uint8_t, SHA256_DIGEST_SIZE> digest{};
  sha256_digest(&context_, digest.size(), digest.data());
  return fmt::format("{:02x}", fmt::join(digest, ""));
}

}  // namespace energon
