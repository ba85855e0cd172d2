#include "media/image/png_session.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace energon {
namespace {

constexpr png_uint_32 kMostPngSize =
    0x7FFFFFFF;  // DecodeLimits are checked instead of libpng's own

}  // namespace

PngSession::PngSession(ByteView encoded)
    : state_{.encoded = encoded, .offset = 0, .message = {}, .jump = {}} {
  const auto begin = [this] {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, &state_, on_error, on_warning);
    info_ = png_ == nullptr ? nullptr : png_create_info_struct(png_);
    if (info_ == nullptr) {
      return;
    }
    png_set_read_fn(png_, &state_, on_read);
    png_set_user_limits(png_, kMostPngSize, kMostPngSize);
    // A negative count: all chunks but those that pixels are made of.
    png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
    png_read_info(png_, info_);
  };
  const bool done = runs_to_end(state_.jump, begin);
  if (!done || info_ == nullptr) {
    const Error error =
        done ? Error(ErrorCode::kResourceExhausted, "no memory is left for libpng") : failure();
    png_destroy_read_struct(&png_, &info_, nullptr);  // there will be no destructor
    throw error;
  }
}

PngSession::~PngSession() { png_destroy_read_struct(&png_, &info_, nullptr); }

void PngSession::on_error(png_struct* png, const char* message) {
  auto* state = static_cast<State*>(png_get_error_ptr(png));
  const std::size_t size = std::min(std::strlen(message), kMostText - 1);
  std::memcpy(state->message, message, size);
  state->message[size] = '\0';
  std::longjmp(state->jump, 1);
}

void PngSession::on_warning(png_struct* /*png*/, const char* /*message*/) {}

void PngSession::on_read(png_struct* png, unsigned char* to, std::size_t size) {
  auto* state = static_cast<State*>(png_get_io_ptr(png));
  if (size > state->encoded.size() - state->offset) {
    png_error(png, "the data end too early");
  }
  std::memcpy(to, state->encoded.data() + state->offset, size);
  state->offset += size;
}

Error PngSession::failure() const {
  const std::string message = printable(state_.message);
  const ErrorCode code = message.find("emory") != std::string::npos ? ErrorCode::kResourceExhausted
                                                                    : ErrorCode::kCorruptData;
  const std::uint32_t row = png_ == nullptr ? 0 : png_get_current_row_number(png_);
  return {code, fmt::format("the PNG is damaged at row {}, byte {} of {}: {}", row, state_.offset,
                            state_.encoded.size(), message)};
}

}  // namespace energon
