#include "io/hash.h"

#include <array>
#include <new>

#include <fmt/format.h>
#include <xxhash.h>

namespace energon {

std::uint64_t xxh3_64(ByteView bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

struct Xxh3Stream::State {
  XXH3_state_t* xxh = XXH3_createState();
  ~State() { XXH3_freeState(xxh); }
};

Xxh3Stream::Xxh3Stream() : state_(std::make_unique<State>()) {
  if (state_->xxh == nullptr) {
    throw std::bad_alloc();
  }
  XXH3_64bits_reset(state_->xxh);
}

Xxh3Stream::~Xxh3Stream() = default;

void Xxh3Stream::update(ByteView bytes) {
  XXH3_64bits_update(state_->xxh, bytes.data(), bytes.size());
}

void Xxh3Stream::update_field(ByteView bytes) {
  std::array<std::byte, 8> length;
  for (std::size_t i = 0; i < length.size(); ++i) {
    length[i] = static_cast<std::byte>(static_cast<std::uint64_t>(bytes.size()) >> (8 * i));
  }
  update(length);
  update(bytes);
}

std::uint64_t Xxh3Stream::digest() const { return XXH3_64bits_digest(state_->xxh); }

std::string to_hex(std::uint64_t value) { return fmt::format("{:016x}", value); }

}  // namespace energon
