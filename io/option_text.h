// Names and values of options as text: on the command line, in error messages and in documentation.

#pragma once

#include <charconv>
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>

namespace energon {

/// Who set an option, and so which spelling an error message uses. Messages for C++ keep the names
/// of the members: batch_size.
enum class OptionCaller : std::uint8_t {
  kCommandLine,  ///< --batch-size
  kPython,       ///< batch_size=
};

/// The option `name` (batch_size) as `caller` spells it.
std::string option_name(std::string_view name, OptionCaller caller);

/// The number that all of `text` is; nullopt for any other text.
template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stop == end ? std::optional(number) : std::nullopt;
}

/// A number of bytes: 4096, 16KiB, 512MiB, 2GiB or 1TiB. nullopt for any other text, and for more
/// bytes than fit in 64 bits.
std::optional<std::uint64_t> parse_bytes(std::string_view text);
/// The same in the largest unit that gives a whole number: "512MiB", "4096KiB" as "4MiB".
std::string bytes_text(std::uint64_t bytes);

/// A time in seconds, or with a unit: 60, 0.5, 500ms, 60s, 5min, 2h; "none" for
/// milliseconds::max(). Rounded down to milliseconds. nullopt for any other text, for negative
/// times, and for more than 1e12 seconds.
std::optional<std::chrono::milliseconds> parse_duration(std::string_view text);
/// The same: "60s", "500ms", "none".
std::string duration_text(std::chrono::milliseconds duration);

/// The one of `candidates` that `name` probably misspells: the closest in edits (insert, delete,
/// replace a character), if at most a third of its characters differ. nullopt if there is none.
std::optional<std::string> nearest_name(std::string_view name,
                                        std::span<const std::string> candidates);

}  // namespace energon
