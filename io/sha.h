// SHA-1 and SHA-256 (FIPS 180-4), for the Energon formats that require them. Not for secrets.

#pragma once

#include <nettle/sha2.h>

#include <array>
#include <cstdint>
#include <string>

#include "io/bytes.h"

namespace energon {

std::array<std::uint8_t, 20> sha1(ByteView bytes);

/// SHA-256 of bytes that arrive in pieces. Not thread-safe.
class Sha256 {
 public:
  Sha256();

  void update(ByteView bytes);

  /// 64 lower-case hexadecimal digits. The next update() starts a new digest.
  std::string finish();

 private:
  sha256_ctx context_;
};

}  // namespace energon
