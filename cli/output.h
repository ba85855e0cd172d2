// The output of the program: results on standard output; warnings, errors and progress on standard
// error.

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json_fwd.hpp>

#include "io/bytes.h"

namespace energon::cli {

/// The reader has closed the output.
struct ClosedOutput {};

/// Standard output, for results, through one large buffer. One object per process. Not thread-safe.
///
/// A pipe that its reader closed (`energon run … | head`) is not a failure: print() then throws
/// ClosedOutput, which ends the program quietly.
class Output {
 public:
  Output() = default;
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  /// Appends `text` to the buffer, which is written out when full. Throws ClosedOutput, Error
  /// (kIo).
  void write(std::string_view text);

  template <class... Args>
  void print(fmt::format_string<Args...> format, Args&&... args) {
    write(fmt::format(format, std::forward<Args>(args)...));
  }

  /// Writes out the buffer. Throws as write().
  void flush();

  /// True once output could not be written and was lost.
  bool is_broken() const { return is_broken_; }

  /// Calls flush() if the last flush was some time ago, so that the reader of a slow stream sees
  /// each line at once and a fast stream is written in large pieces.
  void flush_if_idle();

 private:
  std::string buffer_;
  bool is_broken_ = false;
  std::chrono::steady_clock::time_point last_flush_ = {};
};

/// The process's output. main() writes out the rest at the end.
Output& output();

/// Each prints one line on standard error, such as "energon: warning: …".
void print_warning(std::string_view message);
void print_error(std::string_view message);

void print_warnings(const std::vector<std::string>& warnings);

/// Quotes untrusted text so that it is safe for a terminal and for JSON.
std::string quoted_json(std::string_view text);

/// `json` over several lines, without a final newline. Bytes that are not UTF-8 are replaced.
std::string indented_json(const nlohmann::ordered_json& json);

// Human-readable numbers.
std::string with_separators(std::int64_t value);                ///< 1,234,567
std::string human_bytes(std::uint64_t bytes);                   ///< "1.20 GiB"
std::string plural(std::int64_t count, std::string_view noun);  ///< "1 shard", "1,234 shards"
std::string plural(std::int64_t count, std::string_view noun,
                   std::string_view several);  ///< irregular: "2 batches"

/// Writes `bytes` to `path`, or to standard output if it is "-". Throws Error (kIo), ClosedOutput.
void save_bytes(const std::string& path, ByteView bytes);

/// Shows the progress of a long command on standard error: a bar that is redrawn on a terminal,
/// otherwise a plain line every few seconds. Not thread-safe.
class ProgressLine {
 public:
  enum class Mode { kShow, kHide };
  static Mode mode(bool is_shown) { return is_shown ? Mode::kShow : Mode::kHide; }

  /// `unit` names what is counted, such as "shards".
  ProgressLine(std::string title, std::string unit, Mode mode);
  /// Ends the line on a terminal.
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// `total` is nullopt if unknown. `details` follows the counts, such as "1,234 samples/s". Cheap
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
