#include "cli/output.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>

#include <nlohmann/json.hpp>

#include "io/error.h"
#include "io/file.h"

namespace energon::cli {

// --- Output ---

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

void print_warnings(const std::vector<std::string>& warnings) {
  for (const std::string& warning : warnings) {
    print_warning(warning);
  }
}

std::string quoted_json(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string indented_json(const nlohmann::ordered_json& json) {
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
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

std::string plural(std::int64_t count, std::string_view noun, std::string_view several) {
  return fmt::format("{} {}", with_separators(count), count == 1 ? noun : several);
}

void save_bytes(const std::string& path, ByteView bytes) {
  if (path == "-") {
    output().write(as_text(bytes));
  } else {
    write_file_atomically(path, bytes);
  }
}

// --- ProgressLine ---

namespace {

constexpr std::size_t kBarWidth = 24;
constexpr std::chrono::milliseconds kTerminalInterval{100};
constexpr std::chrono::milliseconds kPlainInterval{2000};

std::string bar(std::int64_t done, std::int64_t total) {
  const double share = total > 0 ? static_cast<double>(done) / static_cast<double>(total) : 1.0;
  const auto filled = static_cast<std::size_t>(std::clamp(share, 0.0, 1.0) * kBarWidth);
  return fmt::format("[{}{}] {:3}%", std::string(filled, '#'), std::string(kBarWidth - filled, '.'),
                     static_cast<int>(share * 100));
}

}  // namespace

ProgressLine::ProgressLine(std::string title, std::string unit, Mode mode)
    : title_(std::move(title)),
      unit_(std::move(unit)),
      is_shown_(mode == Mode::kShow),
      is_terminal_(::isatty(STDERR_FILENO) == 1),
      start_(std::chrono::steady_clock::now()) {}

ProgressLine::~ProgressLine() {
  if (is_shown_ && is_terminal_ && last_draw_) {
    std::fputc('\n', stderr);
  }
}

double ProgressLine::elapsed_seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

bool ProgressLine::is_due() const {
  const auto interval = is_terminal_ ? kTerminalInterval : kPlainInterval;
  return is_shown_ && std::chrono::steady_clock::now() - last_draw_.value_or(start_) >= interval;
}

void ProgressLine::update(std::int64_t done, std::optional<std::int64_t> total,
                          std::string_view details) {
  const bool completes = total == done && !is_complete_;
  if (!is_shown_ || (!completes && !is_due())) {
    return;
  }
  is_complete_ = total == done;
  std::string text = title_ + " ";
  if (total) {
    text += fmt::format("{} {}/{} {}", bar(done, *total), with_separators(done),
                        with_separators(*total), unit_);
  } else {
    text += fmt::format("{} {}", with_separators(done), unit_);
  }
  if (!details.empty()) {
    text += fmt::format(", {}", details);
  }
  draw(text);
  last_draw_ = std::chrono::steady_clock::now();
}

void ProgressLine::draw(std::string_view text) {
  if (is_terminal_) {
    const std::size_t blanks = drawn_width_ > text.size() ? drawn_width_ - text.size() : 0;
    std::fputs(fmt::format("\r{}{}", text, std::string(blanks, ' ')).c_str(), stderr);
    drawn_width_ = text.size();
  } else {
    std::fputs(fmt::format("{}\n", text).c_str(), stderr);
  }
  std::fflush(stderr);
}

}  // namespace energon::cli
