// Memory for decoded values in which AddressSanitizer detects an access to the first byte past the
// end.

#pragma once

#include <cstddef>
#include <memory>
#include <new>

#include "energon/sample/buffer_allocator.h"

namespace energon::fuzz {

/// Allocates each buffer separately, with its exact size. HeapBufferPool rounds up.
class ExactMemory final : public BufferAllocator {
 public:
  Buffer allocate(std::size_t size) override {
    std::shared_ptr<std::byte> memory(
        static_cast<std::byte*>(::operator new[](size, kAlignment)),
        [](std::byte* released) { ::operator delete[](released, kAlignment); });
    return {.bytes = {memory.get(), size}, .owner = memory};
  }

 private:
  static constexpr std::align_val_t kAlignment{64};
};

}  // namespace energon::fuzz
