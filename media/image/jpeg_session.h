// One decompression by libjpeg-turbo whose errors and warnings become Errors. Internal to
// media/image.

#pragma once

#include <csetjmp>
#include <cstddef>
#include <cstdio>  // which jpeglib.h needs and does not include

#include <jpeglib.h>

#include "io/bytes.h"
#include "io/error.h"
#include "media/image/c_guard.h"

namespace energon {

/// Holds the state of libjpeg and reads from `encoded`, which outlives it. All calls of libjpeg go
/// through call(). Not thread-safe.
///
/// Warnings end the decompression like errors, but for those that cannot change pixels: an unknown
/// revision of JFIF, an unknown colour transform of Adobe (YCbCr is assumed), a damaged colour
/// profile, bytes between segments, and wrong spectral parameters in a sequential scan. So do more
/// than 500 scans, which a small file can have to keep the decoder busy.
class JpegSession {
 public:
  /// Reads the header.
  explicit JpegSession(ByteView encoded);
  ~JpegSession();
  JpegSession(const JpegSession&) = delete;
  JpegSession& operator=(const JpegSession&) = delete;

  jpeg_decompress_struct& libjpeg() { return libjpeg_; }
  const jpeg_decompress_struct& libjpeg() const { return libjpeg_; }

  /// Runs `body`, which must have no objects with destructors. Throws Error: kCorruptData,
  /// kUnsupported or kResourceExhausted, with the words of libjpeg, the row and the byte offset.
  template <class Body>
  void call(const Body& body) {
    if (!runs_to_end(errors_.jump, body)) {
      throw failure();
    }
  }

 private:
  // libjpeg knows only `base`, which is first.
  struct Errors {
    jpeg_error_mgr base;
    std::jmp_buf jump;
    char message[JMSG_LENGTH_MAX];
    bool too_many_scans;
  };

  static void on_error(j_common_ptr libjpeg);
  static void on_warning(j_common_ptr libjpeg, int level);
  static void on_progress(j_common_ptr libjpeg);
  Error failure() const;
  std::size_t offset() const;

  ByteView encoded_;
  jpeg_decompress_struct libjpeg_;
  Errors errors_;
  jpeg_progress_mgr progress_;
};

}  // namespace energon
