#include "media/av/av_log.h"

#include <array>
#include <cstdarg>
#include <cstdio>
#include <mutex>
#include <string_view>
#include <utility>

#include <fmt/format.h>

extern "C" {
#include <libavutil/error.h>
#include <libavutil/log.h>
}

namespace energon {
namespace {

thread_local AvLogScope* current_log = nullptr;

// "h264: the message" without FFmpeg's addresses, which differ from run to run.
std::string log_line(void* source, const char* format, std::va_list arguments) {
  std::array<char, 512> text{};
  std::vsnprintf(text.data(), text.size(), format, arguments);
  std::string line = text.data();
  while (!line.empty() && (line.back() == '\n' || line.back() == '.' || line.back() == ' ')) {
    line.pop_back();
  }
  const auto* described = source == nullptr ? nullptr : *static_cast<const AVClass**>(source);
  const char* name = described == nullptr ? nullptr : described->item_name(source);
  return printable(name == nullptr || std::string_view(name) == "NULL"
                       ? line
                       : fmt::format("{}: {}", name, line));
}

void on_av_log(void* source, int level, const char* format, std::va_list arguments) noexcept {
  if (current_log == nullptr) {
    av_log_default_callback(source, level, format, arguments);
    return;
  }
  if (level > AV_LOG_ERROR) {
    return;
  }
  try {
    current_log->keep(log_line(source, format, arguments));
  } catch (...) {  // no memory for the text: the code of the failed call still says what failed
  }
}

ErrorCode code_of(int code, const std::string& cause) {
  if (code == AVERROR(ENOMEM) || cause.find("max pixel count") != std::string::npos) {
    return ErrorCode::kResourceExhausted;
  }
  switch (code) {
    case AVERROR_PATCHWELCOME:
    case AVERROR_DECODER_NOT_FOUND:
    case AVERROR_DEMUXER_NOT_FOUND:
    case AVERROR(ENOSYS):
      return ErrorCode::kUnsupported;
    default:
      return ErrorCode::kCorruptData;
  }
}

}  // namespace

AvLogScope::AvLogScope() : outer_(std::exchange(current_log, this)) {
  static std::once_flag installed;
  std::call_once(installed, [] { av_log_set_callback(on_av_log); });
}

AvLogScope::~AvLogScope() { current_log = outer_; }

Error av_error(std::string what, int code, const AvLogScope& log) {
  std::array<char, AV_ERROR_MAX_STRING_SIZE> text{};
  av_strerror(code, text.data(), text.size());
  const std::string& cause = log.last_error();
  const char* between = cause.empty() ? "" : ": ";
  return Error(code_of(code, cause), fmt::format("{}{}{} ({})", what, between, cause, text.data()));
}

}  // namespace energon
