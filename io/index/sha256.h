// SHA-256 (FIPS 180-4) of bytes in pieces, used in the names of join indices. Private to io.

#pragma once

#include <memory>
#include <string>

#include "io/bytes.h"

namespace energon {

/// Not thread-safe.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void update(ByteView bytes);

  /// 64 lower-case hexadecimal digits. update() must not be called afterwards.
  std::string finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace energon
