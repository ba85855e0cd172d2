// Shows the progress of a long command on standard error: a bar that is redrawn on a terminal,
// otherwise a plain line every few seconds.

#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace energon::cli {

/// Not thread-safe.
class ProgressLine {
 public:
  enum class Mode { kShow, kHide };

  /// `unit`: what is counted, such as "shards".
  ProgressLine(std::string title, std::string unit, Mode mode);
  /// Ends the line on a terminal.
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// `total` is absent if unknown. `details` follows the counts, such as "1,234 samples/s". Cheap
  /// unless it is time to redraw.
  void update(std::int64_t done, std::optional<std::int64_t> total, std::string_view details = {});

  /// Since construction.
  double elapsed_seconds() const;

  /// Whether the next update() draws; if not, the caller need not build `details`.
  bool is_due() const;

 private:
  void draw(std::string_view text);

  const std::string title_;
  const std::string unit_;
  const bool is_shown_;
  const bool is_terminal_;
  const std::chrono::steady_clock::time_point start_;

  std::optional<std::chrono::steady_clock::time_point> last_draw_;
  bool is_complete_ = false;  // drawn with done == total
  std::size_t drawn_width_ = 0;
};

}  // namespace energon::cli
