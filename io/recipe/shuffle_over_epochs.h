// The option shuffle_over_epochs, which also is a field of dataset.yaml and, as a multiplier, of
// metadatasets: one type, one parser, one spelling.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace energon {

/// When the slices of a dataset are shuffled. As text: "none" (null in YAML, None in Python), "-1",
/// or a number of epochs.
struct ShuffleOverEpochs {
  /// kNone: slices in their original order, in every epoch. kEpochs: reshuffled every `epochs`
  /// epochs, across all of these epochs together. kReplacement: drawn with replacement; the epoch
  /// never ends.
  enum class Mode : std::uint8_t { kNone, kEpochs, kReplacement };
  Mode mode = Mode::kEpochs;
  std::int64_t epochs = 1;  ///< at least 1; for kEpochs only

  bool operator==(const ShuffleOverEpochs&) const = default;
};

/// -1: with replacement. From 1 up: epochs. nullopt for other numbers.
std::optional<ShuffleOverEpochs> shuffle_over_epochs_of(std::int64_t number);

/// The same from text, which may be "none". nullopt for any other text.
std::optional<ShuffleOverEpochs> parse_shuffle_over_epochs(std::string_view text);

/// "none", "-1" or the number of epochs.
std::string to_string(const ShuffleOverEpochs& shuffle);

/// Combines the multipliers of nested datasets: kNone wins, then kReplacement; numbers are
/// multiplied. nullopt if the product overflows.
std::optional<ShuffleOverEpochs> multiply(const ShuffleOverEpochs& a, const ShuffleOverEpochs& b);

}  // namespace energon
