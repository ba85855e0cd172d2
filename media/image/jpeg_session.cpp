#include "media/image/jpeg_session.h"

#include <cstdint>
#include <functional>
#include <string>

#include <fmt/format.h>
#include <jerror.h>

namespace energon {
namespace {

constexpr int kMostScans = 500;

bool is_harmless(int warning) {
  switch (warning) {
    case JWRN_JFIF_MAJOR:
    case JWRN_ADOBE_XFORM:
    case JWRN_BOGUS_ICC:
    case JWRN_EXTRANEOUS_DATA:
    case JWRN_NOT_SEQUENTIAL:
      return true;
    default:
      return false;
  }
}

ErrorCode code_of(int message) {
  switch (message) {
    case JERR_OUT_OF_MEMORY:
      return ErrorCode::kResourceExhausted;
    case JERR_ARITH_NOTIMPL:
    case JERR_BAD_PRECISION:
    case JERR_CCIR601_NOTIMPL:
    case JERR_COMPONENT_COUNT:
    case JERR_CONVERSION_NOTIMPL:
    case JERR_FRACT_SAMPLE_NOTIMPL:
    case JERR_IMAGE_TOO_BIG:
    case JERR_NOTIMPL:
    case JERR_NOT_COMPILED:
    case JERR_SOF_UNSUPPORTED:
      return ErrorCode::kUnsupported;
    default:
      return ErrorCode::kCorruptData;
  }
}

void be_silent(j_common_ptr /*libjpeg*/) {}

}  // namespace

JpegSession::JpegSession(ByteView encoded) : encoded_(encoded), libjpeg_{}, errors_{}, progress_{} {
  libjpeg_.err = jpeg_std_error(&errors_.base);
  errors_.base.error_exit = on_error;
  errors_.base.emit_message = on_warning;
  errors_.base.output_message = be_silent;
  progress_.progress_monitor = on_progress;
  const auto begin = [this] {
    jpeg_create_decompress(&libjpeg_);
    libjpeg_.progress = &progress_;
    jpeg_mem_src(&libjpeg_, reinterpret_cast<const unsigned char*>(encoded_.data()),
                 static_cast<unsigned long>(encoded_.size()));
    jpeg_read_header(&libjpeg_, TRUE);
  };
  if (!runs_to_end(errors_.jump, begin)) {
    const Error error = failure();
    jpeg_destroy_decompress(&libjpeg_);  // there will be no destructor
    throw error;
  }
}

JpegSession::~JpegSession() { jpeg_destroy_decompress(&libjpeg_); }

void JpegSession::on_error(j_common_ptr libjpeg) {
  auto* errors = reinterpret_cast<Errors*>(libjpeg->err);
  errors->base.format_message(libjpeg, errors->message);
  std::longjmp(errors->jump, 1);
}

void JpegSession::on_warning(j_common_ptr libjpeg, int level) {
  if (level < 0 && !is_harmless(libjpeg->err->msg_code)) {
    on_error(libjpeg);
  }
}

void JpegSession::on_progress(j_common_ptr libjpeg) {
  if (reinterpret_cast<j_decompress_ptr>(libjpeg)->input_scan_number > kMostScans) {
    auto* errors = reinterpret_cast<Errors*>(libjpeg->err);
    errors->too_many_scans = true;
    std::longjmp(errors->jump, 1);
  }
}

// What libjpeg has not taken yet is behind this place. When it runs out of bytes, its source goes
// on with an end marker of its own.
std::size_t JpegSession::offset() const {
  if (libjpeg_.src == nullptr || libjpeg_.src->next_input_byte == nullptr) {
    return 0;
  }
  const auto* begin = reinterpret_cast<const JOCTET*>(encoded_.data());
  const JOCTET* next = libjpeg_.src->next_input_byte;
  const bool inside =
      std::less_equal<>()(begin, next) && std::less_equal<>()(next, begin + encoded_.size());
  return inside ? static_cast<std::size_t>(next - begin) : encoded_.size();
}

Error JpegSession::failure() const {
  if (errors_.too_many_scans) {
    return {ErrorCode::kResourceExhausted,
            fmt::format("the JPEG has more than {} scans, none that is meant for use does",
                        kMostScans)};
  }
  const ErrorCode code = code_of(errors_.base.msg_code);
  const std::string place =
      libjpeg_.output_height == 0
          ? fmt::format("in its header, at byte {} of {}", offset(), encoded_.size())
          : fmt::format("at row {} of {}, byte {} of {}", libjpeg_.output_scanline,
                        libjpeg_.output_height, offset(), encoded_.size());
  const char* fault =
      code == ErrorCode::kUnsupported ? "is of a kind that is not read" : "is damaged";
  return {code, fmt::format("the JPEG {} {}: {}", fault, place, errors_.message)};
}

}  // namespace energon
