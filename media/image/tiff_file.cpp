#include "media/image/tiff_file.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <limits>

#include <fmt/format.h>

namespace energon {
namespace {

struct FreeTiffOptions {
  void operator()(TIFFOpenOptions* options) const { TIFFOpenOptionsFree(options); }
};

}  // namespace

TiffFile::TiffFile(ByteView encoded, const DecodeLimits& limits)
    : source_(std::make_unique<Source>(
          Source{.bytes = encoded, .offset = 0, .minds_warnings = false, .message = {}})) {
  const std::unique_ptr<TIFFOpenOptions, FreeTiffOptions> options(TIFFOpenOptionsAlloc());
  if (options == nullptr) {
    throw Error(ErrorCode::kResourceExhausted, "no memory is left for libtiff");
  }
  constexpr std::uint64_t kMost = std::numeric_limits<tmsize_t>::max();
  TIFFOpenOptionsSetMaxSingleMemAlloc(options.get(),
                                      static_cast<tmsize_t>(std::min(limits.max_bytes, kMost)));
  TIFFOpenOptionsSetErrorHandlerExtR(options.get(), on_error, source_.get());
  TIFFOpenOptionsSetWarningHandlerExtR(options.get(), on_warning, source_.get());
  // "m": through the functions, not mapped.
  tiff_.reset(TIFFClientOpenExt("memory", "rm", source_.get(), on_read, on_write, on_seek, on_close,
                                on_size, nullptr, nullptr, options.get()));
  if (tiff_ == nullptr) {
    throw failure("the header");
  }
}

std::uint32_t TiffFile::u32(std::uint32_t tag) {
  std::uint32_t value = 0;
  TIFFGetFieldDefaulted(tiff_.get(), tag, &value);
  return value;
}

std::uint16_t TiffFile::u16(std::uint32_t tag) {
  std::uint16_t value = 0;
  TIFFGetFieldDefaulted(tiff_.get(), tag, &value);
  return value;
}

Error TiffFile::failure(std::string_view what) const {
  const std::string words = printable(source_->message);
  return {ErrorCode::kCorruptData,
          fmt::format("{} of the TIFF of {} bytes is damaged: {}", what, source_->bytes.size(),
                      words.empty() ? "libtiff does not say why" : words)};
}

tmsize_t TiffFile::on_read(thandle_t handle, void* to, tmsize_t size) {
  auto* source = static_cast<Source*>(handle);
  const std::uint64_t end = source->bytes.size();
  const std::uint64_t left = source->offset < end ? end - source->offset : 0;
  const std::uint64_t count =
      std::min(left, static_cast<std::uint64_t>(std::max<tmsize_t>(size, 0)));
  if (count > 0) {
    std::memcpy(to, source->bytes.data() + source->offset, count);
  }
  source->offset += count;
  return static_cast<tmsize_t>(count);
}

tmsize_t TiffFile::on_write(thandle_t /*handle*/, void* /*from*/, tmsize_t /*size*/) { return 0; }

toff_t TiffFile::on_seek(thandle_t handle, toff_t offset, int whence) {
  auto* source = static_cast<Source*>(handle);
  if (whence == SEEK_CUR) {
    offset += source->offset;
  } else if (whence == SEEK_END) {
    offset += source->bytes.size();
  }
  source->offset = offset;
  return offset;
}

toff_t TiffFile::on_size(thandle_t handle) { return static_cast<Source*>(handle)->bytes.size(); }

int TiffFile::on_close(thandle_t /*handle*/) { return 0; }

// Keeps the first message: those that follow it are less exact. 1: libtiff does nothing more.
int TiffFile::on_error(TIFF* /*tiff*/, void* user, const char* /*module*/, const char* format,
                       std::va_list values) {
  auto* source = static_cast<Source*>(user);
  if (source->message[0] == '\0') {
    std::vsnprintf(source->message, kMostText, format, values);
  }
  return 1;
}

int TiffFile::on_warning(TIFF* tiff, void* user, const char* module, const char* format,
                         std::va_list values) {
  return static_cast<Source*>(user)->minds_warnings ? on_error(tiff, user, module, format, values)
                                                    : 1;
}

}  // namespace energon
