#include "cli/show/progress_line.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include <fmt/format.h>

#include "cli/show/output.h"

namespace energon::cli {
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
