// SHA-1 and SHA-256 (FIPS 180-4), where a format of Energon asks for them. Not for secrets.

#pragma once

#include <nettle/sha2.h>

#include <array>
#include <cstdint>
#include <string>

#include "io/bytes.h"

namespace energon {

std::array<std::uint8_t, 20> sha1(ByteView bytes);

/// Of bytes that come in pieces. Not thread-safe.
class Sha256 {
 public:
  Sha256();

  void update(ByteView bytes);

  /// 64 lower-case hexadecimal digits. The next update() begins anew.
  std::string finish();

 private:
  sha256_ctx context_;
};

}  // namespace energon
