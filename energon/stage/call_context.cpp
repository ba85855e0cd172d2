#include "energon/stage/call_context.h"

#include <span>

#include "io/bytes.h"
#include "io/hash.h"

namespace energon {

CallRng& CallContext::rng() {
  if (!rng_) {
    Xxh3Stream stream;
    stream.update(std::as_bytes(std::span(&resources_.seed, 1)));
    stream.update(as_bytes(key_.bytes()));
    rng_.emplace(static_cast<std::uint32_t>(stream.digest()));
  }
  return *rng_;
}

BufferAllocator& CallContext::memory() const {
  return resources_.memory ? *resources_.memory : heap_memory();
}

}  // namespace energon
