// One PNG that is read by libpng, whose errors become Errors. Internal to media/image.

#pragma once

#include <csetjmp>
#include <cstddef>
#include <cstdint>

#include <png.h>

#include "io/bytes.h"
#include "io/error.h"
#include "media/image/c_guard.h"

namespace energon {

/// Holds the state of libpng and reads from `encoded`, which outlives it. All calls of libpng that
/// can fail go through call(). Chunks that do not change pixels are skipped; libpng's warnings then
/// are of no interest. Not thread-safe.
class PngSession {
 public:
  /// Reads what is in front of the pixels.
  explicit PngSession(ByteView encoded);
  ~PngSession();
  PngSession(const PngSession&) = delete;
  PngSession& operator=(const PngSession&) = delete;

  png_struct* png() { return png_; }
  png_info* png_header() { return info_; }

  /// Runs `body`, which must have no objects with destructors. Throws Error (kCorruptData, or
  /// kResourceExhausted if memory ended) with the words of libpng, the row and the byte offset.
  template <class Body>
  void call(const Body& body) {
    if (!runs_to_end(state_.jump, body)) {
      throw failure();
    }
  }

 private:
  static constexpr std::size_t kMostText = 160;

  // What the callbacks see.
  struct State {
    ByteView encoded;
    std::size_t offset;
    char message[kMostText];
    std::jmp_buf jump;
  };

  static void on_error(png_struct* png, const char* message);
  static void on_warning(png_struct* png, const char* message);
  static void on_read(png_struct* png, unsigned char* to, std::size_t size);
  Error failure() const;

  State state_;
  png_struct* png_ = nullptr;
  png_info* info_ = nullptr;
};

}  // namespace energon
