#include "cli/show/output.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>

#include <nlohmann/json.hpp>

#include "io/error.h"
#include "io/file.h"

namespace energon::cli {
namespace {

constexpr std::size_t kBufferBytes = 1 << 16;
constexpr std::chrono::milliseconds kIdleAfter{50};

void print_line(std::string_view kind, std::string_view message) {
  const std::string line = fmt::format("energon: {}: {}\n", kind, message);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace

void Output::write(std::string_view text) {
  buffer_ += text;
  if (buffer_.size() >= kBufferBytes) {
    flush();
  }
}

void Output::flush() {
  if (const int error = try_write_all(STDOUT_FILENO, as_bytes(buffer_)); error != 0) {
    buffer_.clear();
    is_broken_ = true;
    if (error == EPIPE) {
      throw ClosedOutput();
    }
    throw io_error("cannot write to standard output", error);
  }
  buffer_.clear();
  last_flush_ = std::chrono::steady_clock::now();
}

void Output::flush_if_idle() {
  if (std::chrono::steady_clock::now() - last_flush_ >= kIdleAfter) {
    flush();
  }
}

Output& output() {
  static Output instance;
  return instance;
}

void print_warning(std::string_view message) { print_line("warning", message); }
void print_error(std::string_view message) { print_line("error", message); }

std::string quoted_json(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string with_separators(std::int64_t value) {
  const std::string digits = std::to_string(value);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    const bool is_group_end = (digits.size() - i) % 3 == 0;
    if (is_group_end && i > 0 && digits[i - 1] != '-') {
      text += ',';
    }
    text += digits[i];
  }
  return text;
}

std::string human_bytes(std::uint64_t bytes) {
  constexpr std::array kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB"};
  if (bytes < 1024) {
    return fmt::format("{} bytes", bytes);
  }
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.2f} {}", value, kUnits[unit]);
}

std::string plural(std::int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", with_separators(count), noun, count == 1 ? "" : "s");
}

}  // namespace energon::cli
