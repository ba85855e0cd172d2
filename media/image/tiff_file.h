// A TIFF in memory, read by libtiff, whose errors become Errors. Internal to media/image.

#pragma once

#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include <tiffio.h>

#include "io/bytes.h"
#include "io/error.h"
#include "media/decode_limits.h"

namespace energon {

/// Reads the first directory of `encoded`, which outlives the object. Nothing of libtiff's global
/// state is changed. Not thread-safe.
class TiffFile {
 public:
  /// Throws Error (kCorruptData).
  TiffFile(ByteView encoded, const DecodeLimits& limits);

  TIFF* get() { return tiff_.get(); }

  /// The value of a tag, or its default.
  std::uint32_t u32(std::uint32_t tag);
  std::uint16_t u16(std::uint32_t tag);

  /// From here on warnings are kept like errors: they are about damaged pixels, which some codecs
  /// of libtiff fill in.
  void mind_warnings() { source_->minds_warnings = true; }
  bool has_message() const { return source_->message[0] != '\0'; }

  /// "`what` of the TIFF …: <the first words of libtiff>".
  Error failure(std::string_view what) const;

 private:
  static constexpr std::size_t kMostText = 200;

  struct Source {
    ByteView bytes;
    std::uint64_t offset;
    bool minds_warnings;
    char message[kMostText];
  };
  struct Close {
    void operator()(TIFF* tiff) const { TIFFClose(tiff); }
  };

  static tmsize_t on_read(thandle_t handle, void* to, tmsize_t size);
  static tmsize_t on_write(thandle_t handle, void* from, tmsize_t size);
  static toff_t on_seek(thandle_t handle, toff_t offset, int whence);
  static toff_t on_size(thandle_t handle);
  static int on_close(thandle_t handle);
  static int on_error(TIFF* tiff, void* user, const char* module, const char* format,
                      std::va_list values);
  static int on_warning(TIFF* tiff, void* user, const char* module, const char* format,
                        std::va_list values);

  std::unique_ptr<Source> source_;
  std::unique_ptr<TIFF, Close> tiff_;
};

}  // namespace energon
